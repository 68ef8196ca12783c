//! Help, completions and manual pages: complete, examples first, and errors that lead to them.

use crate::common::{Place, refusal, stderr, stdout};

const COMMANDS: &[&str] = &[
    "run",
    "session",
    "token",
    "runs",
    "show",
    "compare",
    "report",
    "flame",
    "export",
    "import",
    "store",
    "place",
    "train",
    "predict",
    "predictors",
    "power",
    "device",
    "board",
    "doctor",
    "inspect",
    "bench",
    "split",
    "config",
    "up",
    "completions",
    "man",
];

#[test]
fn help_has_examples_before_options_and_groups_commands() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    for command in COMMANDS.iter().copied() {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
        let own = place.ok(&[command, "--help"]);
        assert_eq!(own, place.ok(&[command, "-h"]), "{command} has one help");
        let (examples, options) = (own.find("Examples:").unwrap(), own.find("Options:").unwrap());
        assert!(examples < options, "{own}");
    }
    for group in ["Measure:", "Look:", "Keep:", "Set up:"] {
        assert!(help.contains(group), "{help}");
    }
}

#[test]
fn version_and_help_need_no_home_and_no_store() {
    let place = Place::new();
    let output = place.command(&["--version"]).env_clear().output().unwrap();
    assert_eq!(stdout(&output), format!("metier {}\n", env!("CARGO_PKG_VERSION")));
    assert!(std::fs::read_dir(place.path("data")).unwrap().next().is_none());
}

#[test]
fn completions_know_commands_and_flags() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = place.ok(&["completions", shell]);
        for word in COMMANDS.iter().copied().chain(["save-json", "fail-above", "token-file"]) {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    let (code, error) = place.fails(&["completions", "tcsh"]);
    assert!(code == 2 && error.contains("tcsh") && error.contains("bash"), "{error}");
}

#[test]
fn bash_takes_the_completions() {
    let place = Place::new();
    std::fs::write(place.path("c.bash"), place.ok(&["completions", "bash"])).unwrap();
    let output = std::process::Command::new("bash").args(["-n"]).arg(place.path("c.bash")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let place = Place::new();
    let one = place.ok(&["man"]);
    assert!(one.contains(".TH metier 1") && one.contains("EXAMPLES") && one.contains("EXIT CODES"), "{one}");
    place.ok(&["man", "--to", "man1"]);
    for command in COMMANDS {
        let page = std::fs::read_to_string(place.path(&format!("man1/metier-{command}.1"))).unwrap();
        assert!(page.contains("EXAMPLES") && page.contains(&format!("metier {command}")), "{page}");
    }
    std::fs::write(place.path("plain"), "").unwrap();
    let (code, error) = place.fails(&["man", "--to", "plain/x"]);
    assert!(code == 1 && error.contains("plain/x"), "{error}");
}

#[test]
fn usage_errors_are_2_one_line_and_lead_on() {
    let place = Place::new();
    for (arguments, part) in [
        (vec!["shwo", "last"], "show"),
        (vec!["--stor", "x", "runs"], "--store"),
        (vec!["show"], "metier show --help"),
        (vec!["compare", "a"], "<B>"),
        (vec!["device", "frobnicate"], "frobnicate"),
        (vec!["show", "a", "--processes", "--series"], "--series"),
        (vec!["runs", "rm"], "<ID>"),
        (vec!["import"], "<FILE>"),
        (vec!["config", "--path", "store"], "--path"),
        (vec!["up", "--listen", "nowhere"], "127.0.0.1:7001"),
        (vec!["up", "--open", "everything"], "metrics, page"),
        (vec!["up", "--listen", "127.0.0.1:0", "--tls-cert", "cert.pem"], "--tls-key"),
    ] {
        let (code, error) = refusal(&place.run(&arguments));
        assert_eq!(code, 2, "{arguments:?}: {error}");
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    let nothing = place.run::<&str>(&[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(stdout(&nothing).is_empty() && stderr(&nothing).contains("Examples:"), "{}", stderr(&nothing));
}
