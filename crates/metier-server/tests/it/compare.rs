//! Comparing through the API.

use crate::common::*;
use metier_stats::{ComparisonVerdict, RunComparison};
use metier_types::*;

fn batch(store: &metier_store::RecordStore, name: &str, count: u32, cpu: f64) -> Vec<Run> {
    let batch = BatchId::new();
    let make = |number| {
        let mut run = run(name, batch, number);
        run.summary.cpu_seconds = Some(Seconds(cpu * (1.0 + f64::from(number % 5) / 1000.0)));
        store.put_run(&run, &[]).unwrap();
        run
    };
    (0..count).map(make).collect()
}

#[test]
fn batches_and_lists_of_runs_are_compared() {
    let (_folder, store) = store();
    let (old, new) = (batch(&store, "sort", 10, 1.0), batch(&store, "sort", 10, 1.3));
    let server = Server::start(&store);
    let read = |query: String| -> RunComparison {
        serde_json::from_value(server.get(&format!("/api/v1/compare?{query}")).json()).unwrap()
    };
    let verdict = |comparison: &RunComparison| {
        comparison.metrics.iter().find(|m| m.field.to_string().contains("cpu_seconds")).unwrap().verdict
    };
    let whole = read(format!("a={}&b={}", old[0].batch, new[0].batch));
    assert_eq!((whole.a.n, whole.b.n), (10, 10));
    assert_eq!(verdict(&whole), ComparisonVerdict::Increase);
    assert_eq!(whole.a.label, format!("sort {}", old[0].batch.short()));

    let ids = |runs: &[Run]| runs.iter().map(|run| run.id.to_string()).collect::<Vec<_>>().join(",");
    let listed = read(format!("a={}&b={}", ids(&old), ids(&new)));
    assert_eq!(listed.metrics, whole.metrics);

    let few = read(format!("a={}&b={}", old[0].id, new[0].id));
    assert_eq!(verdict(&few), ComparisonVerdict::TooFewRuns);
    assert_eq!(few.a.label, format!("sort {}", old[0].id.short()));

    // A run that is named beside its own batch counts once.
    let again = read(format!("a={},{}&b={}", old[0].id, old[0].batch, new[0].batch));
    assert_eq!(again.a.n, 10);
}

#[test]
fn what_cannot_be_compared_is_told_with_the_side() {
    let (_folder, store) = store();
    let old = batch(&store, "sort", 3, 1.0);
    let mut failed = run("sort", BatchId::new(), 9);
    failed.exit = failed.exit.map(|exit| RunExit { code: Some(1), ..exit });
    store.put_run(&failed, &[]).unwrap();
    let server = Server::start(&store);
    let (a, unknown) = (old[0].batch, RunId::new());
    let problem = server.get(&format!("/api/v1/compare?a={a}&b={unknown}")).problem(404);
    assert_eq!(problem["errors"][0]["field"], "b");
    let problem = server.get(&format!("/api/v1/compare?a={a}&b={}", failed.id)).problem(422);
    assert_eq!(problem["errors"][0]["field"], "b");
    let problem = server.get(&format!("/api/v1/compare?a={a}&b={a}")).problem(400);
    assert!(problem["detail"].as_str().unwrap().contains("twice"), "{problem}");
    let many = vec![a.to_string(); 65].join(",");
    server.get(&format!("/api/v1/compare?a={many}&b={a}")).problem(400);
}
