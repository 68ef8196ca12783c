//! Settings: who wins, who is named when a value is wrong, and that no secret is shown.

use crate::common::{Place, refusal, stdout};
use serde_json::Value;

fn write(place: &Place, text: &str) {
    std::fs::write(place.path("config/metier/config.toml"), text).unwrap();
}

/// Value and origin of a key.
fn setting(place: &Place, arguments: &[&str], set: &[(&str, &str)], key: &str) -> (String, String) {
    let all: Vec<&str> = arguments.iter().copied().chain(["config", "-o", "json"]).collect();
    let output = place.command(&all).envs(set.iter().copied()).output().unwrap();
    let config: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let found =
        config["settings"].as_array().unwrap().iter().find(|entry| entry["key"] == key).unwrap().clone();
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_string();
    (text("value"), text("origin"))
}

#[test]
fn a_flag_wins_over_environment_over_file_over_default() {
    let place = Place::new();
    let of = |arguments: &[&str], set: &[(&str, &str)]| setting(&place, arguments, set, "store");
    let (value, origin) = of(&[], &[]);
    assert_eq!((value, origin.as_str()), (place.text("data/metier/metier.db"), "default"));
    write(&place, "# mine\n\nstore = \"from-file.db\"\n");
    let (value, origin) = of(&[], &[]);
    assert_eq!(value, place.text("config/metier/from-file.db"), "paths are meant from where the file is");
    assert!(origin.starts_with("file ") && origin.ends_with("config.toml:3"), "{origin}");
    let (value, origin) = of(&[], &[("METIER_STORE", "from-env.db")]);
    assert_eq!((value.as_str(), origin.as_str()), ("from-env.db", "environment METIER_STORE"));
    let (value, origin) = of(&["--store", "from-flag.db"], &[("METIER_STORE", "from-env.db")]);
    assert_eq!((value.as_str(), origin.as_str()), ("from-flag.db", "flag --store"));
    let (_, origin) = of(&[], &[("METIER_STORE", "")]);
    assert!(origin.starts_with("file "), "an empty variable is none: {origin}");
}

#[test]
fn every_layer_reaches_the_commands() {
    let place = Place::with_fixture();
    write(&place, "output = \"csv\"\n[run]\ntimeout = \"100ms\"\ngrace = \"50ms\"\n");
    assert!(place.ok(&["runs"]).starts_with("id,batch,"));
    assert!(
        stdout(&place.command(&["runs"]).env("METIER_OUTPUT", "json").output().unwrap()).starts_with('{')
    );
    assert!(
        stdout(&place.command(&["runs", "-o", "table"]).env("METIER_OUTPUT", "json").output().unwrap())
            .starts_with("ID")
    );
    assert_eq!(place.run(&["run", "-q", "--", "sleep", "9"]).status.code(), Some(124));
    let longer =
        place.command(&["run", "-q", "--", "sleep", "0.3"]).env("METIER_RUN_TIMEOUT", "9s").output().unwrap();
    assert_eq!(longer.status.code(), Some(0));
}

#[test]
fn an_unknown_key_is_refused_by_name_and_line() {
    let place = Place::new();
    for (text, parts) in [
        ("\n\nstroe = \"x\"\n", ["config.toml:3", "\"stroe\""]),
        ("[run]\nintervall = \"1s\"\n", ["config.toml:2", "\"run.intervall\""]),
        ("[nonsense]\nx = 1\n", ["config.toml:1", "\"nonsense\""]),
        ("store = \n", ["config.toml:1", "TOML"]),
        ("a = [\n", ["config.toml:", "TOML"]),
        ("store = 1.5\n", ["config.toml:1", "store is a float"]),
        ("store = [1]\n", ["config.toml:1", "want a string"]),
    ] {
        write(&place, text);
        let (code, error) = place.fails(&["runs"]);
        assert_eq!(code, 2, "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    place.ok(&["completions", "bash"]);
    place.ok(&["man"]);
    place.ok(&["--version"]);
}

#[test]
fn a_wrong_value_names_who_set_it() {
    let place = Place::new();
    let of =
        |name: &str, value: &str| refusal(&place.command(&["config"]).env(name, value).output().unwrap());
    for (name, value, part) in [
        ("METIER_OUTPUT", "xml", "table, json, yaml, csv"),
        ("METIER_COLOR", "blue", "auto, always, never"),
        ("METIER_QUIET", "perhaps", "true or false"),
        ("METIER_RUN_INTERVAL", "often", "250ms"),
        ("METIER_UP_LISTEN", "here", "127.0.0.1:7001"),
    ] {
        let (code, error) = of(name, value);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(name) && error.contains(value) && error.contains(part), "{error}");
    }
    let often = place.command(&["run", "--", "true"]).env("METIER_RUN_INTERVAL", "1us").output().unwrap();
    let (code, error) = refusal(&often);
    assert!(code == 2 && error.contains("METIER_RUN_INTERVAL") && error.contains("1ms to 10s"), "{error}");
    write(&place, "output = \"json\"\ncolor = \"blue\"\n");
    let (code, error) = place.fails(&["runs"]);
    assert!(code == 2 && error.contains("config.toml:2: color is \"blue\""), "{error}");
}

#[test]
fn a_named_file_must_be_there() {
    let place = Place::new();
    let (code, error) = place.fails(&["--config", "gone.toml", "config"]);
    assert!(code == 2 && error.contains("gone.toml"), "{error}");
    std::fs::write(place.path("mine.toml"), "quiet = true\n").unwrap();
    let (value, origin) = setting(&place, &["--config", "mine.toml"], &[], "quiet");
    assert_eq!((value.as_str(), origin.as_str()), ("true", "file mine.toml:1"));
    let (value, _) = setting(&place, &[], &[("METIER_CONFIG", "mine.toml")], "quiet");
    assert_eq!(value, "true");
    assert_eq!(place.ok(&["config", "--path"]).trim(), place.text("config/metier/config.toml"));
}

#[test]
fn secrets_are_never_shown() {
    let place = Place::new();
    for form in ["table", "json", "yaml", "csv"] {
        let output = place
            .command(&["config", "-o", form])
            .env("METIER_TOKEN", "hunter2hunter2hunter2")
            .env("METIER_STORE", "postgres://ann:s3cret@db.example/metier")
            .output()
            .unwrap();
        let text = stdout(&output);
        assert!(output.status.success() && !text.contains("hunter2") && !text.contains("s3cret"), "{text}");
        assert!(text.contains("db.example") && text.contains("hidden"), "{text}");
    }
    let output = place
        .command(&["runs"])
        .env("METIER_STORE", "postgres://ann:s3cret@127.0.0.1:1/metier")
        .output()
        .unwrap();
    let (code, error) = refusal(&output);
    assert!(code == 1 && error.contains("127.0.0.1:1") && !error.contains("s3cret"), "{error}");
}

#[test]
fn without_a_home_a_store_must_be_named() {
    let place = Place::new();
    let bare = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env_remove("HOME").env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME");
        command.output().unwrap()
    };
    let (code, error) = refusal(&bare(&["runs"]));
    assert!(code == 2 && error.contains("--store"), "{error}");
    assert!(bare(&["run", "-q", "--store", "here.db", "--", "true"]).status.success());
    assert!(bare(&["runs", "--store", "here.db"]).status.success());
}

#[test]
fn config_prints_one_value_alone() {
    let place = Place::new();
    assert_eq!(place.ok(&["config", "run.grace"]), "5s\n");
    let (code, error) = place.fails(&["config", "run.grade"]);
    assert!(code == 2 && error.contains("run.grade") && error.contains("run.grace"), "{error}");
}
