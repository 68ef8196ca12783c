//! Names in `crates/*/src`, tests aside: a type has a name of its own, and no name is a bare
//! participle or pronoun.

use std::collections::BTreeMap;

use crate::crate_table::root;
use crate::source_file::{SourceFile, is_product, module_path, product_tokens, rust_files};

/// Type names that may stand in several crates: what each crate has one of, and the product's words
/// (docs/glossary.md).
const SHARED: &[&str] = &["Args", "Config", "Error", "Settings"];

/// Identifiers that say nothing about what they name.
const BANNED: &[&str] = &["kept", "said", "told", "wanted"];

/// The tokens of all files of the product, by path.
fn all_tokens() -> Vec<(String, Vec<(String, usize)>)> {
    let mut all = Vec::new();
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    for folder in crates.map(|entry| entry.unwrap().path()) {
        let files = rust_files(&folder.join("src"));
        let parsed: Vec<SourceFile> =
            files.iter().map(|(file, text)| SourceFile::new(module_path(file), text)).collect();
        let is_product = is_product(&parsed);
        for (file, (path, _)) in parsed.iter().zip(&files).filter(|(file, _)| is_product(file)) {
            let place = format!("{}/src/{}", folder.file_name().unwrap().display(), path.display());
            let tokens = product_tokens(file).into_iter().map(|(text, line)| (text.to_string(), line));
            all.push((place, tokens.collect()));
        }
    }
    assert!(all.len() > 100, "only {} files found", all.len());
    all
}

/// The types that a file defines, each with its line. Associated types belong to their trait and do
/// not count.
fn type_names(tokens: &[(String, usize)]) -> Vec<(String, usize)> {
    let (mut names, mut braces) = (Vec::new(), Vec::new());
    for (at, (text, _)) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1).filter(|(name, _)| name.starts_with(|c: char| c.is_ascii_uppercase()));
        match (text.as_str(), next) {
            ("{", _) => braces.push(at >= 2 && tokens[at - 2].0 == "mod"),
            ("}", _) => drop(braces.pop()),
            ("struct" | "enum" | "trait" | "union", Some(name)) => names.push(name.clone()),
            ("type", Some(name)) if braces.iter().all(|is_module| *is_module) => names.push(name.clone()),
            _ => {}
        }
    }
    names
}

#[test]
fn a_type_name_stands_once_in_the_workspace() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, tokens) in all_tokens() {
        for (name, line) in type_names(&tokens) {
            places.entry(name).or_default().push(format!("{file}:{line}"));
        }
    }
    assert!(places.contains_key("RunRow"), "types are not found");
    let twice: Vec<String> = places
        .into_iter()
        .filter(|(name, places)| places.len() > 1 && !SHARED.contains(&name.as_str()))
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(twice.is_empty(), "{} names stand for several types:\n  {}", twice.len(), twice.join("\n  "));
}

#[test]
fn no_identifier_is_a_bare_participle_or_pronoun() {
    let mut places = Vec::new();
    for (file, tokens) in all_tokens() {
        let banned = tokens.iter().filter(|(text, _)| BANNED.contains(&text.as_str()));
        places.extend(banned.map(|(text, line)| format!("{file}:{line}: {text}")));
    }
    assert!(places.is_empty(), "{} banned identifiers:\n  {}", places.len(), places.join("\n  "));
}

#[test]
fn types_of_tests_and_associated_types_do_not_count() {
    let text = "struct A; mod inner { pub enum B {} type C = u8; } impl A { type D = u8; }\n\
                #[cfg(test)]\nmod tests { struct E; }\ntrait F { type G; } macro_rules! m { () => { struct $name; } }";
    let tokens = product_tokens(&SourceFile::new(Vec::new(), text));
    let tokens: Vec<_> = tokens.into_iter().map(|(text, line)| (text.to_string(), line)).collect();
    let names: Vec<String> = type_names(&tokens).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["A", "B", "C", "F"]);
}
