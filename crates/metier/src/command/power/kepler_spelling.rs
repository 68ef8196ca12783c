//! Kepler's spelling of flags: `-o NAME` names files, three flags have two letters after one dash,
//! and every command accepts every flag. Flags that a metier command does not use are dropped.

use std::ffi::OsString;

use clap::ValueEnum;

use crate::output::OutputForm;

/// Global flags with a value.
const GLOBAL_FLAGS_WITH_VALUE: [&str; 5] = ["--store", "--config", "-o", "--output", "--color"];
/// Flags with two letters after one dash.
const TWO_LETTER_FLAGS: [(&str, &str); 3] =
    [("-tm", "--thirdparty-metrics"), ("-ot", "--output-type"), ("-fg", "--feature-group")];

/// Kepler's flags, accepted by all commands: name, letter, and whether a value follows.
const KEPLER_FLAGS: [(&str, Option<char>, bool); 31] = [
    ("input", Some('i'), true),
    ("server", Some('s'), true),
    ("interval", None, true),
    ("start-time", None, true),
    ("end-time", None, true),
    ("step", None, true),
    ("metric-prefix", None, true),
    ("to-csv", None, false),
    ("pipeline-name", Some('p'), true),
    ("extractor", None, true),
    ("isolator", None, true),
    ("profile", None, true),
    ("target-hints", None, true),
    ("bg-hints", None, true),
    ("abs-pipeline-name", None, true),
    ("energy-source", Some('e'), true),
    ("abs-trainers", None, true),
    ("dyn-trainers", None, true),
    ("trainers", None, true),
    ("vm-train", None, false),
    ("benchmark", None, true),
    ("output-type", None, true),
    ("feature-group", None, true),
    ("model-name", None, true),
    ("target-data", None, true),
    ("scenario", None, true),
    ("publisher", None, true),
    ("include-raw", None, false),
    ("collect-date", None, true),
    ("zip", None, false),
    ("id", None, true),
];

/// A command's flags: names and letters.
type KnownFlags = (Vec<String>, Vec<char>);

/// The flags of a command of `metier power`; `None` where there is no such command.
fn command_flags(all: fn() -> clap::Command, command: &str) -> Option<KnownFlags> {
    let all = all();
    let power = all.find_subcommand("power")?;
    let own = power.find_subcommand(command)?;
    let names = own.get_arguments().filter_map(|arg| arg.get_long().map(str::to_string)).collect();
    Some((names, own.get_arguments().filter_map(clap::Arg::get_short).collect()))
}

/// The arguments of a command without Kepler flags that it does not have.
fn drop_unused_flags(words: Vec<OsString>, (names, letters): &KnownFlags) -> Vec<OsString> {
    let mut out = Vec::new();
    let mut rest = words.into_iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy().into_owned();
        if text == "--" {
            out.push(word);
            out.extend(rest);
            break;
        }
        let (name, has_value) = match text.split_once('=') {
            Some((name, _)) => (name, true),
            None => (text.as_str(), false),
        };
        let by_name = KEPLER_FLAGS.iter().find(|(long, ..)| name.strip_prefix("--") == Some(long));
        let by_letter = KEPLER_FLAGS.iter().find(|(_, letter, _)| {
            let letter = letter.filter(|_| !text.starts_with("--"));
            letter.is_some_and(|letter| text.strip_prefix('-').is_some_and(|rest| rest.starts_with(letter)))
        });
        match (by_name, by_letter) {
            (Some((long, _, takes)), _) if !names.iter().any(|known| known == long) => {
                if *takes && !has_value {
                    rest.next();
                }
            }
            (None, Some((_, Some(letter), _))) if !letters.contains(letter) => {
                if text.len() == 2 {
                    rest.next();
                }
            }
            _ => out.push(word),
        }
    }
    out
}

/// Rewrites arguments of `metier power`: `-o` with a word that is no output form means `--out`.
pub fn normalise_spelling(all: fn() -> clap::Command, arguments: &[OsString]) -> Vec<OsString> {
    let Some(at) = command_position(arguments).filter(|at| arguments[*at] == "power") else {
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
        if let Some((_, long)) = TWO_LETTER_FLAGS.iter().find(|(short, _)| *short == text) {
            out.push((*long).into());
            continue;
        }
        if text == "-o" || text == "--output" {
            let is_name = rest.peek().is_some_and(|value| !is_output_form(&value.to_string_lossy()));
            out.push(if is_name { "--out".into() } else { argument.clone() });
            out.extend(rest.next().cloned());
            continue;
        }
        let joined = text
            .strip_prefix("--output=")
            .or_else(|| text.strip_prefix("-o").filter(|_| !text.starts_with("--")));
        match joined.filter(|value| !value.is_empty() && !is_output_form(value.trim_start_matches('='))) {
            Some(value) => out.push(format!("--out={}", value.trim_start_matches('=')).into()),
            None => out.push(argument.clone()),
        }
    }
    let command = (at + 1..out.len()).find(|at| !out[*at].to_string_lossy().starts_with('-'));
    if let Some((command, known)) =
        command.and_then(|at| Some((at, command_flags(all, &out[at].to_string_lossy())?)))
    {
        let behind = out.split_off(command + 1);
        out.extend(drop_unused_flags(behind, &known));
    }
    out
}

fn is_output_form(word: &str) -> bool {
    OutputForm::from_str(word, false).is_ok()
}

/// Index of the first word that is neither a flag nor a flag's value.
fn command_position(arguments: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(argument) = arguments.get(at) {
        let text = argument.to_string_lossy();
        if !text.starts_with('-') {
            return Some(at);
        }
        at += if GLOBAL_FLAGS_WITH_VALUE.contains(&text.as_ref()) { 2 } else { 1 };
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

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
            ("metier power extract -i a --id node1 -s=http://p -p mine --zip", "metier power extract -i a"),
            ("metier power isolate -i a -pmine --isolator none", "metier power isolate -i a --isolator none"),
            ("metier power validate --metric-prefix=x -i a", "metier power validate -i a"),
            (
                "metier power train_from_data --benchmark b -i a --id n",
                "metier power train_from_data -i a --id n",
            ),
            ("metier power extract --wrong -i a", "metier power extract --wrong -i a"),
        ] {
            assert_eq!(
                normalise_spelling(crate::cli::CommandLine::command, &words(typed)),
                words(means),
                "{typed}"
            );
        }
    }
}
