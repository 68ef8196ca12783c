//! Creates `web/dist` if it is absent. Node builds the page there, and the folder is not in git.
//! The embedding macro needs an existing folder, and `cargo build` must work without Node.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    std::fs::create_dir_all(&dist)?;
    println!("cargo:rerun-if-changed={}", dist.display());
    println!("cargo:rerun-if-changed=build.rs");
    Ok(())
}
