//! What an application in a pod says of itself comes into the record as that of any other run.

use crate::common::{Memory, cluster, session, shell};
use metier_measure::spec::ListenSources;

#[test]
fn a_pod_is_listened_to_by_lines_log_and_its_own_page() {
    let Some(kubeconfig) = cluster() else { return };
    let folder = tempfile::tempdir().unwrap();
    // The page is served twice and no more, so that nothing depends on how fast it is read.
    let text = "echo frames 2 count >> $METIER_LINES
        echo '{\"meta\":{},\"name\":\"timeit.x\",\"timestamp\":\"2026-01-31T12:00:00.5\",\"value\":5}' >> $PYWAGGLE_LOG_DIR/data.ndjson
        for n in 1 2; do printf \"HTTP/1.0 200 OK\\r\\n\\r\\n# TYPE done counter\\ndone $n\\n\" | nc -l -p 8000 > /dev/null; done";
    let mut spec = shell(&kubeconfig, text);
    spec.listen = ListenSources {
        socket: true,
        pywaggle: true,
        lines: true,
        scrape: vec!["http://localhost:8000/metrics".into()],
        ..ListenSources::default()
    };
    spec.timeout = Some(std::time::Duration::from_secs(120));
    let mut memory = Memory::default();
    let run = metier_cluster::run_pod(&mut session(folder.path()), &spec, &mut memory).unwrap().run;
    assert_eq!(run.exit.as_ref().unwrap().code, Some(0), "{:?}", run.exit);
    let mut found: Vec<(&str, u64)> =
        run.stages.iter().map(|stage| (stage.name.as_str(), stage.count)).collect();
    found.sort_unstable();
    assert_eq!(found, [("done", 1), ("frames", 2), ("timeit.x", 1)], "{:?} {:?}", run.intake, run.missing);
    assert_eq!(std::fs::read_dir(folder.path().join("listen")).unwrap().count(), 0);
}
