//! The power mode of a Jetson, which limits the number of cores and the clocks. Measurements in one
//! mode do not transfer to another.

use metier_linux::{KernelRoots, kernel_file};

/// The active mode as number and, if its table names it, name: `2 MODE_15W_6CORE`. `None` on other
/// boards.
pub fn power_mode(roots: &KernelRoots) -> Option<String> {
    // State that the vendor's `nvpmodel` persists over a restart: `pmode:0002`, and lines about the
    // fan.
    let status = kernel_file::read_text(roots.var().join("lib/nvpmodel/status"))?;
    let mode = status.lines().find_map(|line| line.trim().strip_prefix("pmode:"))?;
    let number: u32 = mode.trim().parse().ok()?;
    let table = kernel_file::read_text(roots.etc.join("nvpmodel.conf")).unwrap_or_default();
    Some(mode_name(&table, number).map_or_else(|| number.to_string(), |name| format!("{number} {name}")))
}

/// The name in a line such as `< POWER_MODEL ID=2 NAME=MODE_15W_6CORE >`.
fn mode_name(table: &str, number: u32) -> Option<&str> {
    let line = table.lines().map(str::trim).find(|line| {
        let mut words = line.split_whitespace();
        line.starts_with('<')
            && words.any(|word| word == "POWER_MODEL")
            && words.any(|word| word.strip_prefix("ID=").and_then(|id| id.parse().ok()) == Some(number))
    })?;
    line.split_whitespace().find_map(|word| word.strip_prefix("NAME=")).filter(|name| name.len() <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_told_by_number_and_name_and_absent_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let roots = KernelRoots { etc: folder.path().join("etc"), ..KernelRoots::default() };
        assert_eq!(power_mode(&roots), None);
        let status = folder.path().join("var/lib/nvpmodel");
        std::fs::create_dir_all(&status).unwrap();
        std::fs::write(status.join("status"), "pmode:0008\nfmode:fanNull\n").unwrap();
        assert_eq!(power_mode(&roots).as_deref(), Some("8"));
        std::fs::create_dir_all(&roots.etc).unwrap();
        let table = "# modes\n< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_0 1\n< POWER_MODEL ID=8 NAME=MODE_20W_6CORE >\n";
        std::fs::write(roots.etc.join("nvpmodel.conf"), table).unwrap();
        assert_eq!(power_mode(&roots).as_deref(), Some("8 MODE_20W_6CORE"));
        std::fs::write(status.join("status"), "nonsense\n").unwrap();
        assert_eq!(power_mode(&roots), None);
    }
}
