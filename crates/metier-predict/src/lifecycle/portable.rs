//! Exports and imports predictors between hosts: the record and the predictor's file in one file.
//!
//! The inner file is stored as text, or as base64 if it is binary. So its digest, which is the
//! predictor's id, stays equal. An import is checked like a file of the store; an unusable
//! predictor is rejected.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use metier_store::{RecordStore, digest};
use metier_types::{ContentDigest, Predictor};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::standing::install_imported;
use super::{LifecycleError, PredictorKind, kind_named};

/// Schema of the export file.
pub const SCHEMA: &str = "metier.predictor-file/1";
/// Largest file that is read: the store's limit in base64.
pub const MAX_PORTABLE_BYTES: u64 = (256 << 20) / 3 * 4 + (1 << 20);

#[derive(Debug, Serialize, Deserialize)]
struct PortablePredictor {
    schema: String,
    record: Predictor,
    /// Encoding of `file`; text if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    file: String,
}

/// Exports a predictor.
pub fn export(store: &RecordStore, id: &ContentDigest) -> Result<Vec<u8>, LifecycleError> {
    let (record, bytes) = find(store, id)?;
    let (encoding, file) = match String::from_utf8(bytes) {
        Ok(text) => (None, text),
        Err(error) => (Some("base64".to_string()), BASE64.encode(error.as_bytes())),
    };
    let portable = PortablePredictor { schema: SCHEMA.to_string(), record, encoding, file };
    let mut text = serde_json::to_vec(&portable).map_err(|error| LifecycleError::unusable(id, error))?;
    text.push(b'\n');
    Ok(text)
}

/// A predictor's record and file.
pub fn find(store: &RecordStore, id: &ContentDigest) -> Result<(Predictor, Vec<u8>), LifecycleError> {
    let record = store.predictor(id)?.ok_or_else(|| LifecycleError::unusable(id, "it is not there"))?;
    let file =
        store.predictor_file(id)?.ok_or_else(|| LifecycleError::unusable(id, "its file is not there"))?;
    Ok((record, file))
}

/// Imports an export file. The newer predictor of a scope answers; the other is superseded, and its
/// record has the reason.
pub fn import(
    store: &RecordStore,
    kinds: &[&dyn PredictorKind],
    bytes: &[u8],
) -> Result<Predictor, LifecycleError> {
    let refused = |why: String| LifecycleError::Refused { why };
    let PortablePredictor { schema, mut record, encoding, file } =
        serde_json::from_slice(bytes).map_err(|error| refused(format!("it is no {SCHEMA}: {error}")))?;
    if schema != SCHEMA {
        return Err(refused(format!("its schema is {schema:?}; want {SCHEMA:?}")));
    }
    let file = match encoding.as_deref() {
        None => file.into_bytes(),
        Some("base64") => BASE64.decode(file).map_err(|error| refused(format!("its file: {error}")))?,
        Some(other) => return Err(refused(format!("its encoding is {other:?}; want \"base64\" or none"))),
    };
    let found = digest::digest_bytes(&file);
    if found != record.id {
        return Err(refused(format!(
            "its file was changed: it is {found} and its record says {}",
            record.id
        )));
    }
    let Some(kind) = kind_named(kinds, &record.kind) else {
        let names: Vec<String> = kinds.iter().map(|kind| format!("{:?}", kind.name())).collect();
        return Err(refused(format!("its kind is {:?}; want {}", record.kind, names.join(" or "))));
    };
    let of_file = kind.check(&record.id, &file).map_err(|error| match error {
        LifecycleError::Unusable { why, .. } => refused(why),
        other => other,
    })?;
    if let Some(device) = of_file.device
        && record.device.as_ref().is_none_or(|device_ref| device_ref.id != device.id)
    {
        return Err(refused(format!("its record is not of {}, where its file was learned", device.id)));
    }
    record.extra.insert(kind.variant_field().into(), json!(of_file.variant));
    install_imported(store, &mut record, &file)?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_types::PredictorStanding;

    use crate::latency::conditions::RTEN;
    use crate::latency::run_trials::tests::Place;
    use crate::latency::{KINDS, fit};

    #[test]
    fn a_predictor_goes_to_another_store_and_answers_there_and_a_broken_one_is_refused() {
        let (from, to) = (Place::new(), Place::new());
        from.trials(0..8);
        let learned = fit::fit(&from.store, &from.device, None, RTEN).unwrap().record;
        let bytes = export(&from.store, &learned.id).unwrap();
        let taken = import(&to.store, &KINDS, &bytes).unwrap();
        assert_eq!((taken.id, taken.standing), (learned.id, PredictorStanding::InUse));
        let file = to.store.predictor_file(&learned.id).unwrap();
        assert_eq!(file, from.store.predictor_file(&learned.id).unwrap());
        // A second import changes nothing; a newer predictor supersedes it.
        assert_eq!(import(&to.store, &KINDS, &bytes).unwrap().id, taken.id);
        from.trials(8..12);
        let newer = fit::fit(&from.store, &from.device, None, RTEN).unwrap().record;
        import(&to.store, &KINDS, &export(&from.store, &newer.id).unwrap()).unwrap();
        let standing = |id| to.store.predictor(id).unwrap().unwrap().standing;
        assert_eq!(
            (standing(&newer.id), standing(&taken.id)),
            (PredictorStanding::InUse, PredictorStanding::Passed)
        );

        let text = String::from_utf8(bytes).unwrap();
        for (from, into, says) in [
            ("metier.predictor-file/1", "metier.predictor-file/9", "schema"),
            ("\"kind\":\"latency\"", "\"kind\":\"soup\"", "\"soup\""),
            ("cores\\\":2", "cores\\\":3", "was changed"),
            ("\"record\"", "\"recorded\"", "record"),
        ] {
            assert!(text.contains(from), "{from}");
            let error =
                import(&to.store, &KINDS, text.replacen(from, into, 1).as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
