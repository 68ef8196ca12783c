//! A machine or board.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{Schema, Versioned};
use crate::{Bytes, DeviceId, Extra, Hertz, MissingFields, Timestamp};

/// A device as other records name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceRef {
    /// Its identity.
    pub id: DeviceId,
    /// What people call it.
    pub name: String,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What sort of machine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DeviceClass {
    /// A physical server or workstation.
    Machine,
    /// A virtual machine.
    VirtualMachine,
    /// A container that sees only a part of its machine.
    Container,
    /// A single-board computer.
    Board,
    /// Could not be told.
    Unknown,
}

/// The processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Marketing name, as the kernel shows it.
    pub model: Option<String>,
    /// Instruction set, for example `x86_64`.
    pub architecture: String,
    /// Packages.
    pub sockets: Option<u32>,
    /// Physical cores.
    pub cores: Option<u32>,
    /// Hardware threads that are online.
    pub threads: u32,
    /// Highest frequency that the hardware states.
    pub max_frequency_hertz: Option<Hertz>,
    /// Caches of the first core, innermost first.
    #[serde(default)]
    pub caches: Vec<Cache>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One level of cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// 1, 2, 3 …
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub size_bytes: Bytes,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A machine or board: who it is and what it is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// `metier.device/1`.
    pub schema: Schema<Device>,
    /// Stable over restarts, unique among machines; derived from the machine id, which it does not reveal.
    pub id: DeviceId,
    /// The host name, unless the user gave another.
    pub name: String,
    /// What sort of machine.
    pub class: DeviceClass,
    /// Vendor and product, as firmware or device tree say.
    pub product: Option<String>,
    /// The processor.
    pub cpu: Cpu,
    /// Installed memory as the kernel sees it.
    pub memory_bytes: Option<Bytes>,
    /// Swap space.
    pub swap_bytes: Option<Bytes>,
    /// Distribution, for example `Debian GNU/Linux 12 (bookworm)`.
    pub os: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Accelerators by name.
    #[serde(default)]
    pub accelerators: Vec<String>,
    /// Energy and temperature sensors that can be read here.
    #[serde(default)]
    pub sensors: Vec<String>,
    /// When this was read.
    pub seen: Timestamp,
    /// What could not be found out, and why.
    #[serde(default)]
    pub missing: MissingFields,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for Device {
    const SCHEMA: &'static str = "metier.device/1";
}

impl Device {
    /// As other records name it.
    pub fn reference(&self) -> DeviceRef {
        DeviceRef { id: self.id.clone(), name: self.name.clone(), extra: Extra::new() }
    }
}
