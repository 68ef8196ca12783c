//! Search for ONNX Runtime's shared library on this host.
//!
//! Its own packages install it into the library folders. Most hosts have it from the Python
//! package, which contains a complete library.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Variables that name the library; metier's own comes first.
pub const LIBRARY_VARIABLES: [&str; 2] = ["METIER_ONNXRUNTIME", "ORT_DYLIB_PATH"];

/// How to provide a missing library.
pub const FIX: &str = "install it (`pip install onnxruntime` contains it), or name its file with --onnxruntime or METIER_ONNXRUNTIME";

/// Largest number of folder entries read.
const MAX_FOLDER_ENTRIES: usize = 100_000;

/// Path of the library: the user's choice, else a variable's, else the newest in the first default
/// folder with one.
pub fn find_library(given: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(given) = given {
        return Some(given.to_path_buf());
    }
    let named = LIBRARY_VARIABLES.iter().filter_map(|name| variable(name)).find(|value| !value.is_empty());
    if let Some(named) = named {
        return Some(named.into());
    }
    search_folders(variable).iter().find_map(|folder| newest_library(folder))
}

fn search_folders(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = variable("LD_LIBRARY_PATH")
        .map(|paths| std::env::split_paths(&paths).filter(|path| path.is_absolute()).collect())
        .unwrap_or_default();
    let triple = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    all.extend(
        ["/usr/local/lib", &triple, "/usr/lib64", "/usr/lib", "/opt/onnxruntime/lib"].map(PathBuf::from),
    );
    let mut pythons: Vec<PathBuf> = Vec::new();
    pythons.extend(variable("VIRTUAL_ENV").map(|folder| PathBuf::from(folder).join("lib")));
    pythons.extend(variable("CONDA_PREFIX").map(|folder| PathBuf::from(folder).join("lib")));
    pythons.extend(variable("HOME").map(|folder| PathBuf::from(folder).join(".local/lib")));
    pythons.extend(["/usr/local/lib", "/usr/lib"].map(PathBuf::from));
    for folder in pythons {
        let mut versions: Vec<PathBuf> =
            list_folder(&folder).filter(|path| is_named(path, "python3")).collect();
        versions.sort();
        for version in versions.into_iter().rev() {
            for packages in ["site-packages", "dist-packages"] {
                all.push(version.join(packages).join("onnxruntime/capi"));
            }
        }
    }
    all
}

fn list_folder(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .take(MAX_FOLDER_ENTRIES)
        .flatten()
        .map(|entry| entry.path())
}

fn is_named(path: &Path, begin: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin))
}

/// The library with the highest version in a folder.
fn newest_library(folder: &Path) -> Option<PathBuf> {
    let version = |path: &Path| -> Option<Vec<u32>> {
        let name = path.file_name()?.to_str()?.strip_prefix("libonnxruntime.so")?;
        name.split('.').skip(1).map(|part| part.parse().ok()).collect()
    };
    let found = list_folder(folder).filter_map(|path| Some((version(&path)?, path)));
    found.filter(|(_, path)| path.is_file()).max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_library_of_a_python_package_is_found_and_a_named_one_goes_before() {
        let home = std::env::temp_dir().join(format!("metier-library-{}", std::process::id()));
        let capi = home.join("lib/python3.11/site-packages/onnxruntime/capi");
        std::fs::create_dir_all(&capi).unwrap();
        for name in
            ["libonnxruntime.so.1.9.0", "libonnxruntime.so.1.31.1", "libonnxruntime_providers_shared.so"]
        {
            std::fs::write(capi.join(name), "").unwrap();
        }
        let venv = |name: &str| (name == "VIRTUAL_ENV").then(|| home.clone().into_os_string());
        let all = search_folders(venv);
        assert!(all.contains(&capi), "{all:?}");
        assert_eq!(newest_library(&capi), Some(capi.join("libonnxruntime.so.1.31.1")));
        let named = |name: &str| (name == "ORT_DYLIB_PATH").then(|| OsString::from("/x/y.so"));
        assert_eq!(find_library(None, named), Some("/x/y.so".into()));
        assert_eq!(find_library(Some(Path::new("/z.so")), named), Some("/z.so".into()));
        std::fs::remove_dir_all(&home).unwrap();
    }
}
