//! `metier store check`: what is wrong is listed, repaired where that is safe, and in the exit code.

use crate::common::{Place, stdout};

#[test]
fn a_check_lists_damage_and_a_repair_mends_what_is_safe() {
    let place = Place::with_fixture();
    place.ok(&["run", "-q", "--name", "own", "--", "true"]);
    let intact = place.json(&["store", "check", "-o", "json"]);
    assert_eq!(intact["schema"], "metier.store-check/1");
    assert_eq!(intact["findings"].as_array().unwrap().len(), 0);
    assert!(place.ok(&["store", "check"]).contains("nothing is wrong"));

    let sql = |sql: &str| {
        let store = rusqlite::Connection::open(place.path("data/metier/metier.db")).unwrap();
        assert!(store.execute(sql, []).unwrap() > 0);
    };
    sql("UPDATE run SET workload_name = 'other' WHERE workload_name = 'own'");
    let output = place.run(&["store", "check", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(found["findings"].as_array().unwrap().len(), 1);
    assert!(found["findings"][0]["problem"].as_str().unwrap().contains("workload_name"), "{found}");
    assert_eq!(found["findings"][0]["repaired"], false);
    assert!(place.ok(&["store", "check", "--repair"]).contains("done: writes them again"));
    place.ok(&["store", "check"]);
    place.ok(&["show", "own"]);

    sql("UPDATE run SET record = replace(record, 'own', 'owl') WHERE workload_name = 'own'");
    for arguments in [&["store", "check"][..], &["store", "check", "--repair"]] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(stdout(&output).contains("no repair is safe"), "{}", stdout(&output));
    }
}

#[test]
fn a_store_that_is_absent_was_not_checked() {
    let place = Place::new();
    let (code, said) = place.fails(&["store", "check", "--store", "none.db"]);
    assert!(code == 1 && said.contains("there is no store"), "{said}");
}
