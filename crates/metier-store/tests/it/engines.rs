//! Behaviour of a store on both engines: each function below runs with an SQLite file and with a
//! schema of its own on the lab's PostgreSQL server.

use std::io::Cursor;

use crate::common::*;
use metier_store::{
    CancelOutcome, Error, NewSession, RecordStore, RunFilter, SeriesWriter, SessionEnd, SessionFilter,
    StoredTrial,
};
use metier_types::{
    ArtefactRef, BatchId, Bytes, ColumnKind, ColumnUnit, ColumnValues, ContentDigest, DeviceRef, ExitCause,
    Passport, Predictor, RunId, RunState, Series, SessionState, UtcTimestamp,
};
use sha2::Digest as _;

macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[test] fn $name() { super::$name(&super::Place::sqlite()); })*
        }
        mod postgresql {
            $(#[test] fn $name() { if let Some(place) = super::Place::postgres() { super::$name(&place); } })*
        }
    };
}

on_both!(
    a_run_reads_back_as_it_was_written,
    beginning_twice_is_the_same_or_a_conflict,
    finishing_needs_a_run_that_began,
    samples_read_back_before_and_after_the_end,
    columns_that_come_and_go_leave_absent_rows,
    long_series_are_cut_into_blocks_and_read_back_whole,
    samples_that_went_back_in_time_are_sorted_in,
    wrong_series_are_refused,
    samples_of_no_run_are_refused,
    an_import_is_idempotent_and_detects_conflicts,
    lists_are_newest_first_and_paged,
    filters_select,
    odd_texts_are_found_and_do_no_harm,
    a_run_is_found_by_what_people_type,
    a_batch_is_listed_in_order,
    removing_a_run_removes_what_only_it_had,
    a_sweep_interrupts_runs_whose_owner_is_gone,
    artefacts_are_stored_once_and_checked,
    large_artefacts_stream,
    linked_artefacts_are_in_the_record,
    devices_and_workloads_are_kept,
    passports_are_kept,
    predictors_are_kept_with_their_files,
    trials_are_kept_by_key,
    memos_are_kept_and_bounded,
    a_reader_reads_and_cannot_write,
    a_check_tells_engine_and_size,
    many_writers_at_once_lose_nothing,
    several_openers_at_once_make_one_store,
    the_writer_thread_writes_everything,
    a_record_that_cannot_be_read_back_is_refused,
    sessions_are_taken_in_the_order_of_asking_one_at_a_time_on_a_device,
    a_session_for_a_device_is_only_taken_by_it,
    a_full_queue_takes_no_more,
    asking_again_with_the_same_id_is_the_same_session,
    cancelling_removes_who_waits_and_tells_who_runs,
    a_session_whose_worker_is_gone_waits_again_once_if_it_had_not_begun,
    only_who_works_a_session_ends_it,
    a_session_is_found_by_what_people_type,
    the_log_of_a_session_is_kept_in_order,
    many_workers_and_askers_at_once_keep_the_order_and_the_device,
);

fn begun(store: &RecordStore, second: i64, name: &str) -> metier_types::Run {
    let run = run_at(second, name);
    store.begin_run(&run, &owner(1)).unwrap();
    run
}

fn a_run_reads_back_as_it_was_written(place: &Place) {
    let store = place.open();
    let run = begun(&store, 0, "train");
    assert_eq!(store.run(run.id).unwrap().unwrap(), run);
    let done = over(&run);
    store.finish_run(&done).unwrap();
    drop(store);
    let store = place.open();
    assert_eq!(store.run(run.id).unwrap().unwrap(), done, "unknown fields and every digit survive");
    assert_eq!(store.run(RunId::new()).unwrap(), None);
    assert_eq!(store.location(), &place.location());
}

fn beginning_twice_is_the_same_or_a_conflict(place: &Place) {
    let store = place.open();
    let mut run = begun(&store, 0, "train");
    store.begin_run(&run, &owner(1)).unwrap();
    run.tags.push("other".to_string());
    assert!(matches!(store.begin_run(&run, &owner(1)), Err(Error::Conflict { .. })));
    assert!(matches!(store.begin_run(&over(&run), &owner(1)), Err(Error::Refused { .. })));
}

fn finishing_needs_a_run_that_began(place: &Place) {
    let store = place.open();
    let run = run_at(0, "train");
    assert!(matches!(store.finish_run(&over(&run)), Err(Error::NoRun { .. })));
    store.begin_run(&run, &owner(1)).unwrap();
    assert!(matches!(store.finish_run(&run), Err(Error::Refused { .. })));
}

fn samples_read_back_before_and_after_the_end(place: &Place) {
    let store = place.open();
    let run = begun(&store, 0, "train");
    assert_eq!(store.series(run.id, None).unwrap(), vec![]);
    for second in 0..10 {
        let both = [chunk(run.id, "use", second * 100, 100), chunk(run.id, "host", second, 1)];
        store.append_series(run.id, &both).unwrap();
    }
    let want = vec![chunk(run.id, "host", 0, 10), chunk(run.id, "use", 0, 1000)];
    assert_eq!(store.series(run.id, None).unwrap(), want);
    store.finish_run(&over(&run)).unwrap();
    assert_eq!(store.series(run.id, None).unwrap(), want);
    assert_eq!(store.series(run.id, Some("use")).unwrap(), want[1..]);
    assert_eq!(store.series(run.id, Some("gpu")).unwrap(), vec![]);
    assert!(matches!(store.series(RunId::new(), None), Err(Error::NoRun { .. })));

    // A late append after the end is still read, and merged by a second finish.
    store.append_series(run.id, &[chunk(run.id, "use", 1000, 5)]).unwrap();
    assert_eq!(store.series(run.id, Some("use")).unwrap(), [chunk(run.id, "use", 0, 1005)]);
    store.finish_run(&over(&run)).unwrap();
    assert_eq!(store.series(run.id, Some("use")).unwrap(), [chunk(run.id, "use", 0, 1005)]);
}

fn columns_that_come_and_go_leave_absent_rows(place: &Place) {
    let store = place.open();
    let run = begun(&store, 0, "train");
    let mut first = chunk(run.id, "use", 0, 2);
    first.columns.truncate(1);
    let mut second = chunk(run.id, "use", 2, 2);
    second.columns[0].absent = vec![1];
    let mut third = chunk(run.id, "use", 4, 1);
    third.columns.remove(0);
    let mut fourth = chunk(run.id, "use", 5, 1);
    fourth.columns[0].values = ColumnValues::Float(vec![0.5]);
    store.append_series(run.id, &[first, second]).unwrap();
    store.append_series(run.id, &[third]).unwrap();
    store.append_series(run.id, &[fourth]).unwrap();
    let before = store.series(run.id, None).unwrap().remove(0);
    store.finish_run(&over(&run)).unwrap();
    let after = store.series(run.id, None).unwrap().remove(0);
    assert_eq!(before, after);
    assert_eq!(after.find_defect(), None);
    assert_eq!(after.times, chunk(run.id, "use", 0, 6).times);
    let columns: Vec<_> = after.columns.iter().map(|c| (c.name.as_str(), c.absent.clone())).collect();
    assert_eq!(
        columns,
        [("cpu", vec![3, 4, 5]), ("load", vec![0, 1]), ("cpu", vec![0, 1, 2, 3, 4])],
        "a column that changed its type is another column"
    );
    assert_eq!(after.columns[1].values.value_at(5), Some(0.5));
}

fn long_series_are_cut_into_blocks_and_read_back_whole(place: &Place) {
    let store = place.open();
    let run = begun(&store, 0, "train");
    for part in 0..15 {
        store.append_series(run.id, &[chunk(run.id, "use", part * 10_000, 10_000)]).unwrap();
    }
    store.finish_run(&over(&run)).unwrap();
    assert!(store.series(run.id, None).unwrap() == [chunk(run.id, "use", 0, 150_000)]);
    // One append larger than a block, and a wide one.
    let run = begun(&store, 1, "train");
    store.append_series(run.id, &[chunk(run.id, "use", 0, 150_000)]).unwrap();
    let mut wide = chunk(run.id, "wide", 0, 3000);
    wide.columns = (0..2000)
        .map(|i| metier_types::SeriesColumn {
            name: format!("c{i}"),
            kind: ColumnKind::Gauge,
            unit: ColumnUnit::Ratio,
            values: ColumnValues::Integer(vec![i; 3000]),
            absent: vec![],
        })
        .collect();
    store.append_series(run.id, std::slice::from_ref(&wide)).unwrap();
    store.finish_run(&over(&run)).unwrap();
    assert!(store.series(run.id, None).unwrap() == [chunk(run.id, "use", 0, 150_000), wide]);
}

fn samples_that_went_back_in_time_are_sorted_in(place: &Place) {
    let store = place.open();
    let run = begun(&store, 0, "train");
    store.append_series(run.id, &[chunk(run.id, "use", 50, 50)]).unwrap();
    store.append_series(run.id, &[chunk(run.id, "use", 0, 50)]).unwrap();
    assert_eq!(store.series(run.id, None).unwrap(), [chunk(run.id, "use", 0, 100)]);
    store.finish_run(&over(&run)).unwrap();
    assert_eq!(store.series(run.id, None).unwrap(), [chunk(run.id, "use", 0, 100)]);
}

fn wrong_series_are_refused(place: &Place) {
    let store = place.open();
    let run = begun(&store, 0, "train");
    let mut back = chunk(run.id, "use", 0, 3);
    back.times.reverse();
    let mut short = chunk(run.id, "use", 0, 3);
    short.times.pop();
    let stranger = chunk(RunId::new(), "use", 0, 3);
    for bad in [back, short, stranger, chunk(run.id, "", 0, 1), chunk(run.id, "a\0b", 0, 1)] {
        let error = store.append_series(run.id, &[bad]).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
    }
    assert_eq!(store.series(run.id, None).unwrap(), vec![], "nothing of it was stored");
}

fn samples_of_no_run_are_refused(place: &Place) {
    let store = place.open();
    let id = RunId::new();
    assert!(matches!(store.append_series(id, &[chunk(id, "use", 0, 1)]), Err(Error::NoRun { .. })));
    store.append_series(id, &[]).unwrap();
}

fn an_import_is_idempotent_and_detects_conflicts(place: &Place) {
    let store = place.open();
    let run = over(&run_at(0, "train"));
    let mut odd = chunk(run.id, "odd", 0, 3);
    odd.columns[1].values = ColumnValues::Float(vec![f64::NAN, -0.0, f64::INFINITY]);
    let series = [chunk(run.id, "use", 0, 70_000), odd];
    assert!(store.put_run(&run, &series).unwrap());
    assert!(!store.put_run(&run, &series).unwrap());
    assert!(!store.put_run(&run, &[series[1].clone(), series[0].clone()]).unwrap());
    assert_eq!(store.run(run.id).unwrap().unwrap(), run);

    let mut other = run.clone();
    other.tags.clear();
    assert!(matches!(store.put_run(&other, &series), Err(Error::Conflict { .. })));
    assert!(matches!(store.put_run(&run, &series[..1]), Err(Error::Conflict { .. })));
    let mut changed = series.clone();
    if let ColumnValues::Integer(values) = &mut changed[0].columns[0].values {
        values[69_999] += 1;
    }
    assert!(matches!(store.put_run(&run, &changed), Err(Error::Conflict { .. })));
    let twice = [series[0].clone(), series[0].clone()];
    assert!(matches!(store.put_run(&run, &twice), Err(Error::Refused { .. })));
    assert!(!store.put_run(&run, &series).unwrap(), "nothing was changed by the attempts");

    // A run exported from one store can be imported into another and exported again.
    let second = Place::sqlite();
    let copy = second.open();
    let out = store.series(run.id, None).unwrap();
    assert!(copy.put_run(&store.run(run.id).unwrap().unwrap(), &out).unwrap());
    assert!(!copy.put_run(&run, &series).unwrap());
}

fn lists_are_newest_first_and_paged(place: &Place) {
    let store = place.open();
    assert_eq!(store.runs(&RunFilter::default()).unwrap().total, 0);
    // Two runs per second: the id breaks the tie.
    let mut runs: Vec<_> = (0..25).map(|i| begun(&store, i / 2, "train")).collect();
    runs.sort_by_key(|run| (run.started, run.id));
    runs.reverse();
    let mut seen = Vec::new();
    let mut filter = RunFilter { limit: 10, ..Default::default() };
    loop {
        let page = store.runs(&filter).unwrap();
        assert_eq!(page.total, 25);
        seen.extend(page.runs.iter().map(|row| row.id));
        filter.after = page.next;
        if filter.after.is_none() {
            break;
        }
        assert_eq!(page.runs.len(), 10);
    }
    assert_eq!(seen, runs.iter().map(|run| run.id).collect::<Vec<_>>());
    for most in [0, 1, 10, 25, 26] {
        let latest = store.latest_runs(&RunFilter::default(), most).unwrap();
        let one_by_one: Vec<_> = seen.iter().take(most).map(|id| store.run(*id).unwrap().unwrap()).collect();
        assert_eq!(latest, one_by_one, "{most}");
    }
    let row = store.runs(&RunFilter { limit: 1, ..Default::default() }).unwrap().runs.remove(0);
    assert_eq!(row.command, "./train --rate 0.1 'a file'");
    assert_eq!((row.repetition, row.repetitions, row.warmup, row.warnings), (1, 3, false, 0));
    assert_eq!((&row.summary, &row.tags), (&runs[0].summary, &runs[0].tags));
    for wrong in ["x", "1.2", "zz.00000000000000000000000000000000"] {
        let filter = RunFilter { after: Some(wrong.to_string()), ..Default::default() };
        assert!(matches!(store.runs(&filter), Err(Error::Refused { .. })), "{wrong}");
    }
    assert!(store.runs(&RunFilter { limit: 1001, ..Default::default() }).is_err());
}

#[test]
fn the_latest_runs_may_span_pages_of_the_list() {
    let place = Place::sqlite();
    let store = place.open();
    let mut ids: Vec<_> = (0..1003).map(|i| begun(&store, i, "train").id).collect();
    ids.reverse();
    for most in [1000, 1002, 2000] {
        let latest = store.latest_runs(&RunFilter::default(), most).unwrap();
        assert_eq!(latest.iter().map(|run| run.id).collect::<Vec<_>>(), ids[..most.min(1003)]);
    }
}

fn filters_select(place: &Place) {
    let store = place.open();
    let a = begun(&store, 0, "alpha");
    let b = begun(&store, 10, "beta");
    let mut c = run_at(20, "beta");
    c.batch = b.batch;
    c.tags = vec!["night".to_string()];
    c.device = serde_json::from_str(r#"{"id":"device-2","name":"board"}"#).unwrap();
    c.context.command = vec!["echo".to_string(), "100%_Äpfel".to_string()];
    store.begin_run(&c, &owner(1)).unwrap();
    store.finish_run(&over(&c)).unwrap();
    let mut w = run_at(30, "alpha");
    w.context.warmup = true;
    store.begin_run(&w, &owner(1)).unwrap();

    let count = |filter: RunFilter| {
        let page = store.runs(&filter).unwrap();
        assert_eq!(page.total, page.runs.len() as u64);
        page.runs.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let all = RunFilter::default;
    let some = |text: &str| Some(text.to_string());
    assert_eq!(count(all()), [c.id, b.id, a.id]);
    assert_eq!(count(RunFilter { warmup: true, ..all() }), [w.id, c.id, b.id, a.id]);
    assert_eq!(count(RunFilter { workload: some("beta"), ..all() }), [c.id, b.id]);
    assert_eq!(count(RunFilter { workload: some("bet"), ..all() }), []);
    assert_eq!(count(RunFilter { device: some("device-2"), ..all() }), [c.id]);
    assert_eq!(count(RunFilter { device: some("bench"), ..all() }), [b.id, a.id]);
    assert_eq!(count(RunFilter { state: Some(RunState::Running), ..all() }), [b.id, a.id]);
    assert_eq!(count(RunFilter { cause: Some(ExitCause::Exited), ..all() }), [c.id]);
    assert_eq!(count(RunFilter { cause: Some(ExitCause::Oom), ..all() }), []);
    assert_eq!(count(RunFilter { tag: some("größer"), ..all() }), [b.id, a.id]);
    assert_eq!(count(RunFilter { batch: Some(b.batch), ..all() }), [c.id, b.id]);
    assert_eq!(count(RunFilter { text: some("ALPH"), ..all() }), [a.id]);
    assert_eq!(count(RunFilter { text: some("--rate"), ..all() }), [b.id, a.id]);
    assert_eq!(count(RunFilter { text: some("0%_äPF"), ..all() }), [c.id]);
    assert_eq!(count(RunFilter { text: some("%"), ..all() }), [c.id], "no pattern, a text");
    assert_eq!(count(RunFilter { text: some(""), ..all() }).len(), 3);
    assert_eq!(count(RunFilter { since: Some(b.started), until: Some(c.started), ..all() }), [b.id]);
    let both =
        RunFilter { workload: some("beta"), state: Some(RunState::Finished), tag: some("night"), ..all() };
    assert_eq!(count(both), [c.id]);
}

fn odd_texts_are_found_and_do_no_harm(place: &Place) {
    let store = place.open();
    let mut run = run_at(0, "train");
    let long = "ü".repeat(5000);
    run.workload.name = format!("a\0b'; DROP TABLE run; -- {long}");
    run.tags = vec!["x\0y".to_string(), "?1".to_string(), long.clone(), String::new(), "?1".to_string()];
    run.context.command = vec!["sh".into(), "-c".into(), format!("echo '$1' \0 {long}"), String::new()];
    store.begin_run(&run, &owner(1)).unwrap();
    store.finish_run(&over(&run)).unwrap();
    assert_eq!(store.run(run.id).unwrap().unwrap(), over(&run));
    for filter in [
        RunFilter { tag: Some("?1".to_string()), ..Default::default() },
        RunFilter { tag: Some("x\0y".to_string()), ..Default::default() },
        RunFilter { tag: Some(long), ..Default::default() },
        RunFilter { workload: Some(run.workload.name.clone()), ..Default::default() },
        RunFilter { text: Some("drop table".to_string()), ..Default::default() },
    ] {
        let page = store.runs(&filter).unwrap();
        assert_eq!(page.total, 1, "{filter:?}");
        assert!(page.runs[0].command.chars().count() <= 4096);
    }
    assert_eq!(store.find_run(&run.workload.name).unwrap(), run.id);
}

fn a_run_is_found_by_what_people_type(place: &Place) {
    let store = place.open();
    assert!(matches!(store.find_run("last"), Err(Error::NoRun { .. })));
    let a = begun(&store, 0, "alpha");
    let b = begun(&store, 10, "beta");
    let c = begun(&store, 20, "alpha");
    let mut w = run_at(30, "gamma");
    w.context.warmup = true;
    store.begin_run(&w, &owner(1)).unwrap();
    for (text, want) in [
        ("last", c.id),
        ("last~0", c.id),
        ("last~2", a.id),
        ("alpha", c.id),
        ("beta", b.id),
        (&b.id.to_string(), b.id),
        (&b.id.to_string().to_uppercase(), b.id),
        (&b.id.to_string().replace('-', ""), b.id),
        (&b.id.short(), b.id),
        (&w.id.to_string(), w.id),
        (&format!(" {} ", &b.id.to_string()[24..]), b.id),
        (&b.id.to_string()[..35], b.id),
    ] {
        assert_eq!(store.find_run(text).unwrap(), want, "{text}");
    }
    for text in
        ["last~3", "last~", "last~-1", "lastly", "delta", "", "abc", "gamma", &RunId::new().to_string()]
    {
        let error = store.find_run(text).unwrap_err();
        assert!(matches!(error, Error::NoRun { .. }), "{text}: {error}");
    }
    // Ids of one moment have the same prefix.
    match store.find_run(&a.id.to_string()[..6]).unwrap_err() {
        error @ Error::Ambiguous { .. } => {
            let text = error.to_string();
            assert!(text.contains(&a.id.to_string()) && text.contains(&c.id.to_string()), "{text}");
        }
        other => panic!("{other}"),
    }
    // A workload whose name looks like digits.
    let d = begun(&store, 40, &a.id.to_string()[..6]);
    assert_eq!(store.find_run(&a.id.to_string()[..6]).unwrap(), d.id);
}

fn a_batch_is_listed_in_order(place: &Place) {
    let store = place.open();
    let mut runs: Vec<_> = (0..3).map(|i| run_at(9 - i, "train")).collect();
    let batch = runs[0].batch;
    for run in &mut runs {
        run.batch = batch;
        store.begin_run(run, &owner(1)).unwrap();
    }
    begun(&store, 5, "train");
    runs.reverse();
    assert_eq!(store.batch(batch).unwrap(), runs);
    assert_eq!(store.batch(BatchId::new()).unwrap(), vec![]);
}

fn artefact(store: &RecordStore, name: &str, content: &[u8]) -> ArtefactRef {
    let (digest, size_bytes) = store.put_artefact(&mut Cursor::new(content)).unwrap();
    ArtefactRef::new(name, "text/plain", digest, size_bytes)
}

fn removing_a_run_removes_what_only_it_had(place: &Place) {
    let store = place.open();
    let (a, b) = (begun(&store, 0, "train"), begun(&store, 1, "train"));
    store.append_series(a.id, &[chunk(a.id, "use", 0, 10)]).unwrap();
    let (own, shared) = (artefact(&store, "own", b"own"), artefact(&store, "shared", b"shared"));
    for (run, artefact) in [(&a, &own), (&a, &shared), (&b, &shared)] {
        store.link_artefact(run.id, artefact).unwrap();
    }
    let unlinked = artefact(&store, "young", b"not linked yet");
    assert!(store.delete_run(a.id).unwrap());
    assert!(!store.delete_run(a.id).unwrap());
    assert_eq!(store.run(a.id).unwrap(), None);
    assert!(matches!(store.read_artefact(&own.digest, &mut Vec::new()), Err(Error::NoArtefact { .. })));
    store.read_artefact(&shared.digest, &mut Vec::new()).unwrap();
    store.read_artefact(&unlinked.digest, &mut Vec::new()).unwrap();
    assert_eq!(store.runs(&RunFilter { tag: Some("night".into()), ..Default::default() }).unwrap().total, 1);
    assert!(store.delete_run(b.id).unwrap());
    assert!(matches!(store.read_artefact(&shared.digest, &mut Vec::new()), Err(Error::NoArtefact { .. })));
}

fn a_sweep_interrupts_runs_whose_owner_is_gone(place: &Place) {
    let store = place.open();
    let (dead, alive, elsewhere, done) =
        (run_at(0, "dead"), run_at(1, "alive"), run_at(2, "elsewhere"), run_at(3, "done"));
    store.begin_run(&dead, &owner(10)).unwrap();
    store.append_series(dead.id, &[chunk(dead.id, "use", 0, 10)]).unwrap();
    store.begin_run(&alive, &owner(11)).unwrap();
    let stranger = metier_store::OwnerProcess { host: "device-2".to_string(), ..owner(10) };
    store.begin_run(&elsewhere, &stranger).unwrap();
    store.begin_run(&done, &owner(10)).unwrap();
    store.finish_run(&over(&done)).unwrap();
    let asked = std::cell::RefCell::new(Vec::new());
    let is_alive = |owner: &metier_store::OwnerProcess| {
        asked.borrow_mut().push(owner.clone());
        owner.pid == 11
    };
    assert_eq!(store.mark_interrupted_runs("device-1", &is_alive).unwrap(), [dead.id]);
    assert_eq!(*asked.borrow(), [owner(10), owner(11)]);
    let swept = store.run(dead.id).unwrap().unwrap();
    assert_eq!(swept.state, RunState::Interrupted);
    assert_eq!(swept.exit.unwrap().cause, ExitCause::Lost);
    assert_eq!(store.series(dead.id, None).unwrap(), [chunk(dead.id, "use", 0, 10)]);
    for (run, state) in
        [(&alive, RunState::Running), (&elsewhere, RunState::Running), (&done, RunState::Finished)]
    {
        assert_eq!(store.run(run.id).unwrap().unwrap().state, state);
    }
    let lost =
        RunFilter { state: Some(RunState::Interrupted), cause: Some(ExitCause::Lost), ..Default::default() };
    assert_eq!(store.runs(&lost).unwrap().total, 1);
    assert_eq!(store.mark_interrupted_runs("device-1", &is_alive).unwrap(), [], "once");
}

fn artefacts_are_stored_once_and_checked(place: &Place) {
    let store = place.open();
    let size = || store.check_health().unwrap().size_bytes;
    let content: Vec<u8> =
        (0..3_000_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let first = artefact(&store, "a", &content);
    assert_eq!(first.size_bytes, Bytes(content.len() as u64));
    let before = size();
    let second = artefact(&store, "b", &content);
    assert_eq!(first.digest, second.digest);
    if let Place::Folder(_) = place {
        // PostgreSQL frees the space of the second copy at the next vacuum.
        assert!(size().get() < before.get() + content.len() as u64 / 2, "the second copy takes no room");
    }
    let mut back = Vec::new();
    assert_eq!(store.read_artefact(&first.digest, &mut back).unwrap(), first.size_bytes);
    assert!(back == content);
    let empty = artefact(&store, "empty", b"");
    assert_eq!(store.read_artefact(&empty.digest, &mut Vec::new()).unwrap(), Bytes(0));
    assert!(empty.digest.to_string().starts_with("sha256:e3b0c442"));
}

fn large_artefacts_stream(place: &Place) {
    let store = place.open();
    // A content of exactly whole parts, and a reader that returns little at a time and then fails.
    let content = vec![7u8; 2 << 20];
    let whole = artefact(&store, "whole", &content);
    let mut back = Vec::new();
    store.read_artefact(&whole.digest, &mut back).unwrap();
    assert!(back == content);
    struct Failing(usize);
    impl std::io::Read for Failing {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or_else(|| std::io::Error::other("cable pulled"))?;
            let count = into.len().min(5000);
            into[..count].fill(1);
            Ok(count)
        }
    }
    let error = store.put_artefact(&mut Failing(1000)).unwrap_err();
    assert!(error.to_string().contains("cable pulled"), "{error}");
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("pipe closed"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert!(store.read_artefact(&whole.digest, &mut Closed).unwrap_err().to_string().contains("pipe closed"));
}

fn linked_artefacts_are_in_the_record(place: &Place) {
    let store = place.open();
    let run = begun(&store, 0, "train");
    let log = artefact(&store, "log", b"first");
    store.link_artefact(run.id, &log).unwrap();
    store.link_artefact(run.id, &log).unwrap();
    assert_eq!(store.run(run.id).unwrap().unwrap().artefacts, std::slice::from_ref(&log));
    // The program that finishes the run does not see artefacts that were linked meanwhile.
    let mut done = over(&run);
    let report = artefact(&store, "report", b"report");
    done.artefacts.push(report.clone());
    store.finish_run(&done).unwrap();
    assert_eq!(store.run(run.id).unwrap().unwrap().artefacts, [report.clone(), log.clone()]);
    let other = artefact(&store, "log", b"second");
    store.link_artefact(run.id, &other).unwrap();
    assert_eq!(store.run(run.id).unwrap().unwrap().artefacts, [report, other.clone()]);
    assert_eq!(store.run(run.id).unwrap().unwrap().state, RunState::Finished);
    let unknown = ArtefactRef { digest: metier_types::ContentDigest::from_bytes([0; 32]), ..log.clone() };
    assert!(matches!(store.link_artefact(run.id, &unknown), Err(Error::NoArtefact { .. })));
    assert!(matches!(store.link_artefact(RunId::new(), &other), Err(Error::NoRun { .. })));
    let wrong = ArtefactRef { size_bytes: Bytes(1), ..other };
    assert!(matches!(store.link_artefact(run.id, &wrong), Err(Error::Refused { .. })));
}

fn devices_and_workloads_are_kept(place: &Place) {
    let store = place.open();
    let (b, a) = (device("1", "b"), device("2", "a"));
    store.put_device(&b).unwrap();
    store.put_device(&a).unwrap();
    assert_eq!(store.devices().unwrap(), [a.clone(), b.clone()]);
    let renamed = device("1", "0");
    store.put_device(&renamed).unwrap();
    assert_eq!(store.device(&b.id).unwrap(), Some(renamed.clone()));
    assert_eq!(store.devices().unwrap(), [renamed, a]);
    assert_eq!(store.device(&"9".parse().unwrap()).unwrap(), None);

    let first = workload("train", "2026-01-02T00:00:00Z");
    store.put_workload(&first).unwrap();
    let mut later = workload("train", "2026-01-03T00:00:00Z");
    later.command = vec!["new".to_string()];
    store.put_workload(&later).unwrap();
    let kept = store.workload(&first.id).unwrap().unwrap();
    assert_eq!((kept.first_seen, kept.command.len()), (first.first_seen, 1));
    assert_eq!(kept.command, later.command);
    let earlier = workload("train", "2026-01-01T00:00:00Z");
    store.put_workload(&earlier).unwrap();
    assert_eq!(store.workloads().unwrap(), [earlier]);
}

fn passports_are_kept(place: &Place) {
    let store = place.open();
    let passport = |id: &str, name: &str| -> Passport {
        let device = serde_json::to_value(device("1", name)).unwrap();
        let made = "2026-01-01T00:00:00Z";
        serde_json::from_value(serde_json::json!({
            "schema": "metier.passport/1", "id": id, "name": name, "origin": "measured", "made": made,
            "device": device, "storage": null, "spawn_seconds": 0.001, "throttling": null, "later": 1,
        }))
        .unwrap()
    };
    let (b, a) = (passport("1", "b"), passport("2", "a"));
    store.put_passport(&b).unwrap();
    store.put_passport(&a).unwrap();
    assert_eq!(store.passports().unwrap(), [a.clone(), b]);
    store.put_passport(&passport("1", "0")).unwrap();
    assert_eq!(store.passport("1").unwrap().unwrap().name, "0");
    assert!(store.remove_passport("1").unwrap());
    assert!(!store.remove_passport("1").unwrap());
    assert_eq!(store.passports().unwrap(), [a]);
}

fn predictors_are_kept_with_their_files(place: &Place) {
    let store = place.open();
    let predictor = |file: &[u8], kind: &str, made: &str| -> Predictor {
        let id = ContentDigest::from_bytes(sha2::Sha256::digest(file).into());
        serde_json::from_value(serde_json::json!({
            "schema": "metier.predictor/1", "id": id, "kind": kind, "name": "n", "device": null,
            "standing": "in-use", "made": made, "provenance": "by hand", "rows": 3,
        }))
        .unwrap()
    };
    let old = predictor(b"old", "latency", "2026-01-01T00:00:00Z");
    let new = predictor(b"new", "latency", "2026-01-02T00:00:00Z");
    let other = predictor(b"other", "power", "2026-01-03T00:00:00Z");
    let error = store.put_predictor(&old, b"something else").unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    for (one, file) in [(&old, &b"old"[..]), (&new, b"new"), (&other, b"other")] {
        store.put_predictor(one, file).unwrap();
    }
    assert_eq!(store.predictors(Some("latency")).unwrap(), [new.clone(), old.clone()]);
    assert_eq!(store.predictors(None).unwrap().len(), 3);
    assert_eq!(store.predictor_file(&old.id).unwrap().as_deref(), Some(&b"old"[..]));
    let passed = Predictor { standing: metier_types::PredictorStanding::Passed, ..old.clone() };
    assert!(store.update_predictor(&passed).unwrap());
    assert_eq!(store.predictor(&old.id).unwrap(), Some(passed));
    assert!(store.remove_predictor(&old.id).unwrap());
    assert!(!store.update_predictor(&old).unwrap());
    assert_eq!(store.predictor_file(&old.id).unwrap(), None);
}

fn trials_are_kept_by_key(place: &Place) {
    let store = place.open();
    let (here, there) = ("1".parse().unwrap(), "2".parse().unwrap());
    let trial = |key: &str, record: &str| StoredTrial { key: key.to_string(), record: record.to_string() };
    store.put_trials(&here, "operator", &[trial("b", "1"), trial("a", "2")]).unwrap();
    store.put_trials(&here, "operator", &[trial("b", "3")]).unwrap();
    store.put_trials(&there, "operator", &[trial("b", "4")]).unwrap();
    assert_eq!(store.trials(&here, "operator").unwrap(), [trial("a", "2"), trial("b", "3")]);
    assert_eq!(store.trials(&here, "other").unwrap(), []);
    let error = store.put_trials(&here, "operator", &[trial("c", "5"), trial("d\0", "6")]).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert_eq!(store.remove_trials(&here, "operator").unwrap(), 2, "none of a refused set was kept");
    assert_eq!(store.trials(&there, "operator").unwrap(), [trial("b", "4")]);
}

fn memos_are_kept_and_bounded(place: &Place) {
    let store = place.open();
    assert_eq!(store.get_memo("a").unwrap(), None);
    store.put_memo("a", "1").unwrap();
    store.put_memo("a", "2").unwrap();
    assert_eq!(store.get_memo("a").unwrap().as_deref(), Some("2"));
    for (key, value) in [("k\0", "v"), (&"k".repeat(1025), "v"), ("k", &"v".repeat(65_537)), ("k", "v\0")] {
        assert!(matches!(store.put_memo(key, value), Err(Error::Refused { .. })));
    }
    if let Place::Folder(_) = place {
        // Ten thousand statements over a network would add nothing to this test.
        for i in 0..8300 {
            store.put_memo(&format!("k{i}"), "v").unwrap();
        }
        assert_eq!(store.get_memo("a").unwrap(), None, "the oldest are forgotten");
        assert_eq!(store.get_memo("k8299").unwrap().as_deref(), Some("v"));
    }
}

fn a_reader_reads_and_cannot_write(place: &Place) {
    let absent = RecordStore::open_read_only(&place.location()).map(|_| ()).unwrap_err();
    assert!(matches!(absent, Error::Absent { .. }), "{absent}");
    let store = place.open();
    let run = begun(&store, 0, "train");
    store.append_series(run.id, &[chunk(run.id, "use", 0, 10)]).unwrap();
    let reader = RecordStore::open_read_only(&place.location()).unwrap();
    assert_eq!(reader.run(run.id).unwrap().unwrap(), run);
    assert_eq!(reader.series(run.id, None).unwrap().len(), 1);
    let error = reader.finish_run(&over(&run)).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert!(reader.check_health().unwrap().read_only);
    // It sees data written after it was opened.
    store.finish_run(&over(&run)).unwrap();
    assert_eq!(reader.run(run.id).unwrap().unwrap(), over(&run));
}

fn a_check_tells_engine_and_size(place: &Place) {
    let store = place.open();
    begun(&store, 0, "train");
    let health = store.check_health().unwrap();
    assert_eq!((health.schema_version, health.runs, health.problems.len()), (4, 1, 0));
    assert!(health.size_bytes.get() > 0 && !health.engine_version.is_empty());
    assert!(["sqlite", "postgresql"].contains(&health.engine));
}

fn many_writers_at_once_lose_nothing(place: &Place) {
    place.open();
    let runs: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|i| {
                scope.spawn(move || {
                    // A connection of its own, as another process has.
                    let store = place.open();
                    let run = begun(&store, i, "train");
                    for part in 0..30 {
                        store.append_series(run.id, &[chunk(run.id, "use", part * 10, 10)]).unwrap();
                    }
                    store.finish_run(&over(&run)).unwrap();
                    run
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let store = place.open();
    assert_eq!(store.runs(&RunFilter::default()).unwrap().total, 6);
    for run in runs {
        assert_eq!(store.series(run.id, None).unwrap(), [chunk(run.id, "use", 0, 300)]);
    }
}

fn several_openers_at_once_make_one_store(place: &Place) {
    std::thread::scope(|scope| {
        for i in 0..8 {
            scope.spawn(move || begun(&place.open(), i, "train"));
        }
    });
    assert_eq!(place.open().check_health().unwrap().runs, 8);
}

fn the_writer_thread_writes_everything(place: &Place) {
    let store = place.open();
    let run = begun(&store, 0, "train");
    let writer = SeriesWriter::start(store.clone());
    for part in 0..60 {
        writer.append(run.id, vec![chunk(run.id, "use", part * 100, 100)]);
    }
    writer.append(RunId::new(), vec![chunk(run.id, "use", 0, 1)]);
    let written = writer.finish().unwrap();
    assert_eq!((written.chunks, written.dropped), (60, 1));
    assert!(written.problem.is_some());
    assert_eq!(store.series(run.id, None).unwrap(), [chunk(run.id, "use", 0, 6000)]);
}

fn a_record_that_cannot_be_read_back_is_refused(place: &Place) {
    let store = place.open();
    let mut run = run_at(0, "train");
    run.context.sampling = Some(metier_types::SamplingSummary {
        interval_seconds: metier_types::Seconds(f64::NAN),
        samples: 0,
        late: 0,
        extra: Default::default(),
    });
    assert!(matches!(store.begin_run(&run, &owner(1)), Err(Error::Refused { .. })));
    assert_eq!(store.runs(&RunFilter::default()).unwrap().total, 0);
    let _: (UtcTimestamp, Series) = (run.started, chunk(run.id, "use", 0, 0));
}

fn at(device: &str) -> DeviceRef {
    serde_json::from_value(serde_json::json!({ "id": device, "name": format!("name of {device}") })).unwrap()
}

fn ended(state: SessionState) -> SessionEnd {
    SessionEnd { state, exit_code: Some(0), reason: Some("because".to_string()) }
}

fn sessions_are_taken_in_the_order_of_asking_one_at_a_time_on_a_device(place: &Place) {
    let store = place.open();
    let asked: Vec<_> =
        ["a", "b", "c"].iter().map(|name| store.add_session(&new_session(name), 10).unwrap()).collect();
    assert_eq!(
        asked.iter().map(|s| (s.number, s.position)).collect::<Vec<_>>(),
        [(1, Some(1)), (2, Some(2)), (3, Some(3))]
    );
    assert_eq!(asked[0].state, SessionState::Queued);
    assert_eq!(store.session(asked[0].id).unwrap().unwrap(), asked[0]);
    let (first, second) = (at("device-1"), at("device-2"));
    let one = store.claim_session(&first, &owner(1)).unwrap().unwrap();
    assert_eq!((one.number, one.state, one.turns), (1, SessionState::Running, 1));
    assert_eq!(one.measured_by.as_ref().unwrap().id.as_str(), "device-1");
    assert!(one.started.is_some() && one.position.is_none());
    // A repeated call, as after a lost connection, returns the same session; another worker gets
    // none.
    assert_eq!(store.claim_session(&first, &owner(1)).unwrap().unwrap().id, one.id);
    assert_eq!(store.claim_session(&first, &owner(2)).unwrap(), None);
    assert!(store.begin_session(one.id, &owner(1), &owner(11)).unwrap());
    assert_eq!(store.claim_session(&first, &owner(1)).unwrap(), None, "it has begun");
    let two = store.claim_session(&second, &owner(3)).unwrap().unwrap();
    assert_eq!(two.number, 2);
    assert_eq!(store.session(asked[2].id).unwrap().unwrap().position, Some(1));
    let runs = [RunId::new(), RunId::new()];
    store.set_session_runs(one.id, &runs).unwrap();
    assert!(store.end_session(one.id, &owner(1), &ended(SessionState::Finished)).unwrap());
    let over = store.session(one.id).unwrap().unwrap();
    assert_eq!(
        (over.state, over.exit_code, over.runs.as_slice()),
        (SessionState::Finished, Some(0), &runs[..])
    );
    assert!(over.ended.is_some());
    assert_eq!(store.claim_session(&first, &owner(1)).unwrap().unwrap().number, 3);
    assert_eq!(store.claim_session(&first, &owner(2)).unwrap(), None);
    drop(store);
    let store = place.open();
    let states: Vec<_> =
        store.sessions(&SessionFilter::default()).unwrap().iter().map(|s| (s.number, s.state)).collect();
    use SessionState::{Finished, Running};
    assert_eq!(states, [(3, Running), (2, Running), (1, Finished)]);
    let counts = store.session_counts().unwrap();
    assert!(counts.contains(&(Running, 2)) && counts.contains(&(SessionState::Queued, 0)), "{counts:?}");
    let filter = SessionFilter { state: Some(Running), before: Some(3), ..SessionFilter::default() };
    assert_eq!(store.sessions(&filter).unwrap().iter().map(|s| s.number).collect::<Vec<_>>(), [2]);
    assert!(store.sessions(&SessionFilter { limit: 1001, ..SessionFilter::default() }).is_err());
}

fn a_session_for_a_device_is_only_taken_by_it(place: &Place) {
    let store = place.open();
    let for_device = |name: &str, device: &str| {
        let mut new = new_session(name);
        new.device = Some(device.to_string());
        store.add_session(&new, 10).unwrap()
    };
    for_device("a", "device-2");
    let named = for_device("b", "name of device-1");
    let any = store.add_session(&new_session("c"), 10).unwrap();
    assert_eq!((named.position, any.position), (Some(1), Some(3)));
    assert_eq!(store.claim_session(&at("device-1"), &owner(1)).unwrap().unwrap().id, named.id);
    assert_eq!(store.claim_session(&at("device-2"), &owner(1)).unwrap().unwrap().name, "a");
    assert_eq!(store.claim_session(&at("device-3"), &owner(1)).unwrap().unwrap().name, "c");
}

fn a_full_queue_takes_no_more(place: &Place) {
    let store = place.open();
    let first = store.add_session(&new_session("a"), 2).unwrap();
    store.add_session(&new_session("b"), 2).unwrap();
    let error = store.add_session(&new_session("c"), 2).unwrap_err();
    assert!(matches!(error, Error::QueueFull { waiting: 2, most: 2 }), "{error}");
    store.cancel_session(first.id, "by a test").unwrap();
    assert_eq!(store.add_session(&new_session("d"), 2).unwrap().number, 3, "numbers are never given twice");
}

fn asking_again_with_the_same_id_is_the_same_session(place: &Place) {
    let store = place.open();
    let new = new_session("a");
    let first = store.add_session(&new, 5).unwrap();
    assert_eq!(store.add_session(&new, 5).unwrap(), first);
    assert_eq!(store.sessions(&SessionFilter::default()).unwrap().len(), 1);
}

fn cancelling_removes_who_waits_and_tells_who_runs(place: &Place) {
    let store = place.open();
    let runs = store.add_session(&new_session("a"), 5).unwrap();
    let waits = store.add_session(&new_session("b"), 5).unwrap();
    store.claim_session(&at("device-1"), &owner(1)).unwrap().unwrap();
    assert_eq!(store.cancel_session(waits.id, "by a test").unwrap(), CancelOutcome::Removed);
    let gone = store.session(waits.id).unwrap().unwrap();
    assert_eq!((gone.state, gone.position), (SessionState::Cancelled, None));
    assert!(gone.reason.unwrap().contains("by a test") && gone.ended.is_some());
    assert_eq!(store.cancel_session(waits.id, "by a test").unwrap(), CancelOutcome::AlreadyOver);
    assert!(!store.is_cancel_requested(runs.id).unwrap());
    assert_eq!(store.cancel_session(runs.id, "by a test").unwrap(), CancelOutcome::WorkerNotified);
    assert!(store.is_cancel_requested(runs.id).unwrap());
    assert_eq!(store.session(runs.id).unwrap().unwrap().state, SessionState::Running);
    let error = store.cancel_session(metier_types::SessionId::new(), "x").unwrap_err();
    assert!(matches!(error, Error::NoSession { .. }), "{error}");
    // If its worker dies as well, the session is cancelled, not queued again.
    let held = store.claimed_sessions("device-1").unwrap().remove(0);
    assert!(store.release_session(&held, false).unwrap());
    assert_eq!(store.session(runs.id).unwrap().unwrap().state, SessionState::Cancelled);
}

fn a_session_whose_worker_is_gone_waits_again_once_if_it_had_not_begun(place: &Place) {
    let store = place.open();
    let first = store.add_session(&new_session("a"), 5).unwrap();
    store.add_session(&new_session("b"), 5).unwrap();
    store.claim_session(&at("device-1"), &owner(1)).unwrap().unwrap();
    assert!(
        store.claimed_sessions("device-2").unwrap().is_empty(),
        "what another device does, it knows itself"
    );
    let held = store.claimed_sessions("device-1").unwrap().remove(0);
    assert_eq!((held.owner.clone(), held.child.clone()), (Some(owner(1)), None));
    assert!(store.release_session(&held, false).unwrap());
    assert!(!store.release_session(&held, false).unwrap(), "once");
    let again = store.session(first.id).unwrap().unwrap();
    assert_eq!(
        (again.state, again.position, again.turns),
        (SessionState::Queued, Some(1), 1),
        "in its old place"
    );
    assert!(again.started.is_none() && again.reason.is_some());
    assert_eq!(store.claim_session(&at("device-1"), &owner(2)).unwrap().unwrap().id, first.id);
    let held = store.claimed_sessions("device-1").unwrap().remove(0);
    assert!(store.release_session(&held, false).unwrap());
    let over = store.session(first.id).unwrap().unwrap();
    assert_eq!((over.state, over.turns), (SessionState::Interrupted, 2), "not for ever");
    let next = store.claim_session(&at("device-1"), &owner(3)).unwrap().unwrap();
    store.begin_session(next.id, &owner(3), &owner(33)).unwrap();
    let held = store.claimed_sessions("device-1").unwrap().remove(0);
    assert_eq!(held.child, Some(owner(33)));
    store.release_session(&held, true).unwrap();
    let over = store.session(next.id).unwrap().unwrap();
    assert_eq!(over.state, SessionState::Interrupted);
    assert!(over.reason.unwrap().contains("went away") && over.ended.is_some());
}

fn only_who_works_a_session_ends_it(place: &Place) {
    let store = place.open();
    let new = store.add_session(&new_session("a"), 5).unwrap();
    assert!(!store.end_session(new.id, &owner(1), &ended(SessionState::Finished)).unwrap(), "it waits");
    store.claim_session(&at("device-1"), &owner(1)).unwrap().unwrap();
    assert!(!store.begin_session(new.id, &owner(2), &owner(3)).unwrap());
    assert!(!store.end_session(new.id, &owner(2), &ended(SessionState::Finished)).unwrap());
    assert!(store.end_session(new.id, &owner(1), &ended(SessionState::Failed)).unwrap());
    assert!(!store.end_session(new.id, &owner(1), &ended(SessionState::Finished)).unwrap());
    assert_eq!(store.session(new.id).unwrap().unwrap().state, SessionState::Failed);
}

fn a_session_is_found_by_what_people_type(place: &Place) {
    let store = place.open();
    let one = store.add_session(&new_session("a"), 5).unwrap();
    let two = store.add_session(&new_session("b"), 5).unwrap();
    let text = one.id.to_string();
    for (typed, want) in
        [(text.as_str(), &one), (&one.id.short(), &one), ("1", &one), ("#2", &two), ("last", &two)]
    {
        assert_eq!(store.find_session(typed).unwrap().id, want.id, "{typed}");
    }
    assert_eq!(store.session_by_number(2).unwrap().unwrap().id, two.id);
    assert_eq!(store.session_by_number(u64::MAX).unwrap(), None);
    for none in ["9", "banana", "", "%", "ffffffff"] {
        assert!(matches!(store.find_session(none), Err(Error::NoSession { .. })), "{none}");
    }
    for id in ["0192aaaa-0000-7000-8000-000000000001", "0192aaaa-0000-7000-8000-000000000002"] {
        let alike = NewSession { id: id.parse().unwrap(), ..new_session("alike") };
        store.add_session(&alike, 5).unwrap();
    }
    assert!(matches!(store.find_session("0192aaaa"), Err(Error::Refused { .. })), "ids that begin alike");
}

fn the_log_of_a_session_is_kept_in_order(place: &Place) {
    let store = place.open();
    let id = store.add_session(&new_session("a"), 5).unwrap().id;
    assert_eq!(store.session_log(id, 0).unwrap(), (vec![], 0));
    for (part, text) in [&b"one\n\xff\0"[..], b"two", b"three"].into_iter().enumerate() {
        store.append_session_log(id, part as u32, text).unwrap();
    }
    store.append_session_log(id, 1, b"the same part again").unwrap();
    assert_eq!(store.session_log(id, 0).unwrap(), (b"one\n\xff\0twothree".to_vec(), 3));
    assert_eq!(store.session_log(id, 2).unwrap(), (b"three".to_vec(), 3));
    assert_eq!(store.session_log(id, 3).unwrap(), (vec![], 3));
}

fn many_workers_and_askers_at_once_keep_the_order_and_the_device(place: &Place) {
    place.open();
    let (askers, each) = (3, 8);
    let running = std::sync::atomic::AtomicUsize::new(0);
    let done = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..askers {
            scope.spawn(|| {
                let store = place.open();
                (0..each).for_each(|_| {
                    store.add_session(&new_session("x"), 1000).unwrap();
                });
            });
        }
        for worker in 1..=3 {
            let (running, done) = (&running, &done);
            scope.spawn(move || {
                let store = place.open();
                while done.lock().unwrap().len() < askers * each {
                    let Some(taken) = store.claim_session(&at("device-1"), &owner(worker)).unwrap() else {
                        continue;
                    };
                    let others = running.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert_eq!(others, 0, "two at once");
                    done.lock().unwrap().push(taken.number);
                    running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    assert!(
                        store.end_session(taken.id, &owner(worker), &ended(SessionState::Finished)).unwrap()
                    );
                }
            });
        }
    });
    let mut numbers = done.into_inner().unwrap();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=(askers * each) as u64).collect::<Vec<_>>(), "each once");
}
