//! Warnings about other differences between two groups of runs.
//!
//! Codes: `host-differs`, `kernel-differs`, `input-differs`, `environment-differs`,
//! `limits-differ`, `method-differs`, `dataset-differs`, `page-cache-differs`, `company-differs`,
//! `governor-differs`, `power-mode-differs`, `version-differs`, `load-differs`, `steal-differs`,
//! `others-differ`, `left-out`, `drift-unknown` and `too-few-repeats`. The codes
//! `executable-differs`, `image-differs` and `command-differs` are information only: usually these
//! differences are what is compared.

use std::collections::BTreeSet;

use metier_types::{Run, RunWarning};

use crate::bootstrap::median;
use crate::comparison::{ComparedGroup, ComparisonVerdict, DriftTreatment, MetricComparison};
use crate::run_selection::count_reasons;

/// Maximum number of distinct values listed per side.
const MAX_SHOWN_VALUES: usize = 3;

/// A noise reading of the host of a run.
type NoiseReading = fn(&Run) -> Option<f64>;

fn new_warning(code: &str, text: String) -> RunWarning {
    RunWarning::new(code, text)
}

/// Warns about excluded runs.
pub fn exclusion_warnings(a: &ComparedGroup, b: &ComparedGroup) -> Vec<RunWarning> {
    [a, b]
        .into_iter()
        .filter(|group| !group.left_out.is_empty())
        .map(|group| {
            let of = group.n + group.left_out.len();
            let text = format!(
                "{}: {} of {of} runs are left out ({})",
                group.label,
                group.left_out.len(),
                count_reasons(&group.left_out)
            );
            new_warning("left-out", text)
        })
        .collect()
}

/// Warns if no difference could be significant with so few runs.
pub fn too_few_warning(
    a: &ComparedGroup,
    b: &ComparedGroup,
    metrics: &[MetricComparison],
) -> Option<RunWarning> {
    metrics.iter().any(|metric| metric.verdict == ComparisonVerdict::TooFewRuns).then(|| {
        new_warning(
            "too-few-repeats",
            format!(
                "{} has {} and {} has {} runs: too few to tell a difference from chance; measure each with --repeat 10",
                a.label, a.n, b.label, b.n
            ),
        )
    })
}

/// Warns if the drift between the batches is unknown.
pub fn drift_warning(metrics: &[MetricComparison]) -> Option<RunWarning> {
    let mut treatments = metrics.iter().filter_map(|metric| metric.drift).peekable();
    treatments.peek()?;
    treatments.all(|drift| drift == DriftTreatment::NotContained).then(|| {
        let text = "the two were measured one after the other, and no earlier batches show how much \
                    this device drifts: a small change may be drift; measure them by turns with \
                    `metier run --alternate`";
        new_warning("drift-unknown", text.to_string())
    })
}

/// One circumstance that should be equal in all runs.
pub struct RunCircumstance {
    /// Stable code of its difference.
    pub code: &'static str,
    pub what: &'static str,
    advice: &'static str,
    /// Its value in a run.
    pub of: fn(&Run) -> Option<String>,
}

/// The circumstances that are compared.
pub const CIRCUMSTANCES: [RunCircumstance; 15] = [
    RunCircumstance {
        code: "host-differs",
        what: "the device",
        advice: "the difference is one of devices as well; measure both on the same one to judge the workload",
        of: |run| Some(run.device.name.clone()),
    },
    RunCircumstance {
        code: "kernel-differs",
        what: "the kernel",
        advice: "measure both under the same kernel to judge the workload",
        of: |run| run.context.kernel.clone(),
    },
    RunCircumstance {
        code: "input-differs",
        what: "the input's content",
        advice: "measure both with the same --input",
        of: |run| run.context.input_digest.map(|digest| digest.short()),
    },
    RunCircumstance {
        code: "environment-differs",
        what: "the environment",
        advice: "start both from the same shell, or with `env -i`",
        of: |run| run.context.environment_digest.map(|digest| digest.short()),
    },
    RunCircumstance {
        code: "limits-differ",
        what: "the set of limits",
        advice: "measure both under the same limits",
        of: |run| {
            let limits: Vec<String> = run.context.limits.iter().map(|(k, v)| format!("{k}={v}")).collect();
            Some(if limits.is_empty() { "none".into() } else { limits.join(" ") })
        },
    },
    RunCircumstance {
        code: "method-differs",
        what: "the way of accounting",
        advice: "values of different ways are not the same thing; measure both in the same way",
        of: |run| run.context.method.map(|method| format!("{method:?}")),
    },
    RunCircumstance {
        code: "governor-differs",
        what: "the frequency governor",
        advice: "set the same governor for both",
        of: |run| run.host.governor.clone(),
    },
    RunCircumstance {
        code: "power-mode-differs",
        what: "the board's power mode",
        advice: "set the same mode for both, with `nvpmodel -m`",
        of: |run| run.context.power_mode.clone(),
    },
    RunCircumstance {
        code: "version-differs",
        what: "the measuring program",
        advice: "measure both with the same version where small differences matter",
        of: |run| Some(run.context.measured_by.clone()),
    },
    RunCircumstance {
        code: "executable-differs",
        what: "the executable's content",
        advice: "for information: usually this is what is compared",
        of: |run| run.context.executable_digest.map(|digest| digest.short()),
    },
    RunCircumstance {
        code: "image-differs",
        what: "the image",
        advice: "for information: usually this is what is compared",
        of: |run| {
            let none = || "none".to_string();
            let name = |image: &metier_types::ImageUse| match image.digest {
                Some(digest) => format!("{} ({})", image.reference, digest.short()),
                None => image.reference.clone(),
            };
            Some(run.context.image.as_ref().map_or_else(none, name))
        },
    },
    RunCircumstance {
        code: "dataset-differs",
        what: "the dataset's content",
        advice: "measure both on the same dataset",
        of: |run| {
            Some(run.context.dataset.as_ref().map_or_else(|| "none".into(), |dataset| dataset.digest.short()))
        },
    },
    RunCircumstance {
        code: "page-cache-differs",
        what: "the state of the page cache",
        advice: "measure both with the same state of the cache",
        of: |run| {
            let word =
                |dataset: &metier_types::DatasetUse| format!("{:?}", dataset.page_cache).to_lowercase();
            Some(run.context.dataset.as_ref().map_or_else(|| "none".into(), word))
        },
    },
    RunCircumstance {
        code: "company-differs",
        what: "what ran beside it",
        advice: "measure both with the same companions and neighbours",
        of: |run| {
            let mut names: Vec<&str> = run.context.company.iter().map(|other| other.name.as_str()).collect();
            names.sort_unstable();
            Some(if names.is_empty() { "nothing".into() } else { names.join(", ") })
        },
    },
    RunCircumstance {
        code: "command-differs",
        what: "the command line",
        advice: "for information: usually this is what is compared",
        of: |run| Some(run.context.command.join(" ").chars().take(60).collect()),
    },
];

/// Warns about differences between the groups, or within one.
pub fn difference_warnings(a: &[&Run], b: &[&Run], label_a: &str, label_b: &str) -> Vec<RunWarning> {
    let mut warnings = Vec::new();
    for it in &CIRCUMSTANCES {
        let (of_a, of_b) = (distinct_values(a, it.of), distinct_values(b, it.of));
        // Two devices may have the same name, so their ids are compared.
        let same = match it.code {
            "host-differs" => {
                let ids: BTreeSet<&str> = a.iter().chain(b).map(|run| run.device.id.as_str()).collect();
                ids.len() <= 1
            }
            _ => of_a.union(&of_b).count() <= 1,
        };
        if !same {
            let text = format!(
                "{} differs: {label_a}: {}; {label_b}: {}; {}",
                it.what,
                join_values(&of_a),
                join_values(&of_b),
                it.advice
            );
            warnings.push(new_warning(it.code, text));
        }
    }
    warnings.extend(noise_warnings(a, b, label_a, label_b));
    warnings
}

fn distinct_values(runs: &[&Run], of: fn(&Run) -> Option<String>) -> BTreeSet<String> {
    runs.iter().map(|run| of(run).unwrap_or_else(|| "unknown".into())).collect()
}

fn join_values(values: &BTreeSet<String>) -> String {
    let mut text = values.iter().take(MAX_SHOWN_VALUES).cloned().collect::<Vec<_>>().join(", ");
    if values.len() > MAX_SHOWN_VALUES {
        text.push_str(&format!(" and {} more", values.len() - MAX_SHOWN_VALUES));
    }
    text
}

/// Compares load, steal time and other processes' CPU share by their medians.
fn noise_warnings(a: &[&Run], b: &[&Run], label_a: &str, label_b: &str) -> Vec<RunWarning> {
    let middle = |runs: &[&Run], of: NoiseReading| {
        let mut values: Vec<f64> = runs.iter().filter_map(|run| of(run)).filter(|x| x.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        median(&values)
    };
    let mut warnings = Vec::new();
    // A load of 0.5 is what one more busy process adds within half a minute.
    let load = |run: &Run| run.host.before.load1;
    if let (Some(x), Some(y)) = (middle(a, load), middle(b, load))
        && (x - y).abs() > 0.5
    {
        let text = format!(
            "the load before the runs differs: {label_a}: {x:.2}; {label_b}: {y:.2}; measure again on a quiet host"
        );
        warnings.push(new_warning("load-differs", text));
    }
    let shares: [(&str, &str, f64, NoiseReading); 2] = [
        ("steal-differs", "time stolen by the hypervisor", 0.01, |run| run.host.steal_ratio.map(|x| x.get())),
        ("others-differ", "the share of the cores that others used", 0.05, |run| {
            run.host.others_ratio.map(|x| x.get())
        }),
    ];
    for (code, what, limit, of) in shares {
        if let (Some(x), Some(y)) = (middle(a, of), middle(b, of))
            && (x - y).abs() > limit
        {
            let (x, y) = (x * 100.0, y * 100.0);
            let text = format!(
                "{what} differs: {label_a}: {x:.1} %; {label_b}: {y:.1} %; alternate the two, or measure on a quiet host"
            );
            warnings.push(new_warning(code, text));
        }
    }
    warnings
}
