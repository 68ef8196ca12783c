//! Detection of the board kind.

use metier_linux::{Roots, file};

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Jetson,
    RaspberryPi,
    Other,
}

/// Detects the board kind from `compatible` in its device tree.
pub fn kind(roots: &Roots) -> Kind {
    let compatible = of_tree(roots, "compatible").unwrap_or_default();
    if compatible.contains("nvidia,tegra") {
        Kind::Jetson
    } else if compatible.contains("raspberrypi,") {
        Kind::RaspberryPi
    } else {
        Kind::Other
    }
}

/// Reads a property of the device tree.
pub(crate) fn of_tree(roots: &Roots, name: &str) -> Option<String> {
    let folders = [roots.proc.join("device-tree"), roots.sys.join("firmware/devicetree/base")];
    folders.iter().find_map(|folder| file::text(folder.join(name)))
}
