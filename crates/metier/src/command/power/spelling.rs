//! The original's spellings of flags: `-o NAME` names files there, and three flags have two letters behind one dash.

use std::ffi::OsString;

use clap::ValueEnum;

use crate::output::Form;

/// Flags of all commands that take a value of their own.
const WITH_VALUE: [&str; 5] = ["--store", "--config", "-o", "--output", "--color"];
/// Two letters behind one dash.
const TWO_LETTERS: [(&str, &str); 3] =
    [("-tm", "--thirdparty-metrics"), ("-ot", "--output-type"), ("-fg", "--feature-group")];

/// The same words in our spelling, where they are for `metier power`: there `-o` with a word that is no form of output means `--out`.
pub fn spelled(arguments: &[OsString]) -> Vec<OsString> {
    let Some(at) = command(arguments).filter(|at| arguments[*at] == "power") else {
        return arguments.to_vec();
    };
    let mut out = arguments[..=at].to_vec();
    let mut rest = arguments[at + 1..].iter().peekable();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            out.push(argument.clone());
            out.extend(rest.by_ref().cloned());
            break;
        }
        let text = argument.to_string_lossy();
        if let Some((_, long)) = TWO_LETTERS.iter().find(|(short, _)| *short == text) {
            out.push((*long).into());
            continue;
        }
        if text == "-o" || text == "--output" {
            let is_name = rest.peek().is_some_and(|value| !is_form(&value.to_string_lossy()));
            out.push(if is_name { "--out".into() } else { argument.clone() });
            out.extend(rest.next().cloned());
            continue;
        }
        let joined = text
            .strip_prefix("--output=")
            .or_else(|| text.strip_prefix("-o").filter(|_| !text.starts_with("--")));
        match joined.filter(|value| !value.is_empty() && !is_form(value.trim_start_matches('='))) {
            Some(value) => out.push(format!("--out={}", value.trim_start_matches('=')).into()),
            None => out.push(argument.clone()),
        }
    }
    out
}

fn is_form(word: &str) -> bool {
    Form::from_str(word, false).is_ok()
}

/// The place of the first word that is no flag and no flag's value.
fn command(arguments: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(argument) = arguments.get(at) {
        let text = argument.to_string_lossy();
        if !text.starts_with('-') {
            return Some(at);
        }
        at += if WITH_VALUE.contains(&text.as_ref()) { 2 } else { 1 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(Into::into).collect()
    }

    #[test]
    fn the_originals_spellings_are_understood_and_forms_stay_forms() {
        for (typed, means) in [
            ("metier power extract -i a -o b", "metier power extract -i a --out b"),
            ("metier power extract --output=b -o json", "metier power extract --out=b -o json"),
            ("metier -o json power extract -ob", "metier -o json power extract --out=b"),
            (
                "metier power x -ot AbsPower -fg Basic -tm a",
                "metier power x --output-type AbsPower --feature-group Basic --thirdparty-metrics a",
            ),
            ("metier runs -o power", "metier runs -o power"),
            ("metier power x -ojson", "metier power x -ojson"),
        ] {
            assert_eq!(spelled(&words(typed)), words(means), "{typed}");
        }
    }
}
