//! The list of all predictors for display. They are ordered by similarity of the training machine
//! to this one. Each has its errors by component, the worst first.

use super::PipelineRegistry;
use crate::kepler_terms::{EnergySource, FeatureGroup, OutputType, PowerComponent};
use crate::node::{MachineSpec, NodeTypeEntry};
use crate::pipeline::{PipelineModel, PredictorPipeline};

/// Filter of the list; `None` matches any.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PredictorFilter {
    pub pipeline: Option<String>,
    pub source: Option<EnergySource>,
    /// With or without idle power.
    pub output_type: Option<OutputType>,
    /// Feature group.
    pub group: Option<FeatureGroup>,
    /// Trainer and node type.
    pub name: Option<String>,
    /// Trainer.
    pub trainer: Option<String>,
    /// Node type.
    pub node_type: Option<u32>,
    /// Whether metier can evaluate the predictor; pickles it cannot.
    pub is_usable: Option<bool>,
}

impl PredictorFilter {
    /// Whether a predictor passes the filter.
    pub fn fits(&self, pipeline: &PredictorPipeline, model: &PipelineModel) -> bool {
        fn is<T: PartialEq + ?Sized>(filter: Option<&T>, is: &T) -> bool {
            filter.is_none_or(|filter| filter == is)
        }
        is(self.pipeline.as_deref(), pipeline.name.as_str())
            && is(self.source.as_ref(), &model.source)
            && is(self.output_type.as_ref(), &model.output_type)
            && is(self.group.as_ref(), &model.group)
            && is(self.name.as_deref(), model.full_name.as_str())
            && is(self.trainer.as_deref(), model.name.trainer.as_str())
            && is(self.node_type.as_ref(), &model.name.node_type)
            && is(self.is_usable.as_ref(), &model.is_usable())
    }
}

/// A predictor in the list.
#[derive(Debug, Clone)]
pub struct ListedPredictor<'a> {
    pub pipeline: &'a PredictorPipeline,
    pub model: &'a PipelineModel,
    /// The training machine, if known.
    pub machine: Option<&'a NodeTypeEntry>,
    /// Similarity of the training machine to this one, 0 to 1.
    pub similarity: Option<f64>,
    /// Errors, the worst first.
    pub errors: Vec<ComponentError>,
}

/// Held-out error of one component.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComponentError {
    /// The component; `None` for an error over all components.
    pub component: Option<PowerComponent>,
    /// Mean of the absolute errors, in watts.
    pub mae: Option<f64>,
    /// Mean of the relative errors, in per cent.
    pub mape: Option<f64>,
}

impl ListedPredictor<'_> {
    /// The worst component's error in watts; predictors of one machine are ordered by it.
    pub fn worst(&self) -> Option<f64> {
        self.errors.first().and_then(|error| error.mae)
    }
}

impl PipelineModel {
    /// Errors by component, the worst first. A component without power (0 W, always right) comes
    /// last.
    pub fn errors_by_component(&self) -> Vec<ComponentError> {
        let of = |component: PowerComponent, end: &str| self.error(&format!("{}_{end}", component.name()));
        let components = self.source.components();
        let mut errors: Vec<ComponentError> = components
            .iter()
            .map(|component| ComponentError {
                component: Some(*component),
                mae: of(*component, "mae"),
                mape: of(*component, "mape"),
            })
            .filter(|error| error.mae.is_some() || error.mape.is_some())
            .collect();
        if errors.is_empty() {
            let (mae, mape) = (self.error("mae"), self.error("mape"));
            // With a single component the total error is that component's.
            let component = if let [only] = components { Some(*only) } else { None };
            if mae.is_some() || mape.is_some() {
                errors.push(ComponentError { component, mae, mape });
            }
        }
        let size = |error: &ComponentError| error.mae.or(error.mape).unwrap_or(-1.0);
        errors.sort_by(|a, b| size(b).total_cmp(&size(a)));
        errors
    }
}

/// The predictors that pass the filter, those of the most similar machines first. Those of one
/// machine are ordered by source, output type and features, the smallest error first.
pub fn list<'a>(
    registry: &'a PipelineRegistry,
    filter: &PredictorFilter,
    here: &MachineSpec,
) -> Vec<ListedPredictor<'a>> {
    let mut all = Vec::new();
    for pipeline in &registry.pipelines {
        let mut known: Option<(u32, Option<&NodeTypeEntry>, Option<f64>)> = None;
        for model in pipeline.models.iter().filter(|model| filter.fits(pipeline, model)) {
            let number = model.name.node_type;
            let (machine, similarity) = match known {
                Some((of, machine, similarity)) if of == number => (machine, similarity),
                _ => {
                    let machine = pipeline.index.as_ref().and_then(|index| index.0.get(&number));
                    let similarity = machine.map(|entry| here.similarity(&entry.spec));
                    known = Some((number, machine, similarity));
                    (machine, similarity)
                }
            };
            let errors = model.errors_by_component();
            all.push(ListedPredictor { pipeline, model, machine, similarity, errors });
        }
    }
    all.sort_by(|a, b| {
        let alike = |predictor: &ListedPredictor<'_>| predictor.similarity.unwrap_or(-1.0);
        let place = |listed_predictor: &ListedPredictor<'_>| {
            let model = listed_predictor.model;
            (model.name.node_type, model.source, model.output_type, model.group)
        };
        let error = |one: &ListedPredictor<'_>| one.worst().unwrap_or(f64::INFINITY);
        alike(b)
            .total_cmp(&alike(a))
            .then_with(|| a.pipeline.name.cmp(&b.pipeline.name))
            .then_with(|| place(a).cmp(&place(b)))
            .then_with(|| error(a).total_cmp(&error(b)))
            .then_with(|| a.model.full_name.cmp(&b.model.full_name))
    });
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kepler_terms::ModelName;
    use crate::node::NodeTypeIndex;

    fn model(name: &str, source: EnergySource, errors: &[(&str, f64)]) -> PipelineModel {
        PipelineModel {
            name: ModelName::read(name).unwrap(),
            full_name: name.to_string(),
            source,
            output_type: OutputType::AbsPower,
            group: FeatureGroup::BpfOnly,
            errors: errors.iter().map(|(key, value)| (key.to_string(), *value)).collect(),
            weights: Some("{}".into()),
            archive: None,
            scale: None,
            predictor: None,
        }
    }

    fn registry() -> PipelineRegistry {
        let machine = |cores: f64| NodeTypeEntry {
            spec: MachineSpec { cores: Some(cores), ..MachineSpec::default() },
            members: vec!["m".into()],
        };
        let index = NodeTypeIndex(BTreeMap::from([(1, machine(4.0)), (2, machine(64.0))]));
        let models = vec![
            model("SGDRegressorTrainer_1", EnergySource::Acpi, &[("mae", 9.0), ("mape", 4.0)]),
            model("XgboostFitTrainer_1", EnergySource::Acpi, &[("mae", 3.0)]),
            model(
                "XgboostFitTrainer_2",
                EnergySource::RaplSysfs,
                &[("package_mae", 1.0), ("dram_mae", 2.0), ("core_mae", 0.0), ("mae", 2.0)],
            ),
            PipelineModel {
                weights: None,
                ..model("SVRRegressorTrainer_7", EnergySource::RaplSysfs, &[("mae", 5.0)])
            },
        ];
        let mut registry = PipelineRegistry::default();
        registry.add(PredictorPipeline {
            name: "one".into(),
            index: Some(index),
            models,
            ..PredictorPipeline::default()
        });
        registry
    }

    fn names(filter: &PredictorFilter, cores: f64) -> Vec<String> {
        let here = MachineSpec { cores: Some(cores), ..MachineSpec::default() };
        list(&registry(), filter, &here).iter().map(|predictor| predictor.model.full_name.clone()).collect()
    }

    #[test]
    fn machines_like_this_one_come_first_and_of_one_machine_the_least_error() {
        let any = PredictorFilter::default();
        assert_eq!(
            names(&any, 4.0),
            ["XgboostFitTrainer_1", "SGDRegressorTrainer_1", "XgboostFitTrainer_2", "SVRRegressorTrainer_7"]
        );
        assert_eq!(names(&any, 64.0)[0], "XgboostFitTrainer_2");
        assert_eq!(names(&any, 64.0)[3], "SVRRegressorTrainer_7", "its machine is unknown");
    }

    #[test]
    fn each_wish_narrows_the_list() {
        let of = |filter: PredictorFilter| names(&filter, 4.0).len();
        assert_eq!(of(PredictorFilter { source: Some(EnergySource::Acpi), ..PredictorFilter::default() }), 2);
        assert_eq!(
            of(PredictorFilter { trainer: Some("XgboostFitTrainer".into()), ..PredictorFilter::default() }),
            2
        );
        assert_eq!(
            of(PredictorFilter {
                node_type: Some(1),
                trainer: Some("XgboostFitTrainer".into()),
                ..PredictorFilter::default()
            }),
            1
        );
        assert_eq!(of(PredictorFilter { is_usable: Some(false), ..PredictorFilter::default() }), 1);
        assert_eq!(of(PredictorFilter { pipeline: Some("two".into()), ..PredictorFilter::default() }), 0);
        assert_eq!(
            of(PredictorFilter { output_type: Some(OutputType::DynPower), ..PredictorFilter::default() }),
            0
        );
        assert_eq!(
            of(PredictorFilter { group: Some(FeatureGroup::BpfOnly), ..PredictorFilter::default() }),
            4
        );
    }

    #[test]
    fn the_worst_component_comes_first_and_an_error_of_all_is_said_to_be_that() {
        let registry = registry();
        let here = MachineSpec::default();
        let all = list(&registry, &PredictorFilter::default(), &here);
        let of = |name: &str| all.iter().find(|predictor| predictor.model.full_name == name).unwrap();
        let components: Vec<_> =
            of("XgboostFitTrainer_2").errors.iter().map(|error| error.component).collect();
        assert_eq!(
            components,
            [Some(PowerComponent::Dram), Some(PowerComponent::Package), Some(PowerComponent::Core)]
        );
        assert_eq!(of("XgboostFitTrainer_2").worst(), Some(2.0));
        assert_eq!(of("SGDRegressorTrainer_1").errors[0].component, Some(PowerComponent::Platform));
        assert_eq!(of("SVRRegressorTrainer_7").errors[0].component, None);
    }
}
