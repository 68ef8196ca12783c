//! Metrics of the Kepler-compatible services: predictors in use, their errors, and counts of
//! responses.

use std::sync::atomic::Ordering;

use metier_prom::{ExpositionFormat, MetricKind, MetricsPage, RenderedLabels};
use metier_types::LockUnpoisoned;

use super::model_server::ModelServerState;

pub fn render_page(models: &ModelServerState) -> String {
    let mut page = MetricsPage::new(ExpositionFormat::Text);
    let registry = models.shelf.registry();
    let mut family = page.begin_family(
        "metier_power_predictors",
        MetricKind::Gauge,
        "Predictors of each pipeline by source.",
    );
    for pipeline in &registry.pipelines {
        for source in pipeline.sources() {
            let count = pipeline.models.iter().filter(|model| model.source == source).count();
            let is_active = registry.active(source).is_some_and(|active| active.name == pipeline.name);
            let labels = RenderedLabels::default()
                .with_label("pipeline", &pipeline.name)
                .with_label("source", source.name())
                .with_label("active", if is_active { "true" } else { "false" });
            family.add_sample(&labels, count as f64);
        }
    }
    let mut family = page.begin_family(
        "metier_power_pipeline_fetched",
        MetricKind::Gauge,
        "Addresses of pipelines: 1 if the last fetch succeeded.",
    );
    for (address, fetched) in models.shelf.fetch_results() {
        let labels = RenderedLabels::default().with_label("address", &address);
        family.add_sample(&labels, if fetched.is_ok() { 1.0 } else { 0.0 });
    }
    if let Some((estimator, figures)) = &models.estimator {
        let mut family = page.begin_family(
            "metier_power_predictor_in_use",
            MetricKind::Gauge,
            "Predictors in use by the estimator: always 1.",
        );
        for predictor_in_use in estimator.in_use() {
            let labels = RenderedLabels::default()
                .with_label("pipeline", &predictor_in_use.pipeline)
                .with_label("predictor", &predictor_in_use.predictor)
                .with_label("feature_group", &predictor_in_use.group)
                .with_label("source", predictor_in_use.source.name())
                .with_label("output_type", predictor_in_use.output_type.name());
            family.add_sample(&labels, 1.0);
        }
        let mut family = page.begin_family(
            "metier_power_predictors_broken",
            MetricKind::Gauge,
            "Requested predictors that cannot be read.",
        );
        family.add_sample(&RenderedLabels::default(), estimator.broken().len() as f64);
        let mut family = page.begin_family(
            "metier_power_estimates_total",
            MetricKind::Counter,
            "Requests to the estimator, by outcome.",
        );
        for (outcome, count) in
            [("answered", &figures.answered), ("refused", &figures.refused), ("silent", &figures.silent)]
        {
            family.add_sample(
                &RenderedLabels::default().with_label("outcome", outcome),
                count.load(Ordering::Relaxed) as f64,
            );
        }
    }
    let mut family = page.begin_family(
        "metier_power_answers_total",
        MetricKind::Counter,
        "Responses of the model server, by class of status.",
    );
    for (class, count) in ["2xx", "4xx", "5xx"].iter().zip(&models.answers) {
        family.add_sample(
            &RenderedLabels::default().with_label("status", class),
            count.load(Ordering::Relaxed) as f64,
        );
    }
    let given = models.given.lock_unpoisoned();
    let mut family = page.begin_family(
        "metier_power_predictor_given_total",
        MetricKind::Counter,
        "How often each predictor was served to a client.",
    );
    for ([pipeline, predictor, source, output_type, form], count) in given.iter() {
        let labels = RenderedLabels::default()
            .with_label("pipeline", pipeline)
            .with_label("predictor", predictor)
            .with_label("source", source)
            .with_label("output_type", output_type)
            .with_label("form", form);
        family.add_sample(&labels, *count as f64);
    }
    drop(given);
    if let Some(online) = &models.online {
        online.write(&mut page);
    }
    page.finish()
}
