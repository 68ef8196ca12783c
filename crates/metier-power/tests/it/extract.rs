//! Tables from a recorded Prometheus response equal those of the original. Tolerance: one part in
//! 10¹², since sums over containers are added in another order.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use metier_power::extract::{self, ExtractSettings, TableExtractor};
use metier_power::frame::FeatureFrame;
use metier_power::isolate::{self, TableSubject};
use metier_power::kepler_terms::{EnergySource, FeatureGroup};
use metier_power::profile::{self, IdleLevels};
use metier_power::response::KeplerResponse;
use serde_json::Value;

const SOURCES: [EnergySource; 2] = [EnergySource::RaplSysfs, EnergySource::Acpi];
const GROUPS: [FeatureGroup; 2] = [FeatureGroup::BpfOnly, FeatureGroup::CounterOnly];

fn shared() -> Option<(PathBuf, KeplerResponse)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/kepler");
    if !folder.exists() {
        eprintln!("SKIP: golden data of Kepler, because ../shared/data/kepler is not there");
        return None;
    }
    let idle = KeplerResponse::read(&fs::read(folder.join("prom/idle.json")).unwrap()).unwrap();
    Some((folder, idle))
}

fn close(got: f64, want: f64) -> bool {
    (got - want).abs() <= 1e-12 * want.abs().max(1.0)
}

/// Compares rows by time and id, and their columns.
fn assert_same(got: &FeatureFrame, want: &FeatureFrame, what: &str) {
    let keyed = |frame: &FeatureFrame| -> BTreeMap<(u64, String), usize> {
        let id = |row: usize| frame.ids.as_ref().map_or(String::new(), |ids| ids[row].clone());
        (0..frame.len()).map(|row| ((frame.timestamps[row].to_bits(), id(row)), row)).collect()
    };
    let (ours, theirs) = (keyed(got), keyed(want));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{what}");
    let names = |frame: &FeatureFrame| {
        let mut names: Vec<String> = frame.names().map(str::to_string).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(got), names(want), "{what}");
    for name in want.names() {
        let (mine, expected) = (got.column(name).unwrap(), want.column(name).unwrap());
        for (key, row) in &theirs {
            assert!(
                close(mine[ours[key]], expected[*row]),
                "{what} {name} {key:?}: {} and not {}",
                mine[ours[key]],
                expected[*row]
            );
        }
    }
}

#[test]
fn extracted_and_isolated_tables_are_the_recorded_ones() {
    let Some((folder, idle)) = shared() else { return };
    let golden = |name: &str| {
        FeatureFrame::read_csv(fs::File::open(folder.join("golden/extract").join(name)).unwrap()).unwrap()
    };
    let meta: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("golden/extract/meta.json")).unwrap()).unwrap();
    for source in SOURCES {
        let watts = profile::watts(&idle, source).unwrap();
        let level = IdleLevels::of(&watts, source).unwrap();
        for group in GROUPS {
            let end = format!("{}_{}.csv", source.name(), group.name());
            for (by_container, word) in [(false, "abs"), (true, "container")] {
                let settings = ExtractSettings { by_container, ..ExtractSettings::new(source, group) };
                let got = extract::extract(&idle, &settings).unwrap();
                let name = format!("extract_{word}_{end}");
                assert_same(&got.frame, &golden(&name), &name);
                assert_eq!(got.frame.len() as u64, meta[&name]["rows"].as_u64().unwrap());
                for (feature, correlation) in &got.correlations {
                    let want = meta[&name]["corr"][feature].as_f64().unwrap();
                    assert!((correlation.unwrap() - want).abs() < 1e-9, "{name} {feature}");
                }
                if by_container {
                    let about = TableSubject { source, group };
                    let none = isolate::sum_containers(&got.frame, about).unwrap();
                    assert_same(&none, &golden(&format!("isolate_none_{end}")), "none");
                    let min = isolate::subtract_minimum(&got.frame, about).unwrap();
                    let want = golden(&format!("isolate_min_{end}"));
                    assert_eq!(min.len(), want.len());
                    for name in want.names() {
                        for (got, want) in min.column(name).unwrap().iter().zip(want.column(name).unwrap()) {
                            // A difference of two numbers of about 100.
                            assert!(
                                (got - want).abs() < 1e-9 || close(*got, *want),
                                "min {name}: {got} {want}"
                            );
                        }
                    }
                    // Every container runs on the idle machine, so no rows are left.
                    let left =
                        isolate::subtract_profile(&got.frame, about, &level, &profile::background(&idle))
                            .unwrap()
                            .unwrap();
                    assert_eq!(left.len(), golden(&format!("isolate_profile_{end}")).len());
                }
            }
        }
    }
}

#[test]
fn the_recorded_profile_is_ours_where_its_faults_are_repeated() {
    let Some((folder, idle)) = shared() else { return };
    let golden: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("golden/profile_idle.json")).unwrap()).unwrap();
    for source in SOURCES {
        let watts = profile::watts(&idle, source).unwrap();
        let got = IdleLevels::as_published(&watts, source).unwrap().to_json(0);
        for (component, levels) in golden[source.name()].as_object().unwrap() {
            for key in ["min_watt", "max_watt", "#unit"] {
                let (got, want) = (&got[component]["0"][key], &levels["0"][key]);
                assert!(
                    close(got.as_f64().unwrap(), want.as_f64().unwrap()),
                    "{component} {key}: {got} {want}"
                );
            }
        }
        // The corrected levels: true watts, and `core` without `uncore`.
        let right = IdleLevels::of(&watts, source).unwrap();
        assert!(right.0.values().all(|level| level.units == 1));
        assert!(right.0.values().any(|level| level.max_watt > 50.0), "{right:?}");
    }
}

#[test]
fn groups_and_sources_are_found_in_the_answer() {
    let Some((_, idle)) = shared() else { return };
    let names: Vec<&str> = extract::groups(&idle, false).iter().map(|group| group.name()).collect();
    assert_eq!(names, ["CounterOnly", "BPFOnly", "BPFIRQ", "CounterIRQCombined", "Basic"]);
    assert_eq!(extract::sources(&idle), SOURCES);
    let missing =
        extract::extract(&idle, &ExtractSettings::new(EnergySource::Redfish, FeatureGroup::BpfOnly))
            .unwrap_err();
    assert!(missing.to_string().contains("redfish"), "{missing}");
}

#[test]
fn the_smooth_extractor_loses_the_first_rows_and_keeps_a_constant() {
    let samples = |rate: f64| -> Vec<String> {
        (0..41).map(|step| format!("[{}, \"{}\"]", 3 * step, rate * 3.0 * f64::from(step))).collect()
    };
    let series = |labels: &str, rate: f64| {
        format!(r#"[{{"metric": {{{labels}}}, "values": [{}]}}]"#, samples(rate).join(","))
    };
    let container =
        r#""container_id":"c","pod_name":"p","container_name":"n","container_namespace":"s","job":"j""#;
    let text = format!(
        r#"{{"kepler_container_bpf_cpu_time_ms_total": {}, "kepler_container_bpf_page_cache_hit_total": {}, "kepler_node_platform_joules_total": {}}}"#,
        series(container, 40.0),
        series(container, 2.0),
        series(r#""source":"acpi","mode":"dynamic""#, 100.0)
    );
    let response = KeplerResponse::read(text.as_bytes()).unwrap();
    let settings = ExtractSettings {
        extractor: TableExtractor::Smooth,
        ..ExtractSettings::new(EnergySource::Acpi, FeatureGroup::BpfOnly)
    };
    let frame = extract::extract(&response, &settings).unwrap().frame;
    assert_eq!(frame.len(), 40 - 29);
    assert!(frame.column("bpf_cpu_time_ms").unwrap().iter().all(|value| close(*value, 40.0)));
    assert!(frame.column("platform_power").unwrap().iter().all(|value| close(*value, 100.0)));
}

#[test]
fn accelerators_are_the_nodes_and_taken_as_they_are() {
    let joules: Vec<Value> =
        (0..5).map(|step| serde_json::json!([3 * step, (300 * step).to_string()])).collect();
    let busy = |of: f64| -> Vec<Value> {
        (0..5).map(|step| serde_json::json!([3 * step, (of * f64::from(step)).to_string()])).collect()
    };
    let text = serde_json::json!({
        "kepler_node_platform_joules_total": [{ "metric": { "source": "acpi", "mode": "dynamic" }, "values": joules }],
        "kepler_node_accelerator_intel_qat": [
            { "metric": { "type": "compress" }, "values": busy(1.0) },
            { "metric": { "type": "cipher" }, "values": busy(10.0) },
        ],
    });
    let response = KeplerResponse::read(text.to_string().as_bytes()).unwrap();
    assert_eq!(extract::groups(&response, false), [FeatureGroup::AcceleratorOnly]);
    let settings = ExtractSettings::new(EnergySource::Acpi, FeatureGroup::AcceleratorOnly);
    let frame = extract::extract(&response, &settings).unwrap().frame;
    assert_eq!(frame.column("accelerator_intel_qat").unwrap(), [11.0, 22.0, 33.0, 44.0]);
    assert_eq!(frame.column("platform_power").unwrap(), [100.0; 4]);
}

#[test]
fn packages_are_told_apart_where_their_shares_are_known() {
    let counter = |rate: f64| -> Vec<Value> {
        (0..6).map(|step| serde_json::json!([3 * step, (3.0 * rate * f64::from(step)).to_string()])).collect()
    };
    let gauge = |value: f64| -> Vec<Value> {
        (0..6).map(|step| serde_json::json!([3 * step, value.to_string()])).collect()
    };
    let container = |name: &str, extra: (&str, &str)| serde_json::json!({ "container_id": name, "pod_name": "p", "container_name": name, "container_namespace": "n", extra.0: extra.1 });
    let energy = |watts: [f64; 2]| -> Value {
        let of = |package: usize| serde_json::json!({ "metric": { "source": "rapl-sysfs", "mode": "dynamic", "package": package.to_string() }, "values": counter(watts[package]) });
        serde_json::json!([of(0), of(1)])
    };
    let features = serde_json::json!([{ "metric": container("a", ("job", "kepler")), "values": counter(100.0) }, { "metric": container("b", ("job", "kepler")), "values": counter(10.0) }]);
    let mut text = serde_json::json!({
        "kepler_node_package_joules_total": energy([40.0, 20.0]), "kepler_node_core_joules_total": energy([30.0, 10.0]),
        "kepler_node_uncore_joules_total": energy([1.0, 1.0]), "kepler_node_dram_joules_total": energy([5.0, 6.0]),
        "kepler_container_bpf_cpu_time_ms_total": features, "kepler_container_bpf_page_cache_hit_total": features,
        "kepler_container_cpu_usage_per_package_ratio": [
            { "metric": container("a", ("pkg_id", "0")), "values": gauge(0.9) }, { "metric": container("a", ("pkg_id", "1")), "values": gauge(0.3) },
            { "metric": container("b", ("pkg_id", "0")), "values": gauge(0.0) }, { "metric": container("b", ("pkg_id", "1")), "values": gauge(0.6) },
        ],
    });
    let settings = ExtractSettings::new(EnergySource::RaplSysfs, FeatureGroup::BpfOnly);
    let of = |text: &Value, settings: &ExtractSettings| {
        let response = KeplerResponse::read(text.to_string().as_bytes()).unwrap();
        extract::extract(&response, settings).unwrap().frame
    };
    let apart = of(&text, &settings);
    let close = |name: &str, want: f64| {
        let values = apart.column(name).unwrap_or_else(|| panic!("{name}"));
        assert!(
            values.len() == 5 && values.iter().all(|value| (value - want).abs() < 1e-9),
            "{name}: {values:?}"
        );
    };
    for (name, want) in [
        ("package_0_package_power", 40.0),
        ("package_1_package_power", 20.0),
        ("package_1_dram_power", 6.0),
        ("packge_ratio_0", 0.5),
        ("packge_ratio_1", 0.5),
    ] {
        close(name, want);
    }
    assert!(apart.column("package_power").is_none() && apart.column("packge_ratio_package").is_none());
    let by_container = of(&text, &ExtractSettings { by_container: true, ..settings });
    assert_eq!((by_container.len(), by_container.column("packge_ratio_0").unwrap()[0]), (10, 0.75));
    // Trainers and isolators sum the packages: equal to a table without packages.
    text.as_object_mut().unwrap().remove("kepler_container_cpu_usage_per_package_ratio");
    let whole = of(&text, &ExtractSettings { by_container: true, ..settings });
    let about = TableSubject { source: EnergySource::RaplSysfs, group: FeatureGroup::BpfOnly };
    for component in EnergySource::RaplSysfs.components() {
        assert_eq!(by_container.watts(*component), whole.watts(*component));
        let least = |frame: &FeatureFrame| isolate::subtract_minimum(frame, about).unwrap().watts(*component);
        assert_eq!(least(&by_container), least(&whole));
        let joint = |frame: &FeatureFrame| {
            isolate::isolate_jointly(frame, about, &isolate::BackgroundHints::default())
                .unwrap()
                .watts(*component)
        };
        assert_eq!(joint(&by_container), joint(&whole));
    }
}
