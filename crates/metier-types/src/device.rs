//! A machine or board.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{RecordSchema, VersionedRecord};
use crate::{Bytes, DeviceId, ExtraFields, Hertz, MissingFields, UtcTimestamp};

/// Reference to a device in other records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceRef {
    /// Id of the device.
    pub id: DeviceId,
    /// Display name.
    pub name: String,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Type of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DeviceClass {
    /// A physical server or workstation.
    Machine,
    /// A virtual machine.
    VirtualMachine,
    /// A container that sees only part of its machine.
    Container,
    /// A single-board computer.
    Board,
    /// Could not be determined.
    Unknown,
}

/// The processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuDescription {
    /// Model name, as the kernel reports it.
    pub model: Option<String>,
    /// Instruction set, for example `x86_64`.
    pub architecture: String,
    /// Number of processor packages.
    pub sockets: Option<u32>,
    /// Number of physical cores.
    pub cores: Option<u32>,
    /// Number of online hardware threads.
    pub threads: u32,
    /// Highest frequency reported by the hardware.
    pub max_frequency_hertz: Option<Hertz>,
    /// Caches of the first core, innermost first.
    #[serde(default)]
    pub caches: Vec<CpuCache>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// One level of cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuCache {
    /// Level: 1, 2, 3 …
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size of the cache.
    pub size_bytes: Bytes,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A machine or board and its hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// `metier.device/1`.
    pub schema: RecordSchema<Device>,
    /// Stable over restarts, unique among machines; derived from the machine id without revealing
    /// it.
    pub id: DeviceId,
    /// Host name, unless the user set another name.
    pub name: String,
    /// Type of machine.
    pub class: DeviceClass,
    /// Vendor and product, from firmware or device tree.
    pub product: Option<String>,
    /// The processor.
    pub cpu: CpuDescription,
    /// Installed memory visible to the kernel.
    pub memory_bytes: Option<Bytes>,
    /// Size of swap space.
    pub swap_bytes: Option<Bytes>,
    /// Distribution, for example `Debian GNU/Linux 12 (bookworm)`.
    pub os: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Names of accelerators.
    #[serde(default)]
    pub accelerators: Vec<String>,
    /// Readable energy and temperature sensors.
    #[serde(default)]
    pub sensors: Vec<String>,
    /// Time of this reading.
    pub seen: UtcTimestamp,
    /// Facts that could not be determined, with the reason.
    #[serde(default)]
    pub missing: MissingFields,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl VersionedRecord for Device {
    const SCHEMA: &'static str = "metier.device/1";
}

impl Device {
    /// Reference to this device for other records.
    pub fn reference(&self) -> DeviceRef {
        DeviceRef { id: self.id.clone(), name: self.name.clone(), extra: ExtraFields::new() }
    }
}
