//! Detection of the board kind.

use metier_linux::{KernelRoots, kernel_file};

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoardKind {
    Jetson,
    RaspberryPi,
    Other,
}

/// Detects the board kind from `compatible` in its device tree.
pub fn detect_board_kind(roots: &KernelRoots) -> BoardKind {
    let compatible = device_tree_property(roots, "compatible").unwrap_or_default();
    if compatible.contains("nvidia,tegra") {
        BoardKind::Jetson
    } else if compatible.contains("raspberrypi,") {
        BoardKind::RaspberryPi
    } else {
        BoardKind::Other
    }
}

/// Reads a property of the device tree.
pub(crate) fn device_tree_property(roots: &KernelRoots, name: &str) -> Option<String> {
    let folders = [roots.proc.join("device-tree"), roots.sys.join("firmware/devicetree/base")];
    folders.iter().find_map(|folder| kernel_file::read_text(folder.join(name)))
}
