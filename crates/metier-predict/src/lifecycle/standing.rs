//! Standing of predictors: promotion, demotion, roll-back, the successor of a removed predictor,
//! and the number of stored predictors.
//!
//! The standing is in the predictor's record, with its reason (`because`).

use metier_store::RecordStore;
use metier_types::{ContentDigest, DeviceId, Predictor, PredictorStanding};
use serde_json::json;

use super::{LifecycleError, PredictorKind, kind_named};

/// Superseded predictors stored per scope, for roll-back.
pub const MAX_ASIDE: usize = 4;
/// Record field with the reason of the standing.
const BECAUSE: &str = "because";
/// Prefix of the reason if a predictor lost against a baseline.
const UNFIT_PREFIX: &str = "it is no better than";
/// Record fields that separate predictors of one device ([`PredictorKind::variant_field`]).
const VARIANT_FIELDS: [&str; 2] = ["runtime", "pipeline"];

/// What a predictor answers for. At most one predictor of each scope is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictorScope {
    pub kind: String,
    /// Device of the training data.
    pub device: Option<DeviceId>,
    /// Runtime or pipeline.
    pub variant: Option<String>,
}

impl PredictorScope {
    /// The scope of a runtime or pipeline on a device.
    pub fn new(kind: &str, device: Option<&DeviceId>, variant: &str) -> Self {
        Self { kind: kind.to_string(), device: device.cloned(), variant: Some(variant.to_string()) }
    }

    /// The scope of a predictor.
    pub fn of(record: &Predictor) -> Self {
        let text = |field: &&str| Some(record.extra.get(*field)?.as_str()?.to_string());
        Self {
            kind: record.kind.clone(),
            device: record.device.as_ref().map(|device| device.id.clone()),
            variant: VARIANT_FIELDS.iter().find_map(text),
        }
    }

    /// All predictors of the scope, newest first.
    pub fn predictors(&self, store: &RecordStore) -> Result<Vec<Predictor>, LifecycleError> {
        let mut all = store.predictors(Some(&self.kind))?;
        all.retain(|predictor| Self::of(predictor) == *self);
        Ok(all)
    }

    /// The predictor in use.
    pub fn in_use(&self, store: &RecordStore) -> Result<Option<Predictor>, LifecycleError> {
        Ok(self
            .predictors(store)?
            .into_iter()
            .find(|predictor| predictor.standing == PredictorStanding::InUse))
    }

    /// Demotes all other predictors of the scope.
    pub fn demote_others(
        &self,
        store: &RecordStore,
        id: &ContentDigest,
        because: &str,
    ) -> Result<(), LifecycleError> {
        for mut old in self.predictors(store)? {
            if old.id != *id && old.standing == PredictorStanding::InUse {
                set_standing(&mut old, PredictorStanding::Passed, because);
                store.update_predictor(&old)?;
            }
        }
        Ok(())
    }

    /// Removes the oldest superseded predictors, since hourly retraining would fill the store.
    pub fn prune(&self, store: &RecordStore) -> Result<(), LifecycleError> {
        let all = self.predictors(store)?;
        for old in
            all.iter().filter(|predictor| predictor.standing == PredictorStanding::Passed).skip(MAX_ASIDE)
        {
            store.remove_predictor(&old.id)?;
        }
        Ok(())
    }
}

/// Reads the files of all predictors of a kind in use. An unusable one is logged and skipped; a
/// baseline still answers.
pub fn read_in_use<T>(
    store: &RecordStore,
    kind: &str,
    read: impl Fn(&ContentDigest, &[u8]) -> Result<T, LifecycleError>,
) -> Result<Vec<(ContentDigest, T)>, LifecycleError> {
    let mut all = Vec::new();
    for record in store
        .predictors(Some(kind))?
        .iter()
        .filter(|predictor| predictor.standing == PredictorStanding::InUse)
    {
        let Some(bytes) = store.predictor_file(&record.id)? else { continue };
        match read(&record.id, &bytes) {
            Ok(file) => all.push((record.id, file)),
            Err(error) => tracing::warn!(%error, "a predictor is left out"),
        }
    }
    Ok(all)
}

/// Records a predictor. If it is in use, it supersedes the previous one, which its record states.
pub fn install(
    store: &RecordStore,
    record: &Predictor,
    file: &[u8],
    because: &str,
) -> Result<(), LifecycleError> {
    store.put_predictor(record, file)?;
    if record.standing == PredictorStanding::InUse {
        PredictorScope::of(record).demote_others(store, &record.id, because)?;
    }
    Ok(())
}

/// Records an imported predictor: the newer one of a scope answers.
pub fn install_imported(
    store: &RecordStore,
    record: &mut Predictor,
    file: &[u8],
) -> Result<(), LifecycleError> {
    let rival = PredictorScope::of(record).in_use(store)?.filter(|rival| rival.id != record.id);
    record.standing = match &rival {
        Some(rival) if rival.made > record.made => PredictorStanding::Passed,
        _ => PredictorStanding::InUse,
    };
    install(store, record, file, &format!("{} was imported and is newer", record.id))
}

/// Promotes a stored predictor by hand, also for roll-back.
pub fn put_in_use(store: &RecordStore, mut record: Predictor) -> Result<Predictor, LifecycleError> {
    let scope = PredictorScope::of(&record);
    set_standing(&mut record, PredictorStanding::InUse, "it was put in use by hand");
    store.update_predictor(&record)?;
    scope.demote_others(store, &record.id, &format!("{} was put in use by hand", record.id))?;
    Ok(record)
}

/// Removes a predictor. If it was in use, its [`successor`] is promoted and returned.
pub fn remove(
    store: &RecordStore,
    kinds: &[&dyn PredictorKind],
    gone: &Predictor,
) -> Result<Option<Predictor>, LifecycleError> {
    store.remove_predictor(&gone.id)?;
    if gone.standing != PredictorStanding::InUse {
        return Ok(None);
    }
    let baselines = kind_named(kinds, &gone.kind).map_or(&[][..], PredictorKind::baselines);
    let others = PredictorScope::of(gone).predictors(store)?;
    let Some(heir) = successor(&others, gone, baselines) else { return Ok(None) };
    let heir = Predictor { standing: PredictorStanding::InUse, ..heir.clone() };
    store.update_predictor(&heir)?;
    Ok(Some(heir))
}

/// The predictor that replaces a removed one: the superseded predictor of the same scope with the
/// smallest held-out error; without errors, the newest. Predictors that lost against a baseline are
/// excluded. `all` is sorted newest first.
pub fn successor<'a>(
    all: &'a [Predictor],
    gone: &Predictor,
    baselines: &[&'static str],
) -> Option<&'a Predictor> {
    let scope = PredictorScope::of(gone);
    let is_alike = |predictor: &&Predictor| {
        predictor.id != gone.id
            && predictor.standing == PredictorStanding::Passed
            && PredictorScope::of(predictor) == scope
    };
    let error = |candidate: &Predictor| {
        let value = candidate.held_out.first().and_then(|held| held.extra.get("mean_log_error")?.as_f64());
        value.unwrap_or(f64::INFINITY)
    };
    let is_fit = |candidate: &&Predictor| {
        reason(candidate).is_none_or(|why| !why.starts_with(UNFIT_PREFIX))
            && lost_against(candidate, baselines).is_none()
    };
    // Among equals the first wins, which is the newest.
    all.iter().filter(is_alike).filter(is_fit).min_by(|a, b| error(a).total_cmp(&error(b)))
}

/// The baseline that is at least as good as a predictor on its held-out data.
pub fn lost_against(record: &Predictor, baselines: &[&'static str]) -> Option<&'static str> {
    let held = record.held_out.first()?;
    let own = held.mean_absolute_error_ratio?.get();
    baselines.iter().copied().find(|name| held.baselines.get(*name).is_some_and(|trivial| own >= *trivial))
}

/// The reason for a loss against a baseline; [`successor`] recognises its prefix.
pub fn unfit_because(baseline: &str) -> String {
    format!("{UNFIT_PREFIX} {baseline}, so it does not answer; more graphs would help")
}

/// The reason for a predictor's standing.
pub fn reason(record: &Predictor) -> Option<&str> {
    record.extra.get(BECAUSE)?.as_str()
}

/// Sets a standing with its reason.
pub fn set_standing(record: &mut Predictor, standing: PredictorStanding, because: &str) {
    record.standing = standing;
    record.extra.insert(BECAUSE.into(), json!(because));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A superseded predictor with held-out errors: on the logarithm, its own, and the baseline's.
    fn aside(number: u8, log: Option<f64>, own: f64, trivial: f64, because: &str) -> Predictor {
        let mut record: Predictor = serde_json::from_value(json!({
            "schema": "metier.predictor/1", "id": ContentDigest::from_bytes([number; 32]), "kind": "latency",
            "name": "rten on bench", "device": { "id": "device-1", "name": "bench" }, "standing": "passed",
            "made": "2026-01-01T00:00:00Z", "provenance": "a test", "rows": 8, "runs": [],
            "held_out": [{
                "target": "latency", "unit": "seconds", "held_out": "graphs", "rows": 8, "groups": 8,
                "mean_absolute_error": 0.001, "mean_absolute_error_ratio": own,
                "baselines": { "multiply-adds \u{d7} constant": trivial }, "mean_log_error": log
            }],
            "runtime": "rten", "because": because
        }))
        .unwrap();
        if log.is_none() {
            record.held_out[0].extra.remove("mean_log_error");
        }
        record
    }

    #[test]
    fn the_successor_has_the_smallest_error_and_never_lost_against_a_trivial_answer() {
        let gone = Predictor { standing: PredictorStanding::InUse, ..aside(9, Some(0.2), 0.2, 0.9, "") };
        let (unfit, worse) = (unfit_because("multiply-adds \u{d7} a constant"), "it is kept aside");
        let newest = aside(1, Some(0.01), 0.1, 0.9, &unfit);
        let by_figures = aside(2, Some(0.02), 0.9, 0.9, worse);
        let (poor, good) = (aside(3, Some(0.5), 0.5, 0.9, worse), aside(4, Some(0.3), 0.3, 0.9, worse));
        let untold = [aside(5, None, 0.1, 0.9, worse), aside(6, None, 0.1, 0.9, worse)];
        let mut elsewhere = aside(7, Some(0.0), 0.0, 0.9, worse);
        elsewhere.extra.insert("runtime".into(), json!("onnxruntime"));
        let in_use = Predictor { standing: PredictorStanding::InUse, ..aside(8, Some(0.0), 0.0, 0.9, "") };
        let all = [newest, by_figures, elsewhere, in_use, poor, untold[0].clone(), untold[1].clone(), good];
        let id = |all: &[Predictor]| {
            successor(all, &gone, &["multiply-adds \u{d7} constant"]).map(|predictor| predictor.id)
        };
        assert_eq!(id(&all), Some(ContentDigest::from_bytes([4; 32])), "the smallest error");
        assert_eq!(id(&all[..7]), Some(ContentDigest::from_bytes([3; 32])));
        assert_eq!(
            id(&untold),
            Some(ContentDigest::from_bytes([5; 32])),
            "the newest where none tells its error"
        );
        assert_eq!(id(&all[..4]), None, "nothing is better than what was judged unfit");
    }
}
