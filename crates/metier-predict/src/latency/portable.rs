//! Predictors as files that go from one device to another: the record and the file, in one.
//!
//! The file stands there as text, so that its digest, which is the predictor's id, stays what it was. What comes in is checked as what is in the
//! store is: a file that would not answer is not kept.

use metier_store::Store;
use metier_types::{Digest, Predictor, Standing};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::Error;
use super::learned::{self, File};
use super::memory;

/// The schema of such a file.
pub const SCHEMA: &str = "metier.predictor-file/1";
/// Largest file that is read.
pub const LARGEST: u64 = 256 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Portable {
    schema: String,
    /// What is known of it.
    record: Predictor,
    file: String,
}

/// A predictor as such a file.
pub fn export(store: &Store, id: &Digest) -> Result<Vec<u8>, Error> {
    let wrong = |why: &str| Error::Predictor { id: id.to_string(), why: why.to_string() };
    let record = store.predictor(id)?.ok_or_else(|| wrong("it is not there"))?;
    let bytes = store.predictor_file(id)?.ok_or_else(|| wrong("its file is not there"))?;
    let file = String::from_utf8(bytes).map_err(|_| wrong("its file is no text"))?;
    let mut text = serde_json::to_vec(&Portable { schema: SCHEMA.to_string(), record, file })
        .map_err(|error| wrong(&error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

/// Takes such a file. The newer one of a device and runtime answers; the other is kept aside, and its record says why.
pub fn import(store: &Store, bytes: &[u8]) -> Result<Predictor, Error> {
    let refused = |why: String| Error::Portable { why };
    let Portable { schema, mut record, file } =
        serde_json::from_slice(bytes).map_err(|error| refused(format!("it is no {SCHEMA}: {error}")))?;
    if schema != SCHEMA {
        return Err(refused(format!("its schema is {schema:?}; want {SCHEMA:?}")));
    }
    let digest = Digest::from_bytes(Sha256::digest(file.as_bytes()).into());
    if digest != record.id {
        return Err(refused(format!(
            "its file was changed: it is {digest} and its record says {}",
            record.id
        )));
    }
    let broken = |error: Error| match error {
        Error::Predictor { why, .. } => refused(why),
        other => other,
    };
    let (device, runtime) = match record.kind.as_str() {
        learned::KIND => {
            let file = File::read(&record.id, file.as_bytes()).map_err(broken)?;
            (file.device, file.law.runtime)
        }
        memory::KIND => {
            let law = memory::Law::read(&record.id, file.as_bytes()).map_err(broken)?;
            (law.device, law.runtime)
        }
        other => {
            let want = format!("{:?} or {:?}", learned::KIND, memory::KIND);
            return Err(refused(format!("its kind is {other:?}; want {want}")));
        }
    };
    if record.device.as_ref().is_none_or(|said| said.id != device.id) {
        return Err(refused(format!("its record is not of {}, where its file was learned", device.id)));
    }
    record.extra.insert("runtime".into(), runtime.clone().into());
    let is_rival = |one: &Predictor| {
        one.id != record.id
            && one.standing == Standing::InUse
            && one.device.as_ref().is_some_and(|of| of.id == device.id)
            && one.extra.get("runtime").and_then(|name| name.as_str()) == Some(runtime.as_str())
    };
    let rival = store.predictors(Some(&record.kind))?.into_iter().find(is_rival);
    record.standing = match &rival {
        Some(rival) if rival.made > record.made => Standing::Passed,
        _ => Standing::InUse,
    };
    store.put_predictor(&record, file.as_bytes())?;
    if let Some(mut rival) = rival.filter(|_| record.standing == Standing::InUse) {
        rival.standing = Standing::Passed;
        store.update_predictor(&rival)?;
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::conditions::RTEN;
    use crate::latency::fit;
    use crate::latency::runs::tests::Place;

    #[test]
    fn a_predictor_goes_to_another_store_and_answers_there_and_a_broken_one_is_refused() {
        let (from, to) = (Place::new(), Place::new());
        from.trials(0..8);
        let learned = fit::fit(&from.store, &from.device, None, RTEN).unwrap().record;
        let bytes = export(&from.store, &learned.id).unwrap();
        let taken = import(&to.store, &bytes).unwrap();
        assert_eq!((taken.id, taken.standing), (learned.id, Standing::InUse));
        let file = to.store.predictor_file(&learned.id).unwrap();
        assert_eq!(file, from.store.predictor_file(&learned.id).unwrap());
        // Once more changes nothing; a newer one passes it.
        assert_eq!(import(&to.store, &bytes).unwrap().id, taken.id);
        from.trials(8..12);
        let newer = fit::fit(&from.store, &from.device, None, RTEN).unwrap().record;
        import(&to.store, &export(&from.store, &newer.id).unwrap()).unwrap();
        let standing = |id| to.store.predictor(id).unwrap().unwrap().standing;
        assert_eq!((standing(&newer.id), standing(&taken.id)), (Standing::InUse, Standing::Passed));

        let text = String::from_utf8(bytes).unwrap();
        for (from, into, says) in [
            ("metier.predictor-file/1", "metier.predictor-file/9", "schema"),
            ("\"kind\":\"latency\"", "\"kind\":\"soup\"", "\"soup\""),
            ("cores\\\":2", "cores\\\":3", "was changed"),
            ("\"record\"", "\"recorded\"", "record"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = import(&to.store, text.replacen(from, into, 1).as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
