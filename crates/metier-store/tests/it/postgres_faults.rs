//! Behaviour of a PostgreSQL store when the server, the connection or the database fails.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::common::*;
use metier_store::{Error, RecordStore};
use postgres::{Client, NoTls};

fn client(place: &Place) -> Client {
    match place {
        Place::Schema { url, .. } => Client::connect(url, NoTls).unwrap(),
        Place::Folder(_) => panic!("a server is wanted"),
    }
}

fn refusal(url: &str) -> Error {
    match RecordStore::open(&url.parse().unwrap()) {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error,
    }
}

/// Ends the connections of stores with this location's search path.
fn cut(place: &Place) -> i64 {
    let Place::Schema { name, .. } = place else { panic!("a server is wanted") };
    // Locks and last statements do not identify the owner of an idle connection; the application
    // name does.
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
    let count = client(place).query_one(sql, &[name]).unwrap().get(0);
    std::thread::sleep(Duration::from_millis(50));
    count
}

/// A store with an identifiable connection.
fn named(place: &Place) -> RecordStore {
    let Place::Schema { url, name, .. } = place else { panic!("a server is wanted") };
    RecordStore::open(&format!("{url}&application_name={name}").parse().unwrap()).unwrap()
}

#[test]
fn a_lost_connection_is_made_again() {
    let Some(place) = Place::postgres() else { return };
    let store = named(&place);
    let run = run_at(0, "train");
    store.begin_run(&run, &owner(1)).unwrap();
    for part in 0..5 {
        assert_eq!(cut(&place), 1);
        store.append_series(run.id, &[chunk(run.id, "use", part * 10, 10)]).unwrap();
        assert_eq!(cut(&place), 1);
        assert_eq!(store.series(run.id, None).unwrap(), [chunk(run.id, "use", 0, part * 10 + 10)]);
    }
    assert_eq!(cut(&place), 1);
    store.finish_run(&over(&run)).unwrap();
    assert_eq!(store.run(run.id).unwrap().unwrap(), over(&run));
    assert_eq!(store.check_health().map(|_| cut(&place)).unwrap(), 1);
    assert_eq!(store.check_health().unwrap().runs, 1);
}

#[test]
fn connections_cut_at_any_moment_lose_nothing() {
    let Some(place) = Place::postgres() else { return };
    let store = named(&place);
    let run = run_at(0, "train");
    store.begin_run(&run, &owner(1)).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let mut retried = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                cut(&place);
            }
        });
        let mut part = 0;
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            // A second cut right after the first is an error; the caller may retry.
            while store.append_series(run.id, &[chunk(run.id, "use", part * 10, 10)]).is_err() {
                retried += 1;
            }
            part += 1;
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    store.finish_run(&over(&run)).unwrap();
    let series = store.series(run.id, None).unwrap().remove(0);
    let mut times = series.times.clone();
    times.dedup();
    assert!(
        series.times.len() <= times.len() + retried * 10,
        "only what the caller repeated may be there twice"
    );
    assert!(times.len() > 100, "{}", times.len());
    assert_eq!(times, chunk(run.id, "use", 0, times.len() as i64).times, "nothing lost");
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_was() {
    let Some(place) = Place::postgres() else { return };
    place.open();
    client(&place).batch_execute("UPDATE metier_schema SET version = 99").unwrap();
    for error in [
        RecordStore::open(&place.location()).map(|_| ()).unwrap_err(),
        RecordStore::open_read_only(&place.location()).map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Newer { found: 99, known: 4, .. }), "{error}");
    }
}

#[test]
fn every_earlier_schema_is_brought_up_to_date() {
    let shipped = [
        include_str!("../golden/schema-1.postgres.sql"),
        include_str!("../golden/schema-2.postgres.sql"),
        include_str!("../golden/schema-3.postgres.sql"),
        include_str!("../golden/schema-4.postgres.sql"),
    ];
    for version in 1..=shipped.len() {
        let sql = shipped[..version].concat();
        let Some(place) = Place::postgres() else { return };
        let mut client = client(&place);
        client.batch_execute(&sql).unwrap();
        client
            .batch_execute(&format!(
                "CREATE TABLE metier_schema (version BIGINT NOT NULL); INSERT INTO metier_schema VALUES ({version})"
            ))
            .unwrap();
        let store = place.open();
        assert_eq!(store.check_health().unwrap().schema_version, 4);
        let run = run_at(0, "train");
        store.begin_run(&run, &owner(1)).unwrap();
        assert_eq!(store.find_run("train").unwrap(), run.id);
    }
    let now = [
        include_str!("../../src/migrations/1.postgres.sql"),
        include_str!("../../src/migrations/2.postgres.sql"),
        include_str!("../../src/migrations/3.postgres.sql"),
        include_str!("../../src/migrations/4.postgres.sql"),
    ];
    assert_eq!(shipped, now, "these versions have shipped: add another");
}

#[test]
fn tables_of_another_program_are_left_alone() {
    let Some(place) = Place::postgres() else { return };
    let mut client = client(&place);
    client.batch_execute("CREATE TABLE artefact (x INT); INSERT INTO artefact VALUES (1)").unwrap();
    let error = RecordStore::open(&place.location()).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    let tables: i64 = client
        .query_one("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()", &[])
        .unwrap()
        .get(0);
    assert_eq!(tables, 1, "nothing was made");
}

#[test]
fn a_user_who_may_only_read_is_told_so() {
    let Some(place) = Place::postgres() else { return };
    let store = place.open();
    store.put_device(&device("1", "a")).unwrap();
    let Place::Schema { url, name, .. } = &place else { return };
    let mut client = client(&place);
    client
        .batch_execute(&format!(
            "CREATE ROLE {name} LOGIN PASSWORD 'topsecret'; GRANT USAGE ON SCHEMA {name} TO {name}; \
             GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {name}"
        ))
        .unwrap();
    let at = url.find('@').unwrap();
    let weak = format!("postgres://{name}:topsecret{}", &url[at..]);
    let reader = RecordStore::open_read_only(&weak.parse().unwrap()).unwrap();
    assert_eq!(reader.devices().unwrap().len(), 1);
    let writer = RecordStore::open(&weak.parse().unwrap()).unwrap();
    let error = writer.put_device(&device("2", "b")).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("topsecret"));
    drop((reader, writer));
    client.batch_execute(&format!("DROP OWNED BY {name}; DROP ROLE {name}")).unwrap();
}

#[test]
fn a_server_that_is_not_there_is_said_so_soon() {
    // No server listens.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refusal(&format!("postgres://metier:topsecret@127.0.0.1:{port}/metier"));
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("topsecret"), "{error}");
    // A server listens but never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let start = Instant::now();
    let port = listener.local_addr().unwrap().port();
    let error = refusal(&format!("postgres://metier@127.0.0.1:{port}/metier?connect_timeout=60"));
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "the limit is 5 s");
}

#[test]
fn a_wrong_database_is_said_so() {
    let Ok(server) = std::env::var("METIER_LAB_POSTGRES") else {
        eprintln!("SKIP: a wrong database, because METIER_LAB_POSTGRES is not set");
        return;
    };
    let base = server.rsplit_once('/').unwrap().0;
    let error = refusal(&format!("{base}/no_such_database"));
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("no_such_database"), "{error}");
}

#[cfg(not(feature = "postgres-tls"))]
#[test]
fn encryption_that_was_not_built_in_is_not_silently_left_out() {
    let error = refusal("postgres://metier:topsecret@127.0.0.1:1/metier?sslmode=require");
    assert!(error.to_string().contains("postgres-tls"), "{error}");
    assert!(!error.to_string().contains("topsecret"), "{error}");
}
