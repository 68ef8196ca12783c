//! Histories over the API.

use crate::common::*;
use metier_types::*;

#[test]
fn a_history_comes_with_its_changes_and_a_wrong_figure_is_told() {
    let (_folder, store) = store();
    for at in 0..20u32 {
        let mut run = run("alpha", BatchId::new(), at);
        run.summary.wall_seconds = Some(Seconds(if at < 10 { 1.0 } else { 1.5 } + 0.001 * f64::from(at % 3)));
        store.put_run(&run, &[]).unwrap();
    }
    let server = Server::start(&store);
    let trends = server.get("/api/v1/trend?workload=alpha").json();
    assert_eq!(trends["schema"], "metier.trend/1");
    assert_eq!(trends["metric"], "wall");
    assert_eq!(trends["trends"][0]["state"], "changed");
    assert_eq!(trends["trends"][0]["changes"][0]["at"], 10);
    assert_eq!(server.get("/api/v1/trend?workload=nobody").json()["trends"].as_array().unwrap().len(), 0);
    // Only the latest eight are of one level.
    let few = server.get("/api/v1/trend?limit=8").json();
    assert_eq!(few["trends"][0]["state"], "no-change-shown");
    let wrong = server.get("/api/v1/trend?metric=speed");
    assert_eq!(wrong.status, 400);
    let problem: serde_json::Value = serde_json::from_slice(&wrong.body).unwrap();
    assert_eq!(problem["errors"][0]["field"], "metric");
}
