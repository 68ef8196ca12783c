//! Reports on fixed input: golden files, hostile names, well-formed pages, advice.

use crate::common::{measured, subject, well_formed};
use metier_report::{Error, ReportSubject, RunReport};
use metier_stats::{AdviceFirmness, size_resources};
use metier_types::{Bytes, Seconds, UtcTimestamp};

fn report(subjects: &[ReportSubject]) -> RunReport {
    let made: UtcTimestamp = "2026-11-17T09:00:00Z".parse().unwrap();
    RunReport::new(subjects, made, "metier 0.1.0").unwrap()
}

fn golden(name: &str, got: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("METIER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(got == want, "{} differs; METIER_BLESS=1 takes this as right:\n{got}", path.display());
}

#[test]
fn the_forms_of_a_report_are_what_they_were() {
    let alone = report(&[subject("detect", 1, 1.0, 90.0)]);
    golden("alone.md", &alone.to_markdown());
    let both = report(&[subject("before", 6, 1.0, 30.0), subject("after", 6, 1.3, 30.0)]);
    golden("both.md", &both.to_markdown());
    golden("both.json", &format!("{}\n", serde_json::to_string_pretty(both.record()).unwrap()));
}

#[test]
fn a_page_is_well_formed_and_refers_to_nothing_outside() {
    for subjects in [
        vec![subject("one", 1, 1.0, 3.0)],
        vec![subject("batch", 7, 1.0, 30.0)],
        vec![subject("a", 5, 1.0, 30.0), subject("b", 5, 2.0, 30.0), subject("c", 1, 2.0, 30.0)],
    ] {
        let page = report(&subjects).to_html().unwrap();
        well_formed(&page);
        // The address of the dataset is text of the run, not a link.
        let page = page.replace("s3://sets/a", "");
        for outside in
            ["http:", "https:", "//", " src=", " href=", "@import", "url(", "<script", "<link", "<iframe"]
        {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("Content-Security-Policy\" content=\"default-src "), "a policy");
    }
}

#[test]
fn nothing_that_a_run_says_becomes_markup() {
    const EVIL: &str = "<script>alert(1)</script>\"'&`|\n<img src=x onerror=y>";
    let mut hostile = subject(EVIL, 5, 1.0, 30.0);
    for one in &mut hostile.runs {
        let run = &mut one.run;
        run.workload.name = EVIL.to_string();
        run.device.name = EVIL.to_string();
        run.context.command = vec![EVIL.to_string(); 2];
        run.context.limits.insert(EVIL.to_string(), EVIL.to_string());
        run.tags = vec![EVIL.to_string()];
        run.warnings.iter_mut().for_each(|warning| warning.text = EVIL.to_string());
        run.stages.iter_mut().for_each(|stage| stage.name = EVIL.to_string());
        run.context.phases.iter_mut().for_each(|phase| phase.name = EVIL.to_string());
        run.context.company.iter_mut().for_each(|other| other.name = EVIL.to_string());
        run.artefacts.iter_mut().for_each(|file| file.name = EVIL.to_string());
        one.verdict = EVIL.to_string();
        if let Some(tree) = &mut one.tree {
            tree.processes.iter_mut().for_each(|process| process.command = Some(EVIL.to_string()));
        }
        for series in one.series.iter_mut().filter(|series| series.name != "use") {
            series.columns.iter_mut().for_each(|column| column.name = EVIL.to_string());
        }
    }
    let two = report(&[hostile.clone(), subject("plain", 5, 1.2, 30.0)]);
    for report in [report(&[hostile]), two] {
        let page = report.to_html().unwrap();
        well_formed(&page);
        assert!(!page.contains("<script") && !page.contains("<img"), "markup came through");
        let text = report.to_markdown();
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
    }
}

#[test]
fn one_short_run_gets_no_advice_and_many_long_ones_get_it_with_reasons() {
    let advice = |subject: &ReportSubject| size_resources(&subject.use_histories());
    let short = advice(&subject("short", 1, 1.0, 3.0));
    assert_eq!(short.firmness, AdviceFirmness::Refused);
    assert!(short.quotas.is_empty() && short.basis.contains("--repeat 5"), "{}", short.basis);
    let long = advice(&subject("long", 1, 1.0, 90.0));
    assert_eq!(long.firmness, AdviceFirmness::Provisional);
    let firm = advice(&subject("firm", 6, 1.0, 30.0));
    assert_eq!(firm.firmness, AdviceFirmness::Firm);
    let value =
        |key: &str| firm.quotas.iter().find(|quota| quota.key == key).map(|quota| quota.value.as_str());
    // Half a core in nine of ten seconds, one and a half cores in the tenth; a peak of 200 MiB,
    // including 60 MiB of page cache.
    assert_eq!(value("request.cpu"), Some("1500m"));
    assert_eq!(value("limit.cpu"), None, "a CPU limit throttles");
    assert_eq!(value("request.memory"), Some("140Mi"));
    assert_eq!(value("limit.memory"), Some("220Mi"));
    assert!(firm.quotas.iter().all(|quota| !quota.reason.is_empty()));
}

#[test]
fn a_run_that_was_held_back_gives_no_advice_on_what_held_it() {
    let mut held = subject("held", 6, 1.0, 30.0);
    held.runs[0].run.cpu.throttled_seconds = Some(Seconds(2.0));
    let advice = size_resources(&held.use_histories());
    assert!(advice.quotas.iter().all(|quota| !quota.key.ends_with("cpu")));
    assert!(advice.notes.iter().any(|note| note.contains("limit throttled it")));
    held.runs.iter_mut().for_each(|one| one.run.exit.as_mut().unwrap().code = Some(1));
    assert_eq!(size_resources(&held.use_histories()).firmness, AdviceFirmness::Refused);
}

#[test]
fn peaks_that_scatter_widen_the_margin_of_memory() {
    let mut wild = subject("wild", 6, 1.0, 30.0);
    for (at, one) in wild.runs.iter_mut().enumerate() {
        one.run.summary.peak_memory_bytes = Some(Bytes((200 + 20 * at as u64) << 20));
    }
    let advice = size_resources(&wild.use_histories());
    let limit = advice.quotas.iter().find(|quota| quota.key == "limit.memory").unwrap();
    let mebibytes: u64 = limit.value.trim_end_matches("Mi").parse().unwrap();
    assert!(mebibytes > 390 && limit.reason.contains("three deviations"), "{limit:?}");
}

#[test]
fn a_failed_side_is_reported_and_said_not_to_compare() {
    let mut failed = subject("failed", 3, 1.0, 30.0);
    failed.runs.iter_mut().for_each(|one| one.run.exit.as_mut().unwrap().code = Some(3));
    let report = report(&[subject("good", 3, 1.0, 30.0), failed]);
    assert_eq!((report.record().comparisons.len(), report.record().refusals.len()), (0, 1));
    assert!(report.to_markdown().contains("Not compared: good and failed"));
}

#[test]
fn nothing_and_too_much_are_refused() {
    let made: UtcTimestamp = "2026-11-17T09:00:00Z".parse().unwrap();
    assert!(matches!(RunReport::new(&[], made, "x"), Err(Error::Empty)));
    let empty = ReportSubject { label: "x".into(), runs: Vec::new(), history: Vec::new() };
    assert!(matches!(RunReport::new(&[empty], made, "x"), Err(Error::Empty)));
    let one = || ReportSubject { label: "x".into(), runs: vec![measured(0, 1.0, 1.0)], history: Vec::new() };
    let many: Vec<ReportSubject> = (0..9).map(|_| one()).collect();
    assert!(matches!(RunReport::new(&many, made, "x"), Err(Error::TooMany { given: 9, most: 8 })));
}

#[test]
fn the_published_schema_is_that_of_the_code() {
    let file =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/metier.report-1.json");
    let schema = schemars::schema_for!(metier_report::ReportRecord);
    let now = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    if std::env::var_os("METIER_BLESS").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(kept, now, "METIER_BLESS=1 writes it anew");
}
