//! Estimates a node's power, interval and idle part with the predictors that also answer the
//! exporter.

use super::engine::{FeaturePosition, PowerEstimator, PredictorInUse, PreparedFormula};
use super::request::EstimateRequest;
use crate::kepler_terms::{EnergySource, OutputType, PowerComponent};

/// Estimated power of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePowerEstimate {
    pub about: PredictorInUse,
    /// Watts of the requested components together.
    pub watts: f64,
    /// The interval: the sums of the components' lower and upper ends, which makes it rather too
    /// wide. `None` if the predictor has no interval.
    pub interval: Option<(f64, f64)>,
    /// Idle part of `watts`.
    pub idle: f64,
    /// Whether all features are within the range of the training data.
    pub in_range: bool,
    /// Cores of this machine divided by cores of the training machine.
    pub core_ratio: f64,
}

/// Estimate of one component.
struct ComponentEstimate {
    watts: f64,
    interval: Option<(f64, f64)>,
    idle: f64,
    in_range: bool,
}

impl PowerEstimator {
    /// Estimates a node's power as the sum of the source's components. `values` are the rates per
    /// second of `metrics`. If the predictor was trained on a larger machine, its idle power is
    /// scaled by the ratio of the cores, as the exporter does.
    pub fn estimate_node(
        &self,
        metrics: &[&str],
        values: &[f64],
        source: EnergySource,
        components: &[PowerComponent],
    ) -> Result<NodePowerEstimate, String> {
        if values.len() != metrics.len() || values.iter().any(|value| !value.is_finite()) {
            return Err(format!("want {} numbers, one for each metric", metrics.len()));
        }
        let request = EstimateRequest::plain(metrics, OutputType::AbsPower, source);
        let ready = self.ready(&request, OutputType::AbsPower, source)?;
        let nothing = vec![0.0; values.len()];
        let mut all: Vec<ComponentEstimate> = Vec::new();
        for component in components {
            let prepared = ready.components.iter().find(|(known, _)| known == component);
            let Some((_, Some(prepared))) = prepared else {
                return Err(format!("{} knows no {}", ready.about.predictor, component.name()));
            };
            let estimate = estimate_component(prepared, values, &nothing)
                .ok_or_else(|| format!("{} has no value for this use", ready.about.predictor))?;
            all.push(estimate);
        }
        let larger = 1.0 - ready.core_ratio.clamp(0.0, 1.0);
        let idle: f64 = all.iter().map(|estimate| estimate.idle).sum();
        let elsewhere = idle * larger;
        let watts = all.iter().map(|estimate| estimate.watts).sum::<f64>() - elsewhere;
        let ends: Option<Vec<(f64, f64)>> = all.iter().map(|estimate| estimate.interval).collect();
        let interval = ends.filter(|ends| !ends.is_empty()).map(|ends| {
            let sum = |end: fn(&(f64, f64)) -> f64| ends.iter().map(end).sum::<f64>() - elsewhere;
            (sum(|ends| ends.0).max(0.0), sum(|ends| ends.1).max(0.0))
        });
        let watts = watts.max(0.0);
        Ok(NodePowerEstimate {
            about: ready.about.clone(),
            watts,
            interval,
            idle: (idle - elsewhere).min(watts),
            in_range: all.iter().all(|estimate| estimate.in_range),
            core_ratio: ready.core_ratio,
        })
    }
}

fn estimate_component(
    prepared: &PreparedFormula,
    values: &[f64],
    nothing: &[f64],
) -> Option<ComponentEstimate> {
    let row = |values: &[f64]| -> Option<Vec<f64>> {
        let value = |place: &FeaturePosition| match place {
            FeaturePosition::Column(column) => values.get(*column).copied(),
            FeaturePosition::System(_) => None,
        };
        prepared.places.iter().map(value).collect()
    };
    let (now, rest) = (row(values)?, row(nothing)?);
    let formula = &prepared.formula;
    Some(ComponentEstimate {
        watts: formula.watts(&now)?,
        interval: formula.interval(&now),
        idle: formula.watts(&rest)?,
        in_range: formula.is_within(&now),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::node::MachineSpec;
    use crate::selection::PipelineRegistry;

    fn machine(cores: f64) -> MachineSpec {
        let processor = Some("intel_xeon_gold_6230".to_string());
        MachineSpec { processor, cores: Some(cores), ..MachineSpec::default() }
    }

    #[test]
    fn a_small_machine_has_the_fallback_and_idles_when_nobody_works() {
        let estimator = PowerEstimator::new(PipelineRegistry::default(), machine(4.0)).unwrap();
        let at = |ms: f64| {
            let metrics = ["bpf_cpu_time_ms"];
            estimator.estimate_node(&metrics, &[ms], EnergySource::Acpi, &[PowerComponent::Platform]).unwrap()
        };
        let (idle, half, full) = (at(0.0), at(2000.0), at(4000.0));
        assert_eq!(idle.about.pipeline, "fallback");
        assert_eq!(idle.watts, idle.idle);
        assert!(idle.watts > 0.0 && half.watts > idle.watts && full.watts > half.watts);
        assert!(((idle.watts + full.watts) / 2.0 - half.watts).abs() < 1e-9, "a straight line");
        assert_eq!((half.idle, full.in_range, at(5000.0).in_range), (idle.watts, true, false));
        for estimate in [&idle, &half, &full] {
            let (low, high) = estimate.interval.unwrap();
            assert!(
                low < estimate.watts / 1.5 && high > estimate.watts * 3.0,
                "machines of a class differ: {estimate:?}"
            );
        }
    }

    #[test]
    fn idle_power_of_a_larger_machine_is_taken_for_the_share_of_the_cores() {
        let metrics = ["cache_miss", "cpu_cycles", "cpu_instructions"];
        let of = |cores: f64, values: &[f64]| {
            let estimator = PowerEstimator::new(PipelineRegistry::default(), machine(cores)).unwrap();
            estimator
                .estimate_node(&metrics, values, EnergySource::Acpi, &[PowerComponent::Platform])
                .unwrap()
        };
        let work = [1e8, 2e10, 3e10];
        let (own, half) = (of(40.0, &work), of(20.0, &work));
        assert_eq!((own.core_ratio, half.core_ratio), (1.0, 0.5));
        assert!((own.idle / 2.0 - half.idle).abs() < 1e-9, "{own:?} {half:?}");
        assert!((own.watts - own.idle - (half.watts - half.idle)).abs() < 1e-9, "work is work");
    }

    #[test]
    fn parts_add_up_and_what_cannot_be_said_is_told() {
        let estimator = PowerEstimator::new(PipelineRegistry::default(), machine(4.0)).unwrap();
        let of = |components: &[PowerComponent]| {
            estimator.estimate_node(&["bpf_cpu_time_ms"], &[1000.0], EnergySource::RaplSysfs, components)
        };
        let (package, dram) = (of(&[PowerComponent::Package]).unwrap(), of(&[PowerComponent::Dram]).unwrap());
        let both = of(&[PowerComponent::Package, PowerComponent::Dram]).unwrap();
        assert!((package.watts + dram.watts - both.watts).abs() < 1e-9);
        assert!(of(&[PowerComponent::Platform]).unwrap_err().contains("platform"));
        assert!(estimator.estimate_node(&["bpf_cpu_time_ms"], &[f64::NAN], EnergySource::Acpi, &[]).is_err());
        assert!(estimator.estimate_node(&["bpf_page_cache_hit"], &[1.0], EnergySource::Acpi, &[]).is_err());
    }

    /// Idle watts of a machine with this many cores, and the pipeline that answered.
    fn idle(cores: f64, metrics: &[&str], source: EnergySource) -> (f64, String) {
        let estimator = PowerEstimator::new(PipelineRegistry::default(), machine(cores)).unwrap();
        let components: &[PowerComponent] = match source {
            EnergySource::Acpi => &[PowerComponent::Platform],
            _ => &[PowerComponent::Package, PowerComponent::Dram],
        };
        let estimate =
            estimator.estimate_node(metrics, &vec![0.0; metrics.len()], source, components).unwrap();
        (estimate.idle, estimate.about.pipeline)
    }

    proptest! {
        /// On a host that is split into virtual machines without meters, the idle powers must add
        /// up to the host's.
        #[test]
        fn virtual_machines_of_the_fallback_count_idling_once(
            cores in proptest::collection::vec(1u32..64, 1..20),
            source in prop_oneof![Just(EnergySource::Acpi), Just(EnergySource::RaplSysfs)],
        ) {
            let of = |cores: u32| idle(f64::from(cores), &["bpf_cpu_time_ms"], source);
            let (whole, pipeline) = of(cores.iter().sum());
            prop_assert_eq!(pipeline, "fallback");
            let parts: f64 = cores.iter().map(|cores| of(*cores).0).sum();
            prop_assert!(whole > 0.0 && (parts - whole).abs() <= 1e-9 * whole, "{parts} {whole}");
        }

        /// The shipped predictor was trained on a machine of 40 cores and answers from half of that
        /// upwards.
        #[test]
        fn virtual_machines_of_what_is_shipped_take_their_cores_share_of_idling(
            cores in 20u32..=40,
            source in prop_oneof![Just(EnergySource::Acpi), Just(EnergySource::RaplSysfs)],
        ) {
            let of = |cores: u32| {
                idle(f64::from(cores), &["cache_miss", "cpu_cycles", "cpu_instructions"], source)
            };
            let ((whole, of_whole), (part, of_part)) = (of(40), of(cores));
            prop_assert_eq!((of_whole.as_str(), of_part.as_str()), ("metier-defaults", "metier-defaults"));
            prop_assert!(whole > 0.0);
            prop_assert!((part - whole * f64::from(cores) / 40.0).abs() <= 1e-9 * whole, "{part} {whole}");
            prop_assert!((of(20).0 * 2.0 - whole).abs() <= 1e-9 * whole, "two halves are the whole");
        }
    }
}
