//! What goes to a pod on another machine and comes back from it: datasets, files, and what the
//! application says of itself.

use std::time::Duration;

use crate::common::{self, cluster, elsewhere, kubectl, pod_of, run, until_up};
use metier_measure::RunSpec;
use metier_measure::spec::BindMount;
use metier_measure::spec::ListenSources;
use metier_types::{Bytes, DatasetUse, ExitCause, ExtraFields, PageCacheState, ValueQuality};

#[test]
fn files_that_a_pod_elsewhere_made_are_kept_with_the_run() {
    let Some(kubeconfig) = cluster() else { return };
    let script = "mkdir -p /srv/out/deep && cd /srv/out && echo one >a.csv && echo two >b.txt && echo no-newline && \
        head -c 3000000 /dev/urandom >deep/large.csv && sha256sum deep/large.csv | cut -c1-64; echo three >/tmp/c.csv; printf end; exit 3";
    let mut spec = elsewhere(&kubeconfig, script);
    spec.artefacts = vec!["/srv/**/*.csv".into(), "tmp/c.csv".into(), "/none/*".into()];
    let (finished, memory) = run(&spec);
    let run = &finished.run;
    assert_eq!(memory.text("/srv/out/a.csv"), "one\n", "{:?} {:?}", memory.files.keys(), run.warnings);
    assert_eq!(memory.text("tmp/c.csv"), "three\n");
    assert!(!memory.files.contains_key("/srv/out/b.txt"));
    let log = memory.text(metier_cluster::LOG_ARTEFACT);
    let digest = metier_store::digest::digest_bytes(&memory.files["/srv/out/deep/large.csv"]).to_string();
    assert!(log.contains(digest.strip_prefix("sha256:").unwrap()), "{log} {digest}");
    assert!(log.ends_with("\nend"), "the launcher's mark is not the run's: {log:?}");
    assert!(run.warnings.iter().any(|warning| warning.text.contains("/none/*")), "{:?}", run.warnings);
    assert_eq!(run.exit.as_ref().unwrap().code, Some(3), "{:?}", run.exit);
    assert_eq!(run.quality.get("summary.cpu_seconds"), Some(&ValueQuality::Exact), "{:?}", run.missing);
}

#[test]
fn what_is_fetched_is_not_counted_as_the_run() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = elsewhere(&kubeconfig, "");
    if !common::burn(&mut spec) {
        return;
    }
    spec.artefacts = vec!["/usr/lib/**/*.so.6".into()];
    let (finished, memory) = run(&spec);
    let (truth, ours) = (common::burnt(&memory), finished.run.summary.cpu_seconds.unwrap().get());
    assert!(ours > truth * 0.995 && ours < truth * 1.01 + 0.02, "ours {ours}, its own {truth}");
    assert!(memory.files.len() > 1, "{:?}", finished.run.warnings);
}

#[test]
fn a_pod_elsewhere_is_listened_to_by_lines_log_and_socket() {
    let Some(kubeconfig) = cluster() else { return };
    let script = "for n in 1 2 3; do echo frames 2 count > $METIER_LINES; done
        echo '{\"meta\":{},\"name\":\"timeit.x\",\"timestamp\":\"2026-01-31T12:00:00.5\",\"value\":5}' >> $PYWAGGLE_LOG_DIR/data.ndjson
        echo not a message > $METIER_LINES
        /usr/bin/python3 -c \"$SPEAK\"";
    let speak = "import os, socket
stream = socket.socket(socket.AF_UNIX)
stream.connect(os.environ['METIER_SOCKET'])
for n in range(1000): stream.sendall(b'{\"live\": {\"value\": 0.5, \"timestamp\": %d}}\\n\\n' % n)
datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
datagrams.sendto(b'{\"apart\": 3}', os.environ['METIER_DATAGRAMS'])";
    let mut spec = elsewhere(&kubeconfig, script);
    spec.environment.push(("SPEAK".into(), speak.into()));
    for folder in ["/usr", "/lib", "/lib64"] {
        spec.mounts.push(BindMount { source: folder.into(), target: folder.into(), read_only: true });
    }
    spec.listen = ListenSources { socket: true, pywaggle: true, lines: true, ..ListenSources::default() };
    spec.timeout = Some(Duration::from_secs(60));
    let (finished, memory) = run(&spec);
    let run = &finished.run;
    assert!(memory.series.iter().any(|name| name == "app"), "its time line: {:?}", memory.series);
    let found: Vec<(&str, u64)> = run.stages.iter().map(|s| (s.name.as_str(), s.count)).collect();
    for stage in [("frames", 6), ("timeit.x", 1), ("live", 1000), ("apart", 1)] {
        assert!(found.contains(&stage), "{stage:?} of {found:?} {:?} {:?}", run.exit, run.missing);
    }
    assert!(!run.missing.contains_key("stages"), "{:?}", run.missing);
    assert_eq!(run.intake.as_ref().unwrap().malformed, 1, "{:?}", run.intake);
    assert!(run.missing.contains_key("stages.cpu_seconds_per_item"), "{:?}", run.missing);
}

/// A program that serves a page so many times and no more, so that nothing depends on how fast it
/// is read.
const SERVE: &str = "import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    served = 0
    def do_GET(self):
        Page.served += 1
        text = '# TYPE done counter\\ndone %d\\n# TYPE depth gauge\\ndepth 4\\n' % (Page.served * 10)
        self.send_response(200)
        self.send_header('content-type', 'text/plain; version=0.0.4')
        self.end_headers()
        self.wfile.write(text.encode())
server = http.server.HTTPServer((os.environ['AT'], 8000), Page)
while Page.served < 3: server.handle_request()";

fn serving(kubeconfig: &std::path::Path, at: &str) -> RunSpec {
    let mut spec = elsewhere(kubeconfig, "/usr/bin/python3 -c \"$SERVE\"");
    spec.environment.extend([("SERVE".into(), SERVE.into()), ("AT".into(), at.into())]);
    for folder in ["/usr", "/lib", "/lib64"] {
        spec.mounts.push(BindMount { source: folder.into(), target: folder.into(), read_only: true });
    }
    spec.listen.scrape = vec!["http://localhost:8000/metrics".into()];
    spec
}

#[test]
fn the_page_of_a_pod_elsewhere_is_read_through_the_cluster_with_or_without_the_launcher() {
    let Some(kubeconfig) = cluster() else { return };
    for is_known in [true, false] {
        let mut spec = serving(&kubeconfig, "");
        spec.timeout = Some(Duration::from_secs(60));
        if !is_known {
            let pod = pod_of(&mut spec);
            let words = pod.entrypoint.take().unwrap();
            pod.arguments = words.into_iter().chain(pod.arguments.clone()).collect();
        }
        let (finished, memory) = run(&spec);
        let run = &finished.run;
        let mut found: Vec<(&str, u64)> = run.stages.iter().map(|s| (s.name.as_str(), s.count)).collect();
        found.sort_unstable();
        assert_eq!(found, [("depth", 3), ("done", 20)], "{:?} {:?} {:?}", run.exit, run.missing, run.intake);
        assert!(!run.missing.contains_key("stages"), "{:?}", run.missing);
        assert!(memory.series.iter().any(|name| name == "app"), "its time line: {:?}", memory.series);
    }
}

#[test]
fn a_page_of_a_pod_elsewhere_that_only_the_pod_itself_reaches_says_what_would_help() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = serving(&kubeconfig, "127.0.0.1");
    spec.timeout = Some(Duration::from_secs(3));
    let (finished, _) = run(&spec);
    let why = &finished.run.missing["stages"];
    assert!(why.reason.contains("http://localhost:8000/metrics could not be read"), "{why:?}");
    assert!(why.fix.as_ref().unwrap().contains("loopback"), "{why:?}");
}

fn with_dataset(spec: &mut RunSpec, path: &std::path::Path, target: &str) {
    spec.dataset_path = Some(path.into());
    spec.dataset = Some(DatasetUse {
        source: path.display().to_string(),
        digest: metier_store::digest::digest_input(path).unwrap(),
        size_bytes: Bytes(0),
        was_cached: true,
        fetch_seconds: None,
        page_cache: PageCacheState::Cold,
        extra: ExtraFields::new(),
    });
    spec.mounts.push(BindMount { source: path.into(), target: target.into(), read_only: true });
}

#[test]
fn a_dataset_reaches_a_pod_elsewhere_whole_and_read_only() {
    let Some(kubeconfig) = cluster() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
    let bytes: Vec<u8> = (0..5_000_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
    std::fs::write(folder.path().join("a/b/large"), &bytes).unwrap();
    std::fs::write(folder.path().join("small"), "few").unwrap();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    let script = "cd /data && sha256sum a/b/large | cut -c1-64; cat small; find . -type f | wc -l; touch x 2>/dev/null || echo read-only";
    let mut spec = elsewhere(&kubeconfig, script);
    with_dataset(&mut spec, folder.path(), "/data");
    let (finished, memory) = run(&spec);
    let log = memory.text(metier_cluster::LOG_ARTEFACT);
    let digest = metier_store::digest::digest_bytes(&bytes).to_string();
    assert!(log.starts_with(digest.strip_prefix("sha256:").unwrap()), "{log} {:?}", finished.run.exit);
    assert!(log.contains("few3\n") && log.contains("read-only"), "{log}");

    let mut spec = elsewhere(&kubeconfig, "cat /one/file");
    with_dataset(&mut spec, &folder.path().join("small"), "/one/file");
    let (_, memory) = run(&spec);
    assert_eq!(memory.text(metier_cluster::LOG_ARTEFACT), "few");
}

#[test]
fn a_dataset_that_cannot_be_brought_is_why_the_run_never_started() {
    let Some(kubeconfig) = cluster() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x"), "x").unwrap();
    let mut spec = elsewhere(&kubeconfig, "true");
    with_dataset(&mut spec, folder.path(), "/data");
    std::fs::remove_file(folder.path().join("x")).unwrap();
    std::os::unix::fs::symlink("/no/such/file", folder.path().join("x")).unwrap();
    let (finished, _) = run(&spec);
    let exit = finished.run.exit.unwrap();
    assert_eq!(exit.cause, ExitCause::Unstarted, "{exit:?}");
    assert!(exit.detail.as_ref().unwrap().contains("dataset could not be brought"), "{exit:?}");

    let mut spec = elsewhere(&kubeconfig, "true");
    std::fs::remove_file(folder.path().join("x")).unwrap();
    with_dataset(&mut spec, folder.path(), "/data");
    pod_of(&mut spec).entrypoint = None;
    let (finished, _) = run(&spec);
    let exit = finished.run.exit.unwrap();
    assert_eq!(exit.cause, ExitCause::Unstarted, "{exit:?}");
    assert!(exit.detail.as_ref().unwrap().contains("entrypoint"), "{exit:?}");
}

#[test]
fn a_pod_that_is_gone_before_its_files_could_be_fetched_says_so() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = elsewhere(&kubeconfig, "echo one >/tmp/a; echo up; sleep 600");
    spec.artefacts = vec!["/tmp/a".into()];
    let other = spec.clone();
    let deleting = std::thread::spawn(move || {
        let (name, _) = until_up(&other);
        kubectl(&other, &["delete", "pod", &name, "--grace-period=0", "--force", "--wait=false"]);
    });
    let (finished, memory) = run(&spec);
    deleting.join().unwrap();
    assert!(!memory.files.contains_key("/tmp/a"));
    let warnings = &finished.run.warnings;
    assert!(warnings.iter().any(|warning| warning.text.contains("could not be fetched")), "{warnings:?}");
}
