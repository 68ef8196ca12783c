//! Who is timing graphs on a device right now, so that nobody else learns meanwhile: that would disturb it.
//!
//! A mark in the store with the identity of the process, as runs have one: what a process that was killed leaves behind says nothing.

use metier_device::process_owner;
use metier_linux::Roots;
use metier_store::{Owner, Store, Trial};
use metier_types::Device;

use super::Error;

/// The kind of the trials that are such marks.
const KIND: &str = "latency-under-way";

/// The mark, for as long as it is held.
#[derive(Debug)]
pub struct UnderWay<'a> {
    store: &'a Store,
    device: &'a Device,
}

impl<'a> UnderWay<'a> {
    /// Says that this process times graphs on this device.
    pub fn begin(store: &'a Store, device: &'a Device) -> Result<Self, Error> {
        let own = process_owner::owner(&Roots::default(), device);
        let record = serde_json::to_string(&own)
            .map_err(|error| Error::Trial { name: "mark".into(), why: error.to_string() })?;
        let mut marks = others(store, device)?;
        marks.push(Trial { key: key(&own), record });
        replace(store, device, &marks)?;
        Ok(Self { store, device })
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let ended = others(self.store, self.device).and_then(|left| replace(self.store, self.device, &left));
        if let Err(error) = ended {
            // It is known to be gone when this process is.
            tracing::debug!(%error, "the mark of timing graphs stays");
        }
    }
}

/// Whether somebody who is still there times graphs on a device.
pub fn is_timing(store: &Store, device: &Device) -> Result<bool, Error> {
    let roots = Roots::default();
    let marks = store.trials(&device.id, KIND)?;
    Ok(marks.iter().filter_map(owner).any(|owner| process_owner::is_there(&roots, &owner)))
}

/// Marks of others that are still there.
fn others(store: &Store, device: &Device) -> Result<Vec<Trial>, Error> {
    let roots = Roots::default();
    let own = key(&process_owner::owner(&roots, device));
    let mut marks = store.trials(&device.id, KIND)?;
    marks.retain(|mark| {
        mark.key != own && owner(mark).is_some_and(|owner| process_owner::is_there(&roots, &owner))
    });
    Ok(marks)
}

fn replace(store: &Store, device: &Device, marks: &[Trial]) -> Result<(), Error> {
    store.remove_trials(&device.id, KIND)?;
    Ok(store.put_trials(&device.id, KIND, marks)?)
}

fn owner(mark: &Trial) -> Option<Owner> {
    serde_json::from_str(&mark.record).ok()
}

fn key(owner: &Owner) -> String {
    format!("{}-{}", owner.pid, owner.started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::runs::tests::Place;

    #[test]
    fn somebody_is_timing_for_as_long_as_the_mark_is_held_and_a_dead_one_says_nothing() {
        let place = Place::new();
        let (store, device) = (&place.store, &place.device);
        assert!(!is_timing(store, device).unwrap());
        let held = UnderWay::begin(store, device).unwrap();
        assert!(is_timing(store, device).unwrap());
        drop(held);
        assert!(!is_timing(store, device).unwrap());
        // One of an earlier boot, and one whose process id went to somebody else.
        let own = process_owner::owner(&Roots::default(), device);
        for gone in [Owner { boot: "before".into(), ..own.clone() }, Owner { started: 1, ..own }] {
            let record = serde_json::to_string(&gone).unwrap();
            store.put_trials(&device.id, KIND, &[Trial { key: "1".into(), record }]).unwrap();
            assert!(!is_timing(store, device).unwrap(), "{gone:?}");
        }
    }
}
