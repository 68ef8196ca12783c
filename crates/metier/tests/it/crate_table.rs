//! The crate table in ARCHITECTURE.md is the truth: every crate under `crates/` has a row, every
//! row a crate, and a crate depends on no other crate than its row names (and `metier-types`).
//! Crates that are named and not used are fine. Only dependencies of the product count, not those
//! of tests and builds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate and the crates that it may use, or uses.
pub type CrateGraph = BTreeMap<String, BTreeSet<String>>;

/// What every crate may use without saying so.
const COMMON: &str = "metier-types";

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The first table under `## Crates`: first column the crate, last column what it may use.
fn table(text: &str) -> CrateGraph {
    let section = text.split_once("\n## Crates\n").expect("ARCHITECTURE.md has a section `## Crates`").1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut graph = CrateGraph::new();
    for row in rows.skip(2) {
        let cells: Vec<&str> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, uses] = cells[..] else { panic!("want three columns in {row:?}") };
        let uses = uses.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_string);
        assert!(graph.insert(name.to_string(), uses.collect()).is_none(), "{name} has two rows");
    }
    graph
}

/// The crates under `crates/` and the crates that they depend on, as Cargo says.
fn crates(metadata: &serde_json::Value, root: &Path) -> CrateGraph {
    let mut graph = CrateGraph::new();
    for package in metadata["packages"].as_array().expect("cargo lists packages") {
        let name = package["name"].as_str().unwrap();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        if !manifest.starts_with(root.join("crates")) {
            continue;
        }
        let uses = package["dependencies"].as_array().unwrap().iter().filter(|one| one["kind"].is_null());
        let uses = uses.filter_map(|one| one["name"].as_str()).filter(|one| one.starts_with("metier"));
        graph.insert(name.to_string(), uses.map(str::to_string).collect());
    }
    graph
}

/// Everything in which the crates differ from the table, one line each.
fn differences(table: &CrateGraph, crates: &CrateGraph) -> Vec<String> {
    let mut found = Vec::new();
    for name in crates.keys().filter(|name| !table.contains_key(*name)) {
        found.push(format!(
            "crates/{name} has no row; add one that says what happens there and what it may use"
        ));
    }
    for (name, allowed) in table {
        for other in allowed.iter().filter(|other| !table.contains_key(*other)) {
            found.push(format!("the row of {name} names {other}, which is no crate"));
        }
        let Some(used) = crates.get(name) else {
            found.push(format!(
                "{name} has a row and no crate; a crate is made when it gets its first content"
            ));
            continue;
        };
        for other in used.iter().filter(|other| *other != COMMON && !allowed.contains(*other)) {
            found.push(format!(
                "{name} depends on {other}, which its row does not name; move what it needs, or change the table and say why"
            ));
        }
    }
    found
        .extend(shortest_cycle(table).map(|way| format!("the table goes in a circle: {}", way.join(" -> "))));
    found
}

/// A shortest way from a member of the graph back to itself.
pub fn shortest_cycle(graph: &CrateGraph) -> Option<Vec<String>> {
    graph.keys().filter_map(|start| shortest_way_back(graph, start)).min_by_key(Vec::len)
}

fn shortest_way_back(graph: &CrateGraph, start: &String) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&String, &String> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(here) = queue.pop_front() {
        for next in graph.get(here).into_iter().flatten() {
            if came_from.contains_key(next) {
                continue;
            }
            came_from.insert(next, here);
            queue.push_back(next);
        }
    }
    let mut way = vec![start.clone()];
    let mut here = *came_from.get(start)?;
    while here != start {
        way.push(here.clone());
        here = came_from[here];
    }
    way.push(start.clone());
    way.reverse();
    Some(way)
}

#[test]
fn crates_use_only_what_the_table_allows() {
    let root = root();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    let crates = crates(&serde_json::from_slice(&out.stdout).unwrap(), &root);
    assert!(crates.contains_key("metier"), "no crates found: {crates:?}");
    let table = table(&std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap());
    let found = differences(&table, &crates);
    assert!(found.is_empty(), "ARCHITECTURE.md (## Crates) and Cargo differ:\n  {}", found.join("\n  "));
}

fn graph_of(rows: &[(&str, &[&str])]) -> CrateGraph {
    let set = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    rows.iter().map(|(name, uses)| (name.to_string(), set(uses))).collect()
}

#[test]
fn every_kind_of_difference_is_found() {
    let table = graph_of(&[("metier", &["metier-store"]), ("metier-store", &[]), ("metier-types", &[])]);
    let same = graph_of(&[
        ("metier", &["metier-types"]),
        ("metier-store", &["metier-types"]),
        ("metier-types", &[]),
    ]);
    assert_eq!(differences(&table, &same), Vec::<String>::new());
    let broken = |change: &dyn Fn(&mut CrateGraph, &mut CrateGraph)| {
        let (mut table, mut crates) = (table.clone(), same.clone());
        change(&mut table, &mut crates);
        let found = differences(&table, &crates);
        assert_eq!(found.len(), 1, "{found:?}");
        found.into_iter().next().unwrap()
    };
    let upward = broken(&|_, crates| {
        crates.get_mut("metier-store").unwrap().insert("metier".into());
    });
    assert!(upward.starts_with("metier-store depends on metier,"), "{upward}");
    let fresh = broken(&|_, crates| {
        crates.insert("metier-new".into(), BTreeSet::new());
    });
    assert!(fresh.starts_with("crates/metier-new has no row"), "{fresh}");
    let empty = broken(&|table, _| {
        table.insert("metier-new".into(), BTreeSet::new());
    });
    assert!(empty.starts_with("metier-new has a row and no crate"), "{empty}");
    let typo = broken(&|table, _| {
        table.get_mut("metier").unwrap().insert("metier-stor".into());
    });
    assert!(typo.contains("names metier-stor, which is no crate"), "{typo}");
    let circle = broken(&|table, _| {
        table.get_mut("metier-store").unwrap().insert("metier".into());
    });
    assert_eq!(circle, "the table goes in a circle: metier -> metier-store -> metier");
}

#[test]
fn a_table_is_read_as_it_is_written() {
    let text = "# A\n\n## Crates\n\nwords\n\n| crate | what | may use |\n|---|---|---|\n| a | x, y | b, c |\n| b | | |\n\n## Next\n| c | d | e |\n";
    assert_eq!(table(text), graph_of(&[("a", &["b", "c"]), ("b", &[])]));
}
