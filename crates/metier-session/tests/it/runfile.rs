//! Run files: read whole, written back, and refused with every fault and its place.

use metier_measure::spec::{GpuCount, PullPolicy, ResourceLimits, RunTarget};
use metier_session::runfile::{self, ReadinessSign, RunFile, RunFileFaults};
use metier_types::Bytes;

const FULL: &str = r#"
schema: metier.run-file/1
name: everything
image: registry.example.org/app:1.10
arguments: [--threshold, 0.50, 1e3, yes, "~", 010]
environment: {MODE: fast, LEVEL: 1.10}
working_directory: /srv
mounts: ["/tmp:/a:ro", {source: /tmp, target: /b}]
dataset: {source: "s3://bucket/some/prefix/", digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  page_cache: cold, endpoint: "http://127.0.0.1:9000", region: eu, target: /data}
artefacts: ["out/*.json"]
probes:
  - {name: tau, wrap: [tau_exec], environment: {TAU_PROFILE: 1}, artefacts: ["profile.*"], mounts: ["/tmp:/tau:ro"]}
limits: {cpu: 1.5, memory: 1.5Gi, gpu: 2}
needs:
  - {command: [redis-server], ready: {output: "Ready to accept", within: 5s}}
with:
  - {command: [stress]}
ready: {http: "http://127.0.0.1:8080/ready", within: 90s}
warmup: 2
repeats: 5
stop_on_failure: true
timeout: 10m
grace: 1.5s
linger: 0
interval: 250ms
listen: {socket: true, pywaggle: true, lines: true, scrape: ["http://127.0.0.1:8000/metrics"]}
stacks: 49
container: {engine: /run/x.sock, entrypoint: [/bin/app], network: host, runtime: nvidia, user: "1000:1000", devices: [/dev/null],
  capabilities: [SYS_NICE], privileged: true, stdin: true, shared_memory: 64Mi, labels: {a: b}, pull: never}
tags: [nightly, edge]
"#;

fn read(text: &str) -> Result<runfile::CheckedRun, RunFileFaults> {
    let (file, origins) = runfile::parse(text)?;
    file.check(&origins)
}

#[test]
fn every_field_arrives() {
    let checked = read(FULL).unwrap();
    let spec = &checked.spec;
    let RunTarget::Container(container) = &spec.target else { panic!("{:?}", spec.target) };
    assert_eq!(container.arguments, ["--threshold", "0.50", "1e3", "yes", "~", "010"], "as they are written");
    assert_eq!(
        container.entrypoint.as_deref(),
        Some(["tau_exec".to_string(), "/bin/app".to_string()].as_slice())
    );
    assert_eq!((container.network.as_deref(), container.pull), (Some("host"), PullPolicy::Never));
    assert!(container.stdin && container.privileged);
    assert_eq!(container.shared_memory, Some(Bytes(64 << 20)));
    assert_eq!(
        spec.limits,
        ResourceLimits { cpu: Some(1.5), memory: Some(Bytes(1_610_612_736)), gpus: Some(GpuCount::Count(2)) }
    );
    let variables: Vec<_> = spec.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(variables, ["LEVEL=1.10", "MODE=fast", "TAU_PROFILE=1"]);
    assert_eq!(spec.mounts.len(), 3);
    assert!(spec.mounts[0].read_only && !spec.mounts[1].read_only && spec.mounts[2].read_only);
    assert_eq!(spec.artefacts, ["out/*.json", "profile.*"]);
    assert_eq!((checked.warmup, checked.repeats, spec.tags.len()), (2, 5, 2));
    assert_eq!(spec.grace.as_millis(), 1500);
    assert!(
        matches!(&checked.ready.as_ref().unwrap().sign, ReadinessSign::Http(url) if url.ends_with("/ready"))
    );
    assert!(
        matches!(&checked.needs[0].ready.as_ref().unwrap().sign, ReadinessSign::Output(text) if text == "Ready to accept")
    );
    assert_eq!(checked.with.len(), 1);
}

#[test]
fn only_a_container_is_given_standard_input() {
    for (what, want) in [
        ("command: [cat]", "a command has our standard input"),
        ("pod: busybox", "nothing of our standard input"),
    ] {
        let faults = read(&format!("{what}\ncontainer: {{stdin: true}}\n")).unwrap_err().to_string();
        assert!(faults.contains("container.stdin") && faults.contains(want), "{faults}");
    }
}

#[test]
fn what_it_prints_shows_that_a_container_is_ready_and_never_a_command() {
    let ready = "ready: {output: now ready}";
    let checked = read(&format!("image: busybox\n{ready}\n")).unwrap();
    assert!(matches!(&checked.ready.unwrap().sign, ReadinessSign::Output(text) if text == "now ready"));
    let faults = read(&format!("command: [server]\n{ready}\n")).unwrap_err().to_string();
    assert!(faults.contains("ready.output") && faults.contains("unread"), "{faults}");
}

#[test]
fn what_is_written_back_reads_the_same_as_yaml_and_as_json() {
    let (file, _) = runfile::parse(FULL).unwrap();
    let json = serde_json::to_string_pretty(&file).unwrap();
    assert!(json.contains("metier.run-file/1"), "{json}");
    assert_eq!(runfile::parse(&json).unwrap().0, file);
    assert_eq!(serde_json::from_str::<RunFile>(&json).unwrap(), file);
    let tabs = json.replace("  ", "\t");
    assert_eq!(runfile::parse(&tabs).unwrap().0, file, "JSON that is indented with tabs");
}

#[test]
fn all_faults_come_at_once_with_line_and_field() {
    let faults =
        read("name: x\ncommand: [ls]\nlimts: {cpu: 1}\nlimits:\n  memory: [1]\ntimeout: {}\nrepeats: many\n")
            .unwrap_err();
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    for (line, part) in [(3, "limts"), (5, "limits.memory"), (6, "timeout"), (7, "repeats")] {
        assert!(
            told.iter().any(|fault| fault.starts_with(&format!("line {line}, ")) && fault.contains(part)),
            "{line} {part}: {told:?}"
        );
    }
    let faults = read("image: alpine\ncommand: [ls]\nlimits:\n  memory: 1.5Gig\n  cpu: lots\ngrace: 5\nwith: [no-such.yaml]\n").unwrap_err();
    let lines: Vec<u64> = faults.iter().map(|fault| fault.line().unwrap()).collect();
    assert_eq!(lines, [1, 4, 5, 6, 7], "{faults}");
}

#[test]
fn the_nearest_field_is_suggested() {
    let one = |text: &str| read(text).unwrap_err().to_string();
    assert!(one("command: [ls]\nlimts: {}\n").contains("\"limits\""));
    assert!(one("command: [ls]\nworkingDirectory: /\n").contains("\"working_directory\""));
    assert!(one("command: [ls]\nready: {prot: 80}\n").contains("\"port\""));
    assert!(one("command: [ls]\nbanana: 1\n").contains("one of"));
}

#[test]
fn documents_that_are_no_run_files_are_refused_without_a_panic() {
    for text in [
        "",
        "just words",
        "[]",
        "a: [",
        "command: [ls]\ncommand: [ps]\n",
        "\t",
        "{",
        "- x",
        "command: ls -l",
        "command: !!python/x y",
        "a: &a [*a]",
        "schema: metier.run/1\ncommand: [ls]",
        "command: [ls, [x]]",
        "command: [ls]\n---\ncommand: [ls]\n",
    ] {
        let faults = read(text).unwrap_err();
        assert!(faults.iter().count() > 0 && faults.to_string().contains("want"), "{text:?}: {faults}");
    }
    let bomb =
        format!("a: &a [x]\n{}", (0..40).map(|i| format!("b{i}: &b{i} [*a, *a]\n")).collect::<String>());
    assert!(read(&bomb).is_err());
    assert!(read(&"x".repeat(runfile::MAX_RUN_FILE_BYTES + 1)).unwrap_err().to_string().contains("1 MiB"));
}

#[test]
fn passwords_in_addresses_are_not_told() {
    let told =
        read("command: [ls]\ndataset: ftp://user:hunter2@host/x?token=hunter3\n").unwrap_err().to_string();
    assert!(told.contains("ftp://host/x") && !told.contains("hunter"), "{told}");
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_strange(text in ".{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn no_value_is_too_strange(field in proptest::sample::select(vec!["name", "command", "pod", "mounts", "dataset", "limits", "needs", "ready",
        "stacks", "listen", "container", "probes", "tags", "repeats", "environment"]), value in ".{0,60}") {
        let _ = read(&format!("{field}: {value}\n"));
    }
}

/// Every fault, as field and what would be right.
fn faults(text: &str) -> Vec<(String, String)> {
    let (file, origins) = match runfile::parse(text) {
        Ok(read) => read,
        Err(faults) => return faults.iter().map(|fault| (fault.field.clone(), fault.want.clone())).collect(),
    };
    let faults = file.check_dry(&origins).map(|_| ()).unwrap_err();
    faults.iter().map(|fault| (fault.field.clone(), fault.message())).collect()
}

#[test]
fn a_fault_in_a_list_neither_hides_nor_renames_later_ones() {
    let text = "image: x\nmounts: [nonsense, \"/tmp:/a\", {source: /no/such, target: relative}]\ntags: [{}, \"\"]\n\
                container: {devices: [[], video0]}\nneeds: [{}, 7, {image: \"\"}]\n";
    let found: Vec<String> = faults(text).into_iter().map(|(field, _)| field).collect();
    for field in [
        "mounts[0]",
        "mounts[2].source",
        "mounts[2].target",
        "tags[0]",
        "tags[1]",
        "container.devices[0]",
        "container.devices[1]",
        "needs[0].command",
        "needs[1]",
        "needs[2].image",
    ] {
        assert_eq!(found.iter().filter(|one| *one == field).count(), 1, "{field} in {found:?}");
    }
    assert_eq!(found.len(), 10, "{found:?}");
}

#[test]
fn what_is_said_of_a_container_is_said_of_a_pod_too() {
    let container = "container: {network: host, runtime: nvidia, user: \"1000:44\", devices: [/dev/null], \
                     capabilities: [CAP_SYS_NICE], privileged: true, shared_memory: 64Mi, labels: {team: vision}}";
    let checked = read(&format!("pod: busybox\n{container}\n")).unwrap();
    let RunTarget::Pod(pod) = &checked.spec.target else { panic!("{:?}", checked.spec.target) };
    let confines = &pod.confines;
    assert!(confines.host_network && confines.privileged);
    assert_eq!((confines.runtime.as_deref(), confines.user), (Some("nvidia"), Some((1000, Some(44)))));
    assert_eq!(
        (confines.capabilities.as_slice(), confines.shared_memory),
        (["SYS_NICE".to_string()].as_slice(), Some(Bytes(64 << 20)))
    );
    assert_eq!((confines.devices.len(), confines.labels["team"].as_str()), (1, "vision"));
    let refused = faults(
        "pod: busybox\ncontainer: {engine: /x.sock, stdin: true, user: me, network: mine, labels: {a: \"b c\"}}\n",
    );
    let fields: Vec<&str> = refused.iter().map(|(field, _)| field.as_str()).collect();
    let want =
        ["container.engine", "container.stdin", "container.user", "container.network", "container.labels.a"];
    assert_eq!(fields.len(), want.len(), "{refused:?}");
    assert!(want.iter().all(|field| fields.contains(field)), "{refused:?}");
}

#[test]
fn relative_paths_inside_of_a_container_or_on_a_node_are_refused_and_not_taken_for_ours() {
    for target in ["image: x", "pod: x"] {
        let (mut file, origins) = runfile::parse(&format!("{target}\nworking_directory: app\n")).unwrap();
        file.resolve_paths(std::path::Path::new("/tmp"));
        let faults = file.check(&origins).map(|_| ()).unwrap_err().to_string();
        assert!(faults.contains("working_directory is \"app\"") && faults.contains("absolute"), "{faults}");
    }
    let (mut file, origins) = runfile::parse("pod: x\nmounts: [\"data:/data\"]\n").unwrap();
    file.resolve_paths(std::path::Path::new("/tmp"));
    let faults = file.check(&origins).map(|_| ()).unwrap_err().to_string();
    assert!(faults.contains("mounts[0].source is \"data\"") && faults.contains("node"), "{faults}");
}

#[test]
fn contradictions_are_told_before_anything_runs() {
    for (text, field, part) in [
        ("image: x\nmounts: [\"/tmp:/a\", \"/var:/a/\"]", "mounts[1].target", "mounts[0] is already"),
        ("image: x\nmounts: [\"/tmp:/dataset\"]\ndataset: /tmp", "dataset.target", "mounts[0] is already"),
        (
            "image: x\nmounts: [\"/tmp:/a\"]\nprobes: [{mounts: [\"/tmp:/a\"]}]",
            "probes[0].mounts[0].target",
            "a path of its own",
        ),
        ("pod: x\nlimits: {gpu: all}", "limits.gpu", "one by one"),
        ("image: x\ncontainer: {engine: \"tcp://10.0.0.1:2375\"}", "container.engine", "unix://"),
        ("command: [ls]\ndataset: /no/such/file", "dataset.source", "that is there"),
    ] {
        let found = faults(text);
        assert!(found.len() == 1 && found[0].0 == field && found[0].1.contains(part), "{text}: {found:?}");
    }
}

#[test]
fn how_long_it_is_to_run_is_no_time_limit() {
    let spec = read("command: [ls]\nduration: 20s\ntimeout: 1m\n").unwrap().spec;
    assert_eq!((spec.time_limit().unwrap().as_secs(), spec.ends_as_planned()), (20, true));
    let spec = read("command: [ls]\nduration: 20s\ntimeout: 10s\n").unwrap().spec;
    assert_eq!((spec.time_limit().unwrap().as_secs(), spec.ends_as_planned()), (10, false));
    assert_eq!(faults("command: [ls]\nduration: 0s\n")[0].0, "duration");
}

#[test]
fn what_the_reader_of_yaml_says_is_said_for_people() {
    for (text, want) in [
        ("command: [a]\ncommand: [b]\n", "duplicate mapping key: command;"),
        ("command: [a]\n---\ncommand: [b]\n", "more than one document;"),
        (&format!("command: {}{}", "[".repeat(40), "]".repeat(40)), "more than 32 deep;"),
    ] {
        let told = runfile::parse(text).map(|_| ()).unwrap_err().to_string();
        assert!(told.contains(want) && !told.contains("Policy") && !told.contains("budget"), "{told}");
    }
}

#[test]
fn the_reference_page_has_every_field_and_flag_of_the_table() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/run-file.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for flag in runfile::run_flags() {
        let (outer, field) = flag.field.split_once('.').unwrap_or((flag.field, flag.field));
        let row = rows.iter().find(|row| row.split('|').nth(1).unwrap().contains(&format!("`{outer}`")));
        let row = row.unwrap_or_else(|| panic!("{outer} has no row in docs/reference/run-file.md"));
        assert!(row.contains(&format!("`{field}")), "{field} is missing in {row}");
        let is_named = row.contains(&format!("--{}", flag.name));
        let is_same = (row.contains("same names") || row.contains("each also a flag"))
            && flag.name.replace('-', "_") == field;
        assert!(is_named || is_same, "--{} is missing in {row}", flag.name);
    }
}
