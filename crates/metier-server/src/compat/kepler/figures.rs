//! What Prometheus is told about the doors of Kepler: which predictor is in use, how good it is, and what was answered.

use std::sync::atomic::Ordering;

use metier_prom::{Format, Kind, Labels, Page};
use metier_types::LockUnpoisoned;

use super::models::Models;

pub fn page(models: &Models) -> String {
    let mut page = Page::new(Format::Text);
    let registry = models.shelf.registry();
    let mut family =
        page.family("metier_power_predictors", Kind::Gauge, "Predictors of each pipeline by source.");
    for pipeline in &registry.pipelines {
        for source in pipeline.sources() {
            let count = pipeline.models.iter().filter(|model| model.source == source).count();
            let is_active = registry.active(source).is_some_and(|active| active.name == pipeline.name);
            let labels = Labels::default()
                .and("pipeline", &pipeline.name)
                .and("source", source.name())
                .and("active", if is_active { "true" } else { "false" });
            family.sample(&labels, count as f64);
        }
    }
    let mut family = page.family(
        "metier_power_pipeline_fetched",
        Kind::Gauge,
        "Addresses of pipelines: 1 where the last try to fetch one succeeded.",
    );
    for (address, fetched) in models.shelf.fetched() {
        let labels = Labels::default().and("address", &address);
        family.sample(&labels, if fetched.is_ok() { 1.0 } else { 0.0 });
    }
    if let Some((estimator, figures)) = &models.estimator {
        let mut family = page.family(
            "metier_power_predictor_in_use",
            Kind::Gauge,
            "Predictors that the estimator answers with: always 1.",
        );
        for one in estimator.in_use() {
            let labels = Labels::default()
                .and("pipeline", &one.pipeline)
                .and("predictor", &one.predictor)
                .and("feature_group", &one.group)
                .and("source", one.source.name())
                .and("output_type", one.output_type.name());
            family.sample(&labels, 1.0);
        }
        let mut family = page.family(
            "metier_power_predictors_broken",
            Kind::Gauge,
            "Predictors that a request wanted and that cannot be read.",
        );
        family.sample(&Labels::default(), estimator.broken().len() as f64);
        let mut family = page.family(
            "metier_power_estimates_total",
            Kind::Counter,
            "Requests to the estimator, by outcome.",
        );
        for (outcome, count) in
            [("answered", &figures.answered), ("refused", &figures.refused), ("silent", &figures.silent)]
        {
            family.sample(&Labels::default().and("outcome", outcome), count.load(Ordering::Relaxed) as f64);
        }
    }
    let mut family = page.family(
        "metier_power_answers_total",
        Kind::Counter,
        "Answers of the model server, by class of status.",
    );
    for (class, count) in ["2xx", "4xx", "5xx"].iter().zip(&models.answers) {
        family.sample(&Labels::default().and("status", class), count.load(Ordering::Relaxed) as f64);
    }
    let given = models.given.lock_unpoisoned();
    let mut family = page.family(
        "metier_power_predictor_given_total",
        Kind::Counter,
        "How often each predictor was given to a client.",
    );
    for ([pipeline, predictor, source, output_type, form], count) in given.iter() {
        let labels = Labels::default()
            .and("pipeline", pipeline)
            .and("predictor", predictor)
            .and("source", source)
            .and("output_type", output_type)
            .and("form", form);
        family.sample(&labels, *count as f64);
    }
    drop(given);
    if let Some(online) = &models.online {
        online.write(&mut page);
    }
    page.finish()
}
