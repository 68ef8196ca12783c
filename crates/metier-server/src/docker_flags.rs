//! Translates flags of `docker run` into fields of a run file. None is passed on as text: a flag
//! without a field here is refused by name.

use serde_json::{Map, Value, json};

use crate::http::problem::FieldError;

/// Flags without effect on the measurement; metier has its own way for each.
const IGNORED_FLAGS: [&str; 7] = ["--rm", "--tty", "--interactive", "--detach", "-t", "-i", "-d"];
/// Flags with a value and without effect on the measurement.
const IGNORED_VALUE_FLAGS: [&str; 1] = ["--name"];
/// Refused flags, each with the reason.
const REJECTED_FLAGS: [(&str, &str); 4] = [
    ("--env-file", "-e NAME=VALUE for each: files of the server are not read for others"),
    ("--privileged", "the devices it needs, with --device"),
    ("--restart", "none: what is measured runs once"),
    ("--pid", "none: what is measured has process ids of its own"),
];
/// Accepted flags, as errors list them.
const ACCEPTED_FLAGS: &str = "-v, --mount, -e, --network, --runtime, --gpus, -u, -w, --device, --cap-add, -m, --shm-size, --cpus, --entrypoint";

/// Long names of short flags with a value.
const SHORT_FLAGS: [(char, &str); 5] =
    [('v', "--volume"), ('e', "--env"), ('u', "--user"), ('w', "--workdir"), ('m', "--memory")];

/// Translates the flags into a run file; `field` is their name in errors.
pub fn read_docker_flags(
    field: &str,
    text: &str,
    file: &mut Map<String, Value>,
) -> Result<(), Vec<FieldError>> {
    let words =
        metier_session::runfile::split_words(text).ok_or_else(|| vec![unclosed_quote(field, text)])?;
    let mut words = words.into_iter();
    let mut errors = Vec::new();
    while let Some(word) = words.next() {
        let (flag, value) = match parse_word(&word) {
            DockerFlagWord::Ignored => continue,
            DockerFlagWord::Flag(flag, value) => (flag, value),
            DockerFlagWord::Unknown(want) => {
                errors.push(FieldError::new(field, &word, want));
                continue;
            }
        };
        let Some(value) = value.or_else(|| words.next()) else {
            // An unknown flag needs no value either.
            let want = match is_known_flag(&flag) {
                true => format!("a value after {word}"),
                false => format!("one of {ACCEPTED_FLAGS}"),
            };
            errors.push(FieldError::new(field, &word, want));
            continue;
        };
        if let Err(want) = set_flag(file, &flag, &value) {
            errors.push(FieldError::new(field, &format!("{flag} {value}"), want));
        }
    }
    errors.truncate(20);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The flags with the values of environment variables replaced; words are quoted for a shell.
pub fn redact_docker_flags(text: &str, stand_in: &str) -> String {
    // A text that cannot be split was never accepted; it may come from another version.
    let Some(words) = metier_session::runfile::split_words(text) else { return stand_in.to_string() };
    let mut words = words.into_iter();
    let mut shown = Vec::new();
    while let Some(word) = words.next() {
        let (flag, value) = match parse_word(&word) {
            DockerFlagWord::Flag(flag, value) => (flag, value),
            DockerFlagWord::Ignored | DockerFlagWord::Unknown(_) => {
                shown.push(word);
                continue;
            }
        };
        let is_separate = value.is_none();
        match (flag.as_str(), value.or_else(|| words.next())) {
            ("--env", Some(variable)) => {
                let name = variable.split_once('=').map_or("", |(name, _)| name);
                shown.extend(["-e".to_string(), format!("{name}={stand_in}")]);
            }
            (_, Some(value)) if is_separate => shown.extend([word, value]),
            _ => shown.push(word),
        }
    }
    let quoted: Vec<String> = shown.iter().map(|word| quote_word(word)).collect();
    quoted.join(" ")
}

/// A word as a shell reads it.
fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=/.,:@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The error for a text that cannot be split into words.
pub fn unclosed_quote(field: &str, text: &str) -> FieldError {
    FieldError::new(field, text, "words with every quote closed, and nothing after a last \\")
}

enum DockerFlagWord {
    Ignored,
    /// A flag by its long name, and its value where it is in the same word.
    Flag(String, Option<String>),
    /// The expected words, for the error.
    Unknown(String),
}

fn parse_word(word: &str) -> DockerFlagWord {
    if let Some((_, want)) = REJECTED_FLAGS.iter().find(|(flag, _)| word.split('=').next() == Some(flag)) {
        return DockerFlagWord::Unknown((*want).to_string());
    }
    if IGNORED_FLAGS.contains(&word) {
        return DockerFlagWord::Ignored;
    }
    if word.starts_with("--") {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_string())),
            None => (word, None),
        };
        // `--rm=true` and similar.
        if IGNORED_FLAGS.contains(&flag) {
            return DockerFlagWord::Ignored;
        }
        return DockerFlagWord::Flag(flag.to_string(), value);
    }
    let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
        return DockerFlagWord::Unknown(format!(
            "only flags: {ACCEPTED_FLAGS}; the image is app_name, its arguments are app_args"
        ));
    };
    // Short flags without a value may stand before one with a value, in one word: `-itv a:b`.
    let mut rest = letters.chars();
    while let Some(letter) = rest.next() {
        if let Some((_, long)) = SHORT_FLAGS.iter().find(|(short, _)| *short == letter) {
            let value = rest.as_str();
            let value = value.strip_prefix('=').unwrap_or(value);
            return DockerFlagWord::Flag((*long).to_string(), (!value.is_empty()).then(|| value.to_string()));
        }
        if !matches!(letter, 'i' | 't' | 'd') {
            return DockerFlagWord::Unknown(format!("one of {ACCEPTED_FLAGS}"));
        }
    }
    DockerFlagWord::Ignored
}

fn is_known_flag(flag: &str) -> bool {
    set_flag(&mut Map::new(), flag, "").err().is_none_or(|want| want != format!("one of {ACCEPTED_FLAGS}"))
}

/// The list in a field.
fn list<'a>(file: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Vec<Value>> {
    file.entry(name).or_insert_with(|| json!([])).as_array_mut()
}

/// The map in a field.
fn part<'a>(file: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    file.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

/// Sets a field; else returns the expected value.
fn set_flag(file: &mut Map<String, Value>, flag: &str, value: &str) -> Result<(), String> {
    let (table, name, value) = match flag {
        "--volume" | "--mount" => {
            let mount = if flag == "--volume" { parse_volume(value)? } else { parse_mount(value)? };
            list(file, "mounts").into_iter().for_each(|mounts| mounts.push(mount.clone()));
            return Ok(());
        }
        "--device" | "--cap-add" => {
            let name = if flag == "--device" { "devices" } else { "capabilities" };
            let item = if flag == "--device" { value } else { parse_capability(value)? };
            let items = part(file, "container").and_then(|container| list(container, name));
            items.into_iter().for_each(|items| items.push(json!(item)));
            return Ok(());
        }
        "--workdir" => {
            file.insert("working_directory".into(), json!(value));
            return Ok(());
        }
        "--env" => {
            let named = value.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, text) =
                named.ok_or("NAME=VALUE: variables of the server are not handed on to others")?;
            ("environment", name, json!(text))
        }
        "--network" | "--net" => ("container", "network", json!(value)),
        "--runtime" => ("container", "runtime", json!(value)),
        "--user" => ("container", "user", json!(value)),
        "--entrypoint" => ("container", "entrypoint", json!([value])),
        "--shm-size" => ("container", "shared_memory", json!(parse_memory(value)?)),
        "--gpus" => ("limits", "gpu", json!(parse_gpus(value)?)),
        "--cpus" => ("limits", "cpu", json!(value)),
        "--memory" => ("limits", "memory", json!(parse_memory(value)?)),
        flag if IGNORED_VALUE_FLAGS.contains(&flag) => return Ok(()),
        _ => return Err(format!("one of {ACCEPTED_FLAGS}")),
    };
    part(file, table).and_then(|table| table.insert(name.to_string(), value));
    Ok(())
}

const VOLUME_SYNTAX: &str = "/SOURCE:/TARGET or /SOURCE:/TARGET:ro, both absolute";

fn parse_volume(value: &str) -> Result<Value, &'static str> {
    let parts: Vec<&str> = value.split(':').collect();
    let (source, target, read_only) = match parts.as_slice() {
        [source, target] | [source, target, "rw"] => (source, target, false),
        [source, target, "ro"] => (source, target, true),
        _ => return Err(VOLUME_SYNTAX),
    };
    if !source.starts_with('/') || !target.starts_with('/') {
        return Err(VOLUME_SYNTAX);
    }
    Ok(json!({ "source": source, "target": target, "read_only": read_only }))
}

fn parse_mount(value: &str) -> Result<Value, &'static str> {
    const WANT: &str = "type=bind,source=/SOURCE,target=/TARGET[,readonly]";
    let (mut source, mut target, mut read_only, mut is_bind) = (None, None, false, false);
    for part in value.split(',') {
        match part.split_once('=').unwrap_or((part, "")) {
            ("type", "bind") => is_bind = true,
            ("source" | "src", path) => source = Some(path),
            ("target" | "dst" | "destination", path) => target = Some(path),
            ("readonly" | "ro", "" | "true" | "1") => read_only = true,
            ("readonly" | "ro", "false" | "0") => read_only = false,
            _ => return Err(WANT),
        }
    }
    match (is_bind, source, target) {
        (true, Some(source), Some(target)) if source.starts_with('/') && target.starts_with('/') => {
            Ok(json!({ "source": source, "target": target, "read_only": read_only }))
        }
        _ => Err(WANT),
    }
}

fn parse_gpus(value: &str) -> Result<&str, &'static str> {
    match value {
        "all" => Ok(value),
        count if count.parse::<u32>().is_ok() => Ok(value),
        _ => Err("a number of GPUs, or all"),
    }
}

fn parse_capability(value: &str) -> Result<&str, &'static str> {
    let is_name = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // All capabilities equal `--privileged`, which is refused, too.
    match is_name && !value.eq_ignore_ascii_case("all") {
        true => Ok(value),
        false => Err("the name of one capability, such as SYS_NICE"),
    }
}

/// `512m` means 512 MiB in Docker; a run file writes `512Mi`.
fn parse_memory(value: &str) -> Result<String, &'static str> {
    let lower = value.to_ascii_lowercase();
    let (number, unit) = match lower.char_indices().next_back() {
        Some((at, 'b')) => (&lower[..at], ""),
        Some((at, 'k')) => (&lower[..at], "Ki"),
        Some((at, 'm')) => (&lower[..at], "Mi"),
        Some((at, 'g')) => (&lower[..at], "Gi"),
        _ => (lower.as_str(), ""),
    };
    match number.parse::<u64>() {
        Ok(number) => Ok(format!("{number}{unit}")),
        Err(_) => Err("a whole number with b, k, m or g after it, such as 512m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_replaced_in_every_spelling() {
        for (text, want) in [
            ("-e KEY=s3cret -v /a:/b", "-e KEY=X -v /a:/b"),
            ("--env KEY=s3cret --env=KEY=s3cret", "-e KEY=X -e KEY=X"),
            ("-eKEY=s3cret -ite KEY=s3cret --rm", "-e KEY=X -e KEY=X --rm"),
            ("-e 'KEY=a s3cret' --name 'my job'", "-e KEY=X --name 'my job'"),
            ("-e s3cret", "-e =X"),
            ("-e", "-e"),
            ("-e 'KEY=s3cret", "X"),
            ("--name \"it's\"", "--name 'it'\\''s'"),
            ("", ""),
        ] {
            assert_eq!(redact_docker_flags(text, "X"), want, "{text}");
        }
    }

    fn of(text: &str) -> Result<Value, Vec<FieldError>> {
        let mut file = Map::new();
        read_docker_flags("app_docker_args", text, &mut file).map(|()| Value::Object(file))
    }

    #[test]
    fn flags_become_fields() {
        let file =
            of("-v /data/x.json:/run/waggle/data-config.json:ro --volume=/a:/b -e A=1 --env 'B=x y' -eC= \
                       --network host --runtime nvidia --gpus all -u 1000:1000 -w /app --device /dev/video0 \
                       -m 512m --shm-size=64m --cap-add SYS_NICE --cap-add=IPC_LOCK --cpus=1.5 --entrypoint /bin/app --rm -it --name whatever \
                       --mount type=bind,src=/m,dst=/n,readonly")
            .unwrap();
        assert_eq!(
            file,
            json!({
                "mounts": [
                    { "source": "/data/x.json", "target": "/run/waggle/data-config.json", "read_only": true },
                    { "source": "/a", "target": "/b", "read_only": false },
                    { "source": "/m", "target": "/n", "read_only": true }
                ],
                "environment": { "A": "1", "B": "x y", "C": "" },
                "container": { "network": "host", "runtime": "nvidia", "user": "1000:1000", "devices": ["/dev/video0"],
                    "capabilities": ["SYS_NICE", "IPC_LOCK"], "shared_memory": "64Mi",
                    "entrypoint": ["/bin/app"] },
                "limits": { "gpu": "all", "memory": "512Mi", "cpu": "1.5" },
                "working_directory": "/app"
            })
        );
        assert_eq!(of("").unwrap(), json!({}));
        assert_eq!(of("-itv /a:/b -dt").unwrap()["mounts"][0]["target"], "/b");
    }

    #[test]
    fn what_has_no_field_is_refused_by_name() {
        for (text, part) in [
            ("--privileged", "--device"),
            ("--env-file /etc/x", "NAME=VALUE"),
            ("--env-file=/etc/x", "NAME=VALUE"),
            ("--cap-add ALL", "one capability"),
            ("--cap-add", "a value"),
            ("--shm-size much", "512m"),
            ("--security-opt=x", "one of"),
            ("-p 80:80", "one of"),
            ("-v name:/data", "absolute"),
            ("-v /data", "absolute"),
            ("-v /a:/b:z", "absolute"),
            ("-e HOME", "NAME=VALUE"),
            ("-e =x", "NAME=VALUE"),
            ("--gpus device=0", "a number"),
            ("-m lots", "512m"),
            ("-m", "a value"),
            ("-m 64m --no-such", "one of"),
            ("--mount type=volume,source=/a,target=/b", "type=bind"),
            ("busybox", "app_name"),
            ("-v '/a:/b", "closed"),
            ("-", "only flags"),
        ] {
            let errors = of(text).unwrap_err();
            assert!(
                errors[0].field == "app_docker_args" && errors[0].want.contains(part),
                "{text}: {errors:?}"
            );
        }
        let errors = of("--no-such X --privileged -e HOME").unwrap_err();
        assert_eq!(errors.len(), 3, "all at once: {errors:?}");
        assert!(errors[0].got.as_deref().unwrap().contains("--no-such"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(-v|-e|--mount|--gpus|=|/a:/b|,|'|\\PC){0,20}") {
            let _ = of(&text);
        }
    }
}
