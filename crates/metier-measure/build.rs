//! Compiles the launcher and the gate (crates/metier-launch/src, no dependencies) with rustc alone
//! and leaves them in OUT_DIR, from where `launch.rs` and `runner/container` embed them: one file
//! to copy to a board is the whole product. Both are linked statically, since they run in images
//! that have no libraries at all.

#![allow(clippy::expect_used, clippy::panic, reason = "a build script stops the build by panicking")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let source =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../metier-launch/src");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    compile(&source.join("main.rs"), "metier-launch");
    compile(&source.join("gate.rs"), "metier-gate");
}

fn compile(source: &Path, name: &str) {
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join(name);
    let mut rustc = Command::new(env::var_os("RUSTC").expect("set by cargo"));
    rustc
        .args(["--edition=2024", "--crate-type=bin"])
        .arg(format!("--crate-name={}", name.replace('-', "_")))
        .args(["-Copt-level=z", "-Cpanic=abort", "-Clto=fat", "-Ccodegen-units=1", "-Cstrip=symbols"])
        // Without shared libraries: both also run as the first process of containers, which may
        // have none or others.
        .args(["-Ctarget-feature=+crt-static", "-Crelocation-model=static"])
        // A launcher that is carried to another machine must fit into 1 MiB.
        .args(["-Clink-arg=-Wl,-z,norelro", "-Clink-arg=-Wl,-z,noseparate-code"])
        .args(["-Clink-arg=-Wl,--build-id=none", "-Clink-arg=-Wl,--no-eh-frame-hdr"])
        .arg(format!("--target={}", env::var("TARGET").expect("set by cargo")))
        .arg("-o")
        .arg(&output)
        .arg(source);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut flag = std::ffi::OsString::from("-Clinker=");
        flag.push(linker);
        rustc.arg(flag);
    }
    let status = rustc.status().unwrap_or_else(|error| panic!("cannot run rustc for {name}: {error}"));
    assert!(status.success(), "{name} did not compile: {status}");
}
