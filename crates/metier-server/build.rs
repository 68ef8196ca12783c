//! The page is built by Node into `web/dist`, which is not in git. `cargo build` must work without it, and
//! the embedding macro wants the folder to exist: so an absent folder is made, empty.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    std::fs::create_dir_all(&dist)?;
    println!("cargo:rerun-if-changed={}", dist.display());
    println!("cargo:rerun-if-changed=build.rs");
    Ok(())
}
