//! Conclusions of a comparison, and cases without a conclusion.

use crate::common::{run, timed, walls};
use metier_stats::{
    CompareOptions, ComparisonVerdict, ExclusionReason, RunComparison, SummaryField, compare,
};
use metier_types::{
    AccountingMethod, Bytes, ContentDigest, ExitCause, MissingReason, Ratio, Run, RunState, Seconds,
    ValueQuality,
};
use serde_json::json;

fn options() -> CompareOptions {
    CompareOptions::default()
}

fn codes(comparison: &RunComparison) -> Vec<&str> {
    comparison.warnings.iter().map(|warning| warning.code.as_str()).collect()
}

const SLOW: [f64; 6] = [1.10, 1.11, 1.12, 1.13, 1.09, 1.10];
const FAST: [f64; 6] = [1.00, 1.01, 1.02, 1.01, 0.99, 1.00];

#[test]
fn a_clear_slow_down_is_an_increase_and_a_regression() {
    let result = compare(&walls(&FAST), &walls(&SLOW), &options()).unwrap();
    let wall = result.metric(SummaryField::WallSeconds).unwrap();
    assert_eq!(wall.verdict, ComparisonVerdict::Increase);
    let change = wall.change_ratio.unwrap().get();
    assert!((change - (1.105 / 1.005 - 1.0)).abs() < 1e-12, "{change}");
    assert!(wall.low.unwrap().get() > 0.05 && wall.high.unwrap().get() < 0.15, "{wall:?}");
    assert_eq!((wall.a.n, wall.a.min, wall.a.max), (6, Some(0.99), Some(1.02)));
    assert_eq!(result.find_regressions(Ratio(0.05), &SummaryField::REGRESSION_FIELDS).len(), 1);
    assert!(
        result.find_regressions(Ratio(0.20), &SummaryField::REGRESSION_FIELDS).is_empty(),
        "10 % is not above 20 %"
    );
    assert!(
        result.find_regressions(Ratio(0.05), &[SummaryField::CpuSeconds]).is_empty(),
        "wall is not watched"
    );
    let back = compare(&walls(&SLOW), &walls(&FAST), &options()).unwrap();
    assert_eq!(back.metric(SummaryField::WallSeconds).unwrap().verdict, ComparisonVerdict::Decrease);
    assert!(back.find_regressions(Ratio(0.0), &SummaryField::REGRESSION_FIELDS).is_empty());
}

#[test]
fn one_run_on_a_side_is_shown_but_not_judged() {
    let result = compare(&walls(&[1.0]), &walls(&[9.0, 9.1, 9.0, 9.2, 9.0]), &options()).unwrap();
    let wall = result.metric(SummaryField::WallSeconds).unwrap();
    assert_eq!(wall.verdict, ComparisonVerdict::TooFewRuns);
    assert_eq!(wall.change_ratio, Some(Ratio(8.0)));
    assert_eq!((wall.low, wall.p_value, wall.coverage), (None, None, None));
    assert!(wall.because.as_ref().unwrap().contains("1 and 5 runs"));
    assert!(codes(&result).contains(&"too-few-repeats"));
    assert!(result.find_regressions(Ratio(0.05), &SummaryField::REGRESSION_FIELDS).is_empty());
}

#[test]
fn what_a_side_lacks_is_not_compared_and_the_reason_is_told() {
    let mut a = walls(&FAST);
    for run in &mut a {
        run.missing.insert("summary.energy_joules".into(), MissingReason::without_fix("no energy meter"));
    }
    let result = compare(&a, &walls(&SLOW), &options()).unwrap();
    let energy = result.metric(SummaryField::EnergyJoules).unwrap();
    assert_eq!(energy.verdict, ComparisonVerdict::NotComparable);
    assert!(energy.because.as_ref().unwrap().contains("no energy meter"), "{energy:?}");
    assert_eq!((energy.a.n, energy.a.median, energy.change_ratio), (0, None, None));
}

#[test]
fn exact_and_estimated_memory_are_not_compared() {
    let with = |quality| -> Vec<Run> {
        let mut runs = walls(&FAST);
        for run in &mut runs {
            run.summary.peak_memory_bytes = Some(Bytes(1 << 20));
            run.quality.insert("summary.peak_memory_bytes".into(), quality);
        }
        runs
    };
    let result = compare(&with(ValueQuality::Exact), &with(ValueQuality::Estimated), &options()).unwrap();
    assert_eq!(
        result.metric(SummaryField::PeakMemoryBytes).unwrap().verdict,
        ComparisonVerdict::NotComparable
    );
    let result = compare(&with(ValueQuality::Exact), &with(ValueQuality::Exact), &options()).unwrap();
    assert_eq!(
        result.metric(SummaryField::PeakMemoryBytes).unwrap().verdict,
        ComparisonVerdict::NoDifferenceShown
    );
}

#[test]
fn exact_counters_that_never_vary_are_told_apart() {
    let with = |n| -> Vec<Run> {
        let mut runs = walls(&FAST);
        runs.iter_mut().for_each(|run| run.summary.processes = Some(n));
        runs
    };
    let result = compare(&with(5), &with(6), &options()).unwrap();
    let processes = result.metric(SummaryField::Processes).unwrap();
    assert_eq!(processes.verdict, ComparisonVerdict::Increase);
    assert_eq!(processes.low, processes.high);
    let same = compare(&with(5), &with(5), &options()).unwrap();
    assert_eq!(same.metric(SummaryField::Processes).unwrap().verdict, ComparisonVerdict::NoDifferenceShown);
    assert_eq!(same.metric(SummaryField::Processes).unwrap().change_ratio, Some(Ratio(0.0)));
}

#[test]
fn from_nothing_to_something_is_an_increase_without_a_ratio() {
    let with = |bytes| -> Vec<Run> {
        let mut runs = walls(&FAST);
        runs.iter_mut().for_each(|run| run.summary.written_bytes = Some(Bytes(bytes)));
        runs
    };
    let result = compare(&with(0), &with(4096), &options()).unwrap();
    let written = result.metric(SummaryField::WrittenBytes).unwrap();
    assert_eq!((written.verdict, written.change_ratio), (ComparisonVerdict::Increase, None));
    assert_eq!(result.find_regressions(Ratio(10.0), &[SummaryField::WrittenBytes]).len(), 1);
}

#[test]
fn runs_that_do_not_count_are_left_out_and_said_so() {
    let mut a = walls(&FAST);
    a[0].context.warmup = true;
    a[1].exit.as_mut().unwrap().code = Some(1);
    let mut cut = timed(5.0);
    cut.exit.as_mut().unwrap().cause = ExitCause::Timeout;
    let mut lost = timed(5.0);
    lost.state = RunState::Interrupted;
    a.extend([cut, lost]);
    let result = compare(&a, &walls(&SLOW), &options()).unwrap();
    assert_eq!(result.a.n, 4);
    let because: Vec<_> = result.a.left_out.iter().map(|out| out.because).collect();
    use ExclusionReason::*;
    assert_eq!(because, [WarmUp, Failed, Timeout, Interrupted]);
    let warning = result.warnings.iter().find(|warning| warning.code == "left-out").unwrap();
    assert!(warning.text.contains("4 of 8") && warning.text.contains("1 warm-up"), "{}", warning.text);
    let kept = compare(&a, &walls(&SLOW), &CompareOptions { keep_failed: true, ..options() }).unwrap();
    assert_eq!(kept.a.n, 5, "failed runs count when asked for");
}

#[test]
fn circumstances_that_differ_are_named() {
    let digest = |byte| Some(ContentDigest::from_bytes([byte; 32]));
    let b: Vec<Run> = walls(&SLOW)
        .into_iter()
        .map(|mut run| {
            run.device.id = "d-2".parse().unwrap();
            run.context.kernel = Some("6.2".into());
            run.context.input_digest = digest(1);
            run.context.executable_digest = digest(2);
            run.context.environment_digest = digest(3);
            run.context.limits.insert("cpu".into(), "1".into());
            run.context.method = Some(AccountingMethod::Wait4);
            run.host.governor = Some("powersave".into());
            run.context.power_mode = Some("2 MODE_15W_6CORE".into());
            run.host.before.load1 = Some(3.0);
            run.host.steal_ratio = Some(Ratio(0.05));
            run
        })
        .collect();
    let a: Vec<Run> = walls(&FAST)
        .into_iter()
        .map(|mut run| {
            run.host.before.load1 = Some(0.1);
            run.host.steal_ratio = Some(Ratio(0.0));
            run
        })
        .collect();
    let result = compare(&a, &b, &options()).unwrap();
    let got = codes(&result);
    for want in [
        "host-differs",
        "kernel-differs",
        "input-differs",
        "executable-differs",
        "environment-differs",
        "limits-differ",
        "method-differs",
        "governor-differs",
        "power-mode-differs",
        "load-differs",
        "steal-differs",
    ] {
        assert!(got.contains(&want), "{want} is not in {got:?}");
    }
    assert_eq!(codes(&compare(&walls(&FAST), &walls(&SLOW), &options()).unwrap()), ["drift-unknown"]);
}

#[test]
fn wrong_questions_get_an_answer_that_says_what_is_wrong() {
    let a = walls(&FAST);
    let told =
        |a: &[Run], b: &[Run], options: &CompareOptions| compare(a, b, options).unwrap_err().to_string();
    assert!(told(&[], &a, &options()).contains("side a has no run"));
    assert!(told(&a, &a, &options()).contains("named twice"));
    let mut failed = walls(&SLOW);
    failed.iter_mut().for_each(|run| run.exit.as_mut().unwrap().code = Some(3));
    assert!(told(&a, &failed, &options()).contains("6 failed"), "{}", told(&a, &failed, &options()));
    let mut odd = walls(&SLOW);
    odd[2].summary.cpu_seconds = Some(Seconds(-1.0));
    let text = told(&a, &odd, &options());
    assert!(
        text.contains("cpu_seconds") && text.contains("-1") && text.contains(&odd[2].id.to_string()),
        "{text}"
    );
    for (wrong, name) in [
        (CompareOptions { coverage: Ratio(95.0), ..options() }, "coverage"),
        (CompareOptions { significance: Ratio(f64::NAN), ..options() }, "significance"),
        (CompareOptions { resamples: 1, ..options() }, "resamples"),
        (CompareOptions { significance: Ratio(0.0001), ..options() }, "resamples"),
        (CompareOptions { fields: Vec::new(), ..options() }, "fields"),
    ] {
        assert!(told(&a, &walls(&SLOW), &wrong).contains(name), "{name}");
    }
    assert!("speed".parse::<SummaryField>().unwrap_err().to_string().contains("wall, cpu"));
    assert_eq!("memory".parse::<SummaryField>().unwrap(), SummaryField::PeakMemoryBytes);
    let many: Vec<Run> = (0..1001).map(|_| run()).collect();
    assert!(told(&many, &a, &options()).contains("at most 1000"));
}

/// The stable JSON form. After a deliberate change: METIER_RENEW=1 cargo test.
#[test]
fn the_json_form_is_the_golden_one() {
    let fixed = |values: &[f64], first: u32| -> Vec<Run> {
        let mut runs = walls(values);
        for (at, run) in runs.iter_mut().enumerate() {
            run.id = format!("0192f0c1-8c2a-7d3e-9b1f-{:012}", first + at as u32).parse().unwrap();
        }
        runs
    };
    let wanted = CompareOptions {
        label_a: "before".into(),
        label_b: "after".into(),
        fields: vec![SummaryField::WallSeconds, SummaryField::EnergyJoules],
        ..options()
    };
    let mut a = fixed(&FAST, 100);
    a[0].context.warmup = true;
    let comparison = compare(&a, &fixed(&SLOW, 200), &wanted).unwrap();
    let got = serde_json::to_string_pretty(&comparison).unwrap() + "\n";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/comparison.json");
    if std::env::var_os("METIER_RENEW").is_some() {
        std::fs::write(&path, &got).unwrap();
    }
    assert_eq!(got, std::fs::read_to_string(&path).unwrap());
}

#[test]
fn fields_of_later_versions_survive_and_other_records_are_refused() {
    let comparison = compare(&walls(&FAST), &walls(&SLOW), &options()).unwrap();
    let mut json = serde_json::to_value(&comparison).unwrap();
    json["later"] = json!({ "x": 1 });
    json["metrics"][0]["later"] = json!(2);
    json["a"]["later"] = json!(3);
    let again: RunComparison = serde_json::from_value(json.clone()).unwrap();
    let back = serde_json::to_value(&again).unwrap();
    assert_eq!(
        (&back["later"], &back["metrics"][0]["later"], &back["a"]["later"]),
        (&json!({"x": 1}), &json!(2), &json!(3))
    );
    json["schema"] = json!("metier.run/1");
    assert!(serde_json::from_value::<RunComparison>(json).is_err());
}
