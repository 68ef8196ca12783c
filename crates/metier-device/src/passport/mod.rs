//! Device passports: the performance capabilities of a device.
//!
//! A passport is measured by micro-benchmarks ([`mod@bench`]), imported from a file, or shipped
//! with metier from public specifications ([`shipped`]). [`find`] prefers stored passports to
//! shipped ones, so that a measured board is never rated by its data sheet.

pub mod bench;
mod name;
mod read;
mod shape;
pub mod shipped;

use metier_store::Store;
use metier_types::{Device, Origin, Passport};

pub use bench::{Plan, bench};
pub use read::{Fault, LARGEST, read};
pub use shipped::shipped;

/// Finds a passport by the name that people, exporters or firmware use for a device. Searches id,
/// name and alias of the stored passports, then of the shipped ones. Names are compared without
/// case and punctuation, then also without additions of firmware (`Rev 1.4`, `Developer Kit`,
/// `4GB`). An unreadable store is logged and treated as empty.
pub fn find(store: Option<&Store>, name: &str) -> Option<Passport> {
    let stored = stored(store);
    pick(&stored, name, name::key)
        .or_else(|| pick(shipped(), name, name::key))
        .or_else(|| pick(&stored, name, name::reduced))
        .or_else(|| pick(shipped(), name, name::reduced))
        .cloned()
}

/// Finds the most specific passport for a device: its own, else its product's, else its
/// processor's.
pub fn of_device(store: Option<&Store>, device: &Device) -> Option<Passport> {
    if let Some(own) = stored(store).into_iter().find(|passport| passport.id == device.id.as_str()) {
        return Some(own);
    }
    let product = device.product.as_deref().and_then(|product| find(store, product));
    product.or_else(|| device.cpu.model.as_deref().and_then(|model| find(store, model)))
}

/// All passports: stored ones, measured before specified, then shipped ones with other ids.
pub fn all(store: Option<&Store>) -> Vec<Passport> {
    let mut all = stored(store);
    let more: Vec<Passport> = shipped()
        .iter()
        .filter(|shipped| all.iter().all(|stored| stored.id != shipped.id))
        .cloned()
        .collect();
    all.extend(more);
    all
}

/// Finds a passport in a list by name, compared as in [`find`]; the first match wins.
pub fn among<'a>(passports: &'a [Passport], name: &str) -> Option<&'a Passport> {
    pick(passports, name, name::key).or_else(|| pick(passports, name, name::reduced))
}

/// Stored passports, measured before specified, newest first, so that the better of two with one
/// name is found.
fn stored(store: Option<&Store>) -> Vec<Passport> {
    let mut stored = store.map_or_else(Vec::new, |store| {
        store.passports().unwrap_or_else(|error| {
            tracing::warn!(%error, "the store's passports cannot be read; only shipped ones are available");
            Vec::new()
        })
    });
    stored.sort_by_key(|passport| (passport.origin != Origin::Measured, std::cmp::Reverse(passport.made)));
    stored
}

/// The first passport that matches the name; ids take precedence over names, and names over
/// aliases.
fn pick<'a>(passports: &'a [Passport], name: &str, key: fn(&str) -> String) -> Option<&'a Passport> {
    let wanted = key(name);
    if wanted.is_empty() {
        return None;
    }
    let by = |is: &dyn Fn(&Passport) -> bool| passports.iter().find(|passport| is(passport));
    by(&|passport| key(&passport.id) == wanted)
        .or_else(|| by(&|passport| key(&passport.name) == wanted))
        .or_else(|| by(&|passport| passport.aliases.iter().any(|alias| key(alias) == wanted)))
}

#[cfg(test)]
mod tests;
