//! The same commands on a PostgreSQL server.

use std::process::Stdio;

use crate::common::{Place, fixture, stderr};

/// A schema of its own on the lab's server, removed at the end.
struct Schema {
    server: String,
    name: String,
}

impl Schema {
    fn new() -> Option<Self> {
        let Ok(server) = std::env::var("METIER_LAB_POSTGRES") else {
            eprintln!(
                "SKIP: the commands on PostgreSQL, because METIER_LAB_POSTGRES is not set \
                 (lab/lab up postgres && eval \"$(lab/lab env postgres)\")"
            );
            return None;
        };
        let name = format!("t{}", metier_types::RunId::new().to_string().replace('-', ""));
        let schema = Self { server, name };
        schema.execute("CREATE SCHEMA");
        Some(schema)
    }

    fn execute(&self, what: &str) {
        let mut client = postgres::Client::connect(&self.server, postgres::NoTls).unwrap();
        client.batch_execute(&format!("{what} {}", self.name)).unwrap();
    }

    fn url(&self) -> String {
        let joint = if self.server.contains('?') { '&' } else { '?' };
        format!("{}{joint}options=-csearch_path%3D{}", self.server, self.name)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Ok(mut client) = postgres::Client::connect(&self.server, postgres::NoTls) {
            let _ = client.batch_execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name));
        }
    }
}

#[test]
fn an_archive_survives_both_engines_byte_by_byte() {
    let (Some(schema), place) = (Schema::new(), Place::new()) else { return };
    let url = schema.url();
    place.ok(&["import", "--store", &url, fixture().to_str().unwrap()]);
    place.ok(&["run", "-q", "--store", &url, "--interval", "5ms", "--", "sh", "-c", "sleep 0.05; /bin/true"]);
    let from_server = place.ok(&["export", "--all", "--store", &url]);
    std::fs::write(place.path("a.jsonl"), &from_server).unwrap();
    place.ok(&["import", "a.jsonl"]);
    assert!(place.ok(&["export", "--all"]) == from_server, "the engines differ");
    assert_eq!(
        place.ok(&["show", "last", "-o", "json", "--store", &url]),
        place.ok(&["show", "last", "-o", "json"])
    );
    assert_eq!(
        place.ok(&["runs", "--all", "-o", "csv", "--store", &url]),
        place.ok(&["runs", "--all", "-o", "csv"])
    );
    assert_eq!(
        place.run(&["compare", "before", "after", "--fail-above", "5%", "--store", &url]).status.code(),
        Some(5)
    );
}

#[test]
fn an_interrupt_is_recorded_on_a_server_too() {
    let (Some(schema), place) = (Schema::new(), Place::new()) else { return };
    let url = schema.url();
    let marker = place.path("started");
    let script = format!("touch {}; sleep 30", marker.display());
    let child = place
        .command(&["run", "--store", &url, "--grace", "200ms", "--", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !marker.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // SAFETY: a signal to a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(place.json(&["show", "last", "-o", "json", "--store", &url])["exit"]["cause"], "interrupted");
}
