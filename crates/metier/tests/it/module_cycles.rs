//! The top-level modules of a crate form no import cycle: files and folders directly under `src`,
//! joined by paths that begin with `crate::`, or with as many `super::` as lead to the crate's
//! root. Tests do not count: `#[cfg(test)]` items, `tests.rs` files and `tests` folders.
//!
//! The reader is a tokenizer, not a compiler: paths that macros assemble, and names that the
//! crate's root re-exports, are not followed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::crate_table::{CrateGraph as ModuleGraph, root, shortest_cycle};
use crate::source_file::{SourceFile, imports, is_product, module_path, rust_files};

/// The import graph of a crate's top-level modules, and for each import the first place that has
/// it.
fn module_graph(files: &[(PathBuf, String)]) -> (ModuleGraph, Vec<(String, String, String)>) {
    let parsed: Vec<SourceFile> =
        files.iter().map(|(file, text)| SourceFile::new(module_path(file), text)).collect();
    let is_product = is_product(&parsed);
    let of_product = || parsed.iter().filter(|file| !file.path.is_empty() && is_product(file));
    let mut graph: ModuleGraph = of_product().map(|file| (file.path[0].clone(), BTreeSet::new())).collect();
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    let mut places = Vec::new();
    for (file, (name, _)) in parsed.iter().zip(files) {
        if file.path.is_empty() || !is_product(file) {
            continue;
        }
        let from = &file.path[0];
        for (to, line) in imports(file) {
            if to != *from && known.contains(&to) && graph.get_mut(from).unwrap().insert(to.clone()) {
                places.push((from.clone(), to, format!("{}:{line}", name.display())));
            }
        }
    }
    (graph, places)
}

/// The shortest import cycle with the place of each import, if there is one.
fn import_cycle(files: &[(PathBuf, String)]) -> Option<String> {
    let (graph, places) = module_graph(files);
    let cycle = shortest_cycle(&graph)?;
    let step = |pair: &[String]| {
        let (_, _, place) = places.iter().find(|(from, to, _)| *from == pair[0] && *to == pair[1]).unwrap();
        format!("{} -> {} ({place})", pair[0], pair[1])
    };
    Some(cycle.windows(2).map(step).collect::<Vec<_>>().join(", "))
}

fn cycles_of_all_crates() -> Vec<(String, Option<String>)> {
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let mut found: Vec<_> = crates
        .map(|entry| {
            let folder = entry.unwrap().path();
            let files = rust_files(&folder.join("src"));
            (folder.file_name().unwrap().to_str().unwrap().to_string(), import_cycle(&files))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn modules_of_a_crate_form_no_import_cycle() {
    let crates = cycles_of_all_crates();
    assert!(crates.iter().any(|(name, _)| name == "metier"), "no crates found: {crates:?}");
    let found: Vec<String> =
        crates.into_iter().filter_map(|(name, cycle)| Some(format!("{name}: {}", cycle?))).collect();
    assert!(found.is_empty(), "modules import each other in a circle:\n  {}", found.join("\n  "));
}

/// The cycle of a crate made of these files.
fn cycle_of(files: &[(&str, &str)]) -> Option<String> {
    let files: Vec<_> = files.iter().map(|(name, text)| (PathBuf::from(name), text.to_string())).collect();
    import_cycle(&files)
}

#[test]
fn a_cycle_is_found_and_named_with_its_places() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "\nuse crate::b::Thing;"),
        ("b/mod.rs", "mod deep;"),
        ("b/deep.rs", "fn f() -> crate::c::Kind { loop {} }"),
        ("c.rs", "use super::a;"),
    ];
    let cycle = cycle_of(&files).unwrap();
    assert_eq!(cycle, "a -> b (a.rs:2), b -> c (b/deep.rs:1), c -> a (c.rs:1)");
    assert_eq!(cycle_of(&files[..4]), None, "without its last step");
}

#[test]
fn group_imports_and_inner_paths_are_followed() {
    let back = ("b.rs", "use crate::a::X;");
    for text in [
        "use crate::{c, b::{self, d}};",
        "use crate::{c::{self, b}, b};",
        "pub(crate) use crate::{\n    c,\n    b as other,\n};",
        "fn f() { let _ = crate::b::g(crate::c::h()); }",
        "mod inner { use super::super::b; }",
        "macro_rules! m { () => { $crate::b::g() }; }",
        "fn f<'a>(x: &'a str) -> char { crate::b::g(x); 'x' }",
    ] {
        assert!(cycle_of(&[("a.rs", text), back, ("c.rs", "")]).is_some(), "{text}");
    }
    assert!(cycle_of(&[("a/mod.rs", ""), ("a/deep.rs", "use super::super::b;"), back]).is_some());
}

#[test]
fn what_is_no_import_of_the_product_makes_no_cycle() {
    let back = ("b.rs", "use crate::a::X;");
    for text in [
        "#[cfg(test)]\nmod tests { use crate::b::Y; fn f() { {} } }",
        "#[cfg(test)]\n#[allow(dead_code)]\nuse crate::b;",
        "#[cfg(all(test, unix))]\nfn f() { crate::b::g() }",
        "// use crate::b;\n/* crate::b /* crate::b */ crate::b */",
        "/// [`crate::b`]\nfn f() -> &'static str { \"crate::b \\\" crate::b\" }",
        "fn f() -> &'static str { r#\"\" crate::b\"# }",
        "fn f() -> char { '\"' } // \" crate::b",
        "use crate::{c::{b}};",
        "mod inner { use super::b; }",
        "use other::b;",
    ] {
        assert_eq!(cycle_of(&[("a.rs", text), back, ("c.rs", "")]), None, "{text}");
    }
    for tests in ["a/tests.rs", "a/tests/mod.rs", "a/tests/cases.rs"] {
        assert_eq!(cycle_of(&[("a/mod.rs", ""), (tests, "use crate::b;"), back]), None, "{tests}");
    }
    let recorded = [("a/mod.rs", "#[cfg(test)]\nmod recorded;"), ("a/recorded.rs", "use crate::b;"), back];
    assert_eq!(cycle_of(&recorded), None);
    assert!(cycle_of(&[("a/mod.rs", "mod recorded;"), recorded[1], back]).is_some());
}
