//! The table of rooms in ARCHITECTURE.md is the truth: every crate under `crates/` has a row, every row a crate, and
//! a crate depends on no other room than its row names (and `metier-types`). Rooms that are named and not used are
//! fine. Only dependencies of the product count, not those of tests and builds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each room and the rooms that it may use, or uses.
type Rooms = BTreeMap<String, BTreeSet<String>>;

/// What every room may use without saying so.
const COMMON: &str = "metier-types";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The first table under `## Rooms`: first column the room, last column what it may use.
fn table(text: &str) -> Rooms {
    let section = text.split_once("\n## Rooms\n").expect("ARCHITECTURE.md has a section `## Rooms`").1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut rooms = Rooms::new();
    for row in rows.skip(2) {
        let cells: Vec<&str> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [room, _, uses] = cells[..] else { panic!("want three columns in {row:?}") };
        let uses = uses.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_string);
        assert!(rooms.insert(room.to_string(), uses.collect()).is_none(), "{room} has two rows");
    }
    rooms
}

/// The crates under `crates/` and the rooms that they depend on, as Cargo says.
fn crates(metadata: &serde_json::Value, root: &Path) -> Rooms {
    let mut rooms = Rooms::new();
    for package in metadata["packages"].as_array().expect("cargo lists packages") {
        let name = package["name"].as_str().unwrap();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        if !manifest.starts_with(root.join("crates")) {
            continue;
        }
        let uses = package["dependencies"].as_array().unwrap().iter().filter(|one| one["kind"].is_null());
        let uses = uses.filter_map(|one| one["name"].as_str()).filter(|one| one.starts_with("metier"));
        rooms.insert(name.to_string(), uses.map(str::to_string).collect());
    }
    rooms
}

/// Everything in which the crates differ from the table, one line each.
fn differences(table: &Rooms, crates: &Rooms) -> Vec<String> {
    let mut found = Vec::new();
    for room in crates.keys().filter(|room| !table.contains_key(*room)) {
        found.push(format!(
            "crates/{room} has no row; add one that says what happens there and what it may use"
        ));
    }
    for (room, allowed) in table {
        for other in allowed.iter().filter(|other| !table.contains_key(*other)) {
            found.push(format!("the row of {room} names {other}, which is no room"));
        }
        let Some(used) = crates.get(room) else {
            found.push(format!(
                "{room} has a row and no crate; a room is made when it gets its first content"
            ));
            continue;
        };
        for other in used.iter().filter(|other| *other != COMMON && !allowed.contains(*other)) {
            found.push(format!(
                "{room} depends on {other}, which its row does not name; move what it needs, or change the table and say why"
            ));
        }
    }
    found.extend(cycle(table).map(|way| format!("the table goes in a circle: {}", way.join(" -> "))));
    found
}

/// A way from a room back to itself.
fn cycle(rooms: &Rooms) -> Option<Vec<String>> {
    rooms.keys().find_map(|room| way_back(rooms, &mut vec![room.clone()]))
}

fn way_back(rooms: &Rooms, way: &mut Vec<String>) -> Option<Vec<String>> {
    for next in rooms.get(way.last()?).into_iter().flatten() {
        if *next == way[0] {
            way.push(next.clone());
            return Some(way.clone());
        }
        if !way.contains(next) {
            way.push(next.clone());
            if let Some(found) = way_back(rooms, way) {
                return Some(found);
            }
            way.pop();
        }
    }
    None
}

#[test]
fn rooms_use_only_what_the_table_allows() {
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
    assert!(found.is_empty(), "ARCHITECTURE.md (## Rooms) and Cargo differ:\n  {}", found.join("\n  "));
}

fn rooms(rows: &[(&str, &[&str])]) -> Rooms {
    let set = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    rows.iter().map(|(room, uses)| (room.to_string(), set(uses))).collect()
}

#[test]
fn every_kind_of_difference_is_found() {
    let table = rooms(&[("metier", &["metier-store"]), ("metier-store", &[]), ("metier-types", &[])]);
    let same =
        rooms(&[("metier", &["metier-types"]), ("metier-store", &["metier-types"]), ("metier-types", &[])]);
    assert_eq!(differences(&table, &same), Vec::<String>::new());
    let broken = |change: &dyn Fn(&mut Rooms, &mut Rooms)| {
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
    assert!(typo.contains("names metier-stor, which is no room"), "{typo}");
    let circle = broken(&|table, _| {
        table.get_mut("metier-store").unwrap().insert("metier".into());
    });
    assert_eq!(circle, "the table goes in a circle: metier -> metier-store -> metier");
}

#[test]
fn a_table_is_read_as_it_is_written() {
    let text = "# A\n\n## Rooms\n\nwords\n\n| room | what | may use |\n|---|---|---|\n| a | x, y | b, c |\n| b | | |\n\n## Next\n| c | d | e |\n";
    assert_eq!(table(text), rooms(&[("a", &["b", "c"]), ("b", &[])]));
}
