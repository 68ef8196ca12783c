//! Compiles the launcher (crates/metier-launch/src/main.rs, no dependencies) with rustc alone and leaves it in
//! OUT_DIR, from where `launch.rs` embeds it: one file to copy to a board is the whole product.

#![allow(clippy::expect_used, clippy::panic, reason = "a build script stops the build by panicking")]

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let source =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../metier-launch/src");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("metier-launch");
    let mut rustc = Command::new(env::var_os("RUSTC").expect("set by cargo"));
    rustc
        .args(["--edition=2024", "--crate-name=metier_launch", "--crate-type=bin"])
        .args(["-Copt-level=s", "-Cpanic=abort", "-Clto=fat", "-Ccodegen-units=1", "-Cstrip=symbols"])
        // Without shared libraries: it also runs as the first process of containers, which may have none or others.
        .args(["-Ctarget-feature=+crt-static", "-Crelocation-model=static"])
        .arg(format!("--target={}", env::var("TARGET").expect("set by cargo")))
        .arg("-o")
        .arg(&output)
        .arg(source.join("main.rs"));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut flag = std::ffi::OsString::from("-Clinker=");
        flag.push(linker);
        rustc.arg(flag);
    }
    let status = rustc.status().unwrap_or_else(|error| panic!("cannot run rustc for the launcher: {error}"));
    assert!(status.success(), "the launcher did not compile: {status}");
}
