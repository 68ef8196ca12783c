//! Throttling flags of a Raspberry Pi's firmware.

use serde::{Deserialize, Serialize};

use crate::KernelRoots;
use crate::kernel_file::KernelFile;

/// Paths of the firmware's flags, by kernel.
const FLAG_FILES: [&str; 2] = [
    "devices/platform/soc/soc:firmware/get_throttled",
    "devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled",
];

/// Present throttling state, and whether there was any since the start of the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FirmwareThrottling {
    /// The supply voltage is too low.
    pub under_voltage: bool,
    /// The clock is capped.
    pub frequency_capped: bool,
    /// The cores are slowed down.
    pub throttled: bool,
    /// The soft temperature limit is active.
    pub soft_temperature_limit: bool,
    /// Any of these was active since boot.
    pub since_boot: bool,
}

impl FirmwareThrottling {
    /// Whether the board is throttled now.
    pub fn is_active(&self) -> bool {
        self.under_voltage || self.frequency_capped || self.throttled || self.soft_temperature_limit
    }

    /// Parses the firmware's flags, hexadecimal with or without `0x`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let flags = u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()?;
        let bit = |number: u32| flags & (1 << number) != 0;
        Some(Self {
            under_voltage: bit(0),
            frequency_capped: bit(1),
            throttled: bit(2),
            soft_temperature_limit: bit(3),
            since_boot: (16..20).any(bit),
        })
    }
}

pub fn open_flags(roots: &KernelRoots) -> Option<KernelFile> {
    FLAG_FILES.iter().find_map(|path| KernelFile::open(roots.sys.join(path)))
}

pub fn read_flags(held: &mut KernelFile) -> Option<FirmwareThrottling> {
    FirmwareThrottling::parse(held.read_text()?)
}
