//! The online trainer: trains on recent data from a node's Prometheus, and promotes a new predictor
//! only if it is better than the running one.
//!
//! One [`round`] takes a response and splits its rows by time. Candidates are trained on the older
//! rows, for every complete feature group and every trainer. The best candidate and the running
//! predictor are compared on the newer rows, which neither was trained on
//! ([`candidate_comparison`], by the rules of [`metier_predict::lifecycle`]). A candidate replaces
//! the running predictor if the error of its worst component is smaller by [`Settings::margin`]
//! ([`promote`]). The resulting pipeline has one predictor for each source and output type. Its
//! `metadata.json` records since when, why, and the time range of the training rows.
//!
//! Dynamic power is estimated per container and must add up. It is always a line through 0,
//! whichever trainers are configured.

mod candidate_comparison;
mod promote;

use std::path::{Path, PathBuf};
use std::time::Duration;

use metier_predict::lifecycle::{PredictorComparison, PromotionDecision, PromotionMargin};
use metier_types::UtcTimestamp;

pub use promote::{PredictorPromotion, promotions};

use crate::Error;
use crate::estimate::PowerEstimator;
use crate::formula::{FormulaKind, PowerFormula};
use crate::isolate::PowerIsolator;
use crate::kepler_terms::{EnergySource, OutputType, PowerTrainer};
use crate::response::KeplerResponse;
use crate::trainers::MIN_INTERVAL_ROWS;
use crate::training::{self, MeasuredMachine, PipelinePlan, PowerTable, PowerTables, TrainingKnowledge};
use crate::{extract, pipeline};

/// Fewest rows on which two predictors are compared.
pub const MIN_FRESH_ROWS: usize = 5;

/// Prefix of the folders in which candidates are trained.
const CANDIDATE_FOLDER_PREFIX: &str = ".candidates-";
/// Candidate folders older than this are abandoned.
const STALE_CANDIDATE_AGE: Duration = Duration::from_secs(3600);

/// Settings of the online trainer.
#[derive(Debug, Clone)]
pub struct OnlineSettings {
    pub name: String,
    /// The parent of the pipeline's folder.
    pub root: PathBuf,
    /// Trainers for power with idle; dynamic power is always a line through 0.
    pub trainers: Vec<PowerTrainer>,
    /// Method that removes idle and background power.
    pub isolator: PowerIsolator,
    /// Share of the newest rows used for comparison.
    pub fresh: f64,
    /// Relative improvement required for promotion.
    pub margin: f64,
    /// This machine, if fully known.
    pub machine: Option<MeasuredMachine>,
}

impl OnlineSettings {
    /// Defaults: trees and lines, the newest quarter for comparison, 2 % better.
    pub fn new(root: PathBuf) -> Self {
        Self {
            name: "online".to_string(),
            root,
            trainers: vec![PowerTrainer::Xgboost, PowerTrainer::Linear],
            isolator: PowerIsolator::Joint,
            fresh: 0.25,
            margin: 0.02,
            machine: None,
        }
    }
}

/// Error of a predictor on held-out rows: the worst component's mean absolute error in watts.
#[derive(Debug, Clone, PartialEq)]
pub struct FreshRowError {
    /// Pipeline, group and name.
    pub name: String,
    /// The error; `None` if the predictor could not be evaluated.
    pub error: Option<f64>,
}

/// Result for a source and output type.
#[derive(Debug, Clone, PartialEq)]
pub struct PromotionVerdict {
    /// Where energy was read.
    pub source: EnergySource,
    /// Whether idle power is included.
    pub output_type: OutputType,
    /// The decision.
    pub decision: PromotionDecision,
    /// Number of training rows.
    pub rows: usize,
    /// Number of comparison rows.
    pub fresh_rows: usize,
    /// The predictor that was running.
    pub running: Option<FreshRowError>,
    /// The best candidate.
    pub candidate: Option<FreshRowError>,
    pub because: String,
}

/// One round: trains on a response, compares and promotes. After a promotion the caller must reload
/// the estimator's pipelines.
pub fn round(
    response: &KeplerResponse,
    estimator: &PowerEstimator,
    settings: &OnlineSettings,
    now: UtcTimestamp,
) -> Result<Vec<PromotionVerdict>, Error> {
    let sources = extract::sources(response);
    if sources.is_empty() {
        return Err(Error::table("no kepler_node_…_joules_total of any source; is the exporter scraped?"));
    }
    let plan = PipelinePlan {
        isolator: settings.isolator,
        sources: sources.clone(),
        abs_trainers: settings.trainers.clone(),
        // Container power must add up to the node's dynamic power; neither trees nor a line with a
        // constant do that.
        dyn_trainers: vec![PowerTrainer::Linear],
        is_dyn_additive: true,
        // The measured node is in use, so training takes one core only.
        threads: 1,
        timing: extract::WattsTiming::Own,
        ..PipelinePlan::new(&settings.name, now)
    };
    remove_stale_candidates(&settings.root);
    let live = settings.root.join(&settings.name);
    let node_type = training::join(&live, settings.machine.as_ref())?;
    let tables = training::tables(response, TrainingKnowledge::default(), &plan, node_type)?;
    let mut verdicts = Vec::new();
    for source in sources {
        for output_type in OutputType::ALL {
            let of = |table: &&PowerTable| table.source == source && table.output_type == output_type;
            let own: Vec<&PowerTable> = tables.list.iter().filter(of).collect();
            if !own.is_empty() {
                verdicts.push(learn_source(source, output_type, &own, estimator, settings, &plan, now)?);
            }
        }
    }
    Ok(verdicts)
}

/// Removes candidate folders of processes that were killed.
fn remove_stale_candidates(root: &Path) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let is_aside = entry.file_name().to_string_lossy().starts_with(CANDIDATE_FOLDER_PREFIX);
        let written = entry.metadata().and_then(|about| about.modified()).ok();
        if is_aside && written.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > STALE_CANDIDATE_AGE) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn learn_source(
    source: EnergySource,
    output_type: OutputType,
    tables: &[&PowerTable],
    estimator: &PowerEstimator,
    settings: &OnlineSettings,
    plan: &PipelinePlan,
    now: UtcTimestamp,
) -> Result<PromotionVerdict, Error> {
    let live = settings.root.join(&settings.name);
    let cut = candidate_comparison::split_time(tables, settings.fresh);
    let running = running(tables, estimator, source, output_type);
    // An earlier predictor of this trainer may have been trained on these rows already.
    let seen = running.as_ref().filter(|(name, _)| name.starts_with(&format!("{}/", settings.name)));
    let seen = seen
        .and_then(|_| promotions(&live).get(&(source, output_type)).map(|promotion| promotion.learned_until));
    // Earlier versions promoted predictors that may not add up; they are replaced whatever their
    // error.
    let adds_up = |formula: &PowerFormula| matches!(formula.kind, FormulaKind::Linear { bias: 0.0, .. });
    let is_due = output_type == OutputType::DynPower
        && running.as_ref().is_some_and(|(name, formulas)| {
            name.starts_with(&format!("{}/", settings.name))
                && !formulas.iter().all(|(_, formula)| adds_up(formula))
        });
    let fresh_from = seen.map_or(cut, |seen| seen.max(cut));
    let mut verdict = PromotionVerdict {
        source,
        output_type,
        decision: PromotionDecision::TooFew,
        rows: 0,
        fresh_rows: 0,
        running: running.as_ref().map(|(name, _)| FreshRowError { name: name.clone(), error: None }),
        candidate: None,
        because: String::new(),
    };
    let learned: Vec<PowerTable> =
        tables.iter().map(|table| candidate_comparison::rows_until(table, cut)).collect();
    let fresh: Vec<PowerTable> =
        tables.iter().map(|table| candidate_comparison::rows_after(table, fresh_from)).collect();
    verdict.rows = learned.iter().map(|table| table.frame.len()).max().unwrap_or(0);
    verdict.fresh_rows = fresh.iter().map(|table| table.frame.len()).max().unwrap_or(0);
    if verdict.rows < MIN_INTERVAL_ROWS || verdict.fresh_rows < MIN_FRESH_ROWS {
        verdict.because = format!(
            "{} rows to learn from and {} fresh ones; want {MIN_INTERVAL_ROWS} and {MIN_FRESH_ROWS}",
            verdict.rows, verdict.fresh_rows
        );
        return Ok(verdict);
    }
    let aside = settings.root.join(format!("{CANDIDATE_FOLDER_PREFIX}{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&aside);
    let few = |table: &PowerTable| table.frame.len() >= MIN_INTERVAL_ROWS;
    let list = PowerTables { list: learned.into_iter().filter(few).collect(), ..PowerTables::default() };
    let trained = training::train_pipeline(&list, plan, &aside, &mut |_| std::ops::ControlFlow::Continue(()));
    let candidates = trained.and_then(|outcome| pipeline::load(&outcome.folder));
    let decided = candidates.and_then(|candidates| {
        let best = candidate_comparison::best(
            &candidates,
            &fresh,
            running.as_ref().map(|(_, formulas)| formulas.as_slice()),
        );
        let Some(best) = best else {
            verdict.because = "no candidate could be evaluated on the fresh rows".to_string();
            verdict.decision = PromotionDecision::Kept;
            return Ok(());
        };
        let PredictorComparison { incumbent, candidate, groups } = best.compared;
        verdict.fresh_rows = groups;
        let name = format!("{}/{}/{}", settings.name, best.model.group.name(), best.model.full_name);
        verdict.candidate = Some(FreshRowError { name, error: Some(candidate) });
        if let Some(running) = &mut verdict.running {
            running.error = incumbent;
        }
        verdict.because = match incumbent {
            Some(running) => format!("{candidate:.3} W against {running:.3} W on {groups} fresh rows"),
            None => {
                format!("{candidate:.3} W on {groups} fresh rows; no running predictor could be evaluated")
            }
        };
        verdict.decision = best.compared.decide(PromotionMargin::Demand(settings.margin));
        if is_due {
            verdict.because.push_str("; the running predictor does not add up over containers");
            verdict.decision = PromotionDecision::Promoted;
        }
        if verdict.decision == PromotionDecision::Promoted {
            let promotion = PredictorPromotion {
                predictor: best.model.full_name.clone(),
                group: best.model.group.name().to_string(),
                error: candidate,
                before: verdict.running.as_ref().map(|running| running.name.clone()),
                error_before: incumbent,
                learned_until: cut,
                promoted: now.to_string(),
            };
            promote::promote(&aside.join(&settings.name), &live, best.model, &promotion, plan)?;
        }
        Ok(())
    });
    let _ = std::fs::remove_dir_all(&aside);
    decided.map(|()| verdict)
}

/// The predictor that currently answers for all available metrics: its name and formulas.
fn running(
    tables: &[&PowerTable],
    estimator: &PowerEstimator,
    source: EnergySource,
    output_type: OutputType,
) -> Option<(String, candidate_comparison::ComponentFormulas)> {
    let mut metrics: Vec<&str> = tables.iter().flat_map(|table| table.group.features()).copied().collect();
    metrics.sort_unstable();
    metrics.dedup();
    let (about, formulas) = estimator.select_formulas(&metrics, output_type, source).ok()?;
    Some((format!("{}/{}/{}", about.pipeline, about.group, about.predictor), formulas))
}
