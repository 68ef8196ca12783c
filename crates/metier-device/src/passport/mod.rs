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

/// Passports that answer: the stored ones as they were read, and the shipped ones.
#[derive(Debug, Clone, Default)]
pub struct PassportCatalog {
    /// Measured before specified, newest first: of two with the same name the better one is found.
    stored: Vec<Passport>,
}

impl PassportCatalog {
    /// Reads those of a store. A store that cannot be read is as good as none, and that is logged.
    pub fn read(store: Option<&Store>) -> Self {
        let stored = store.map_or_else(Vec::new, |store| {
            store.passports().unwrap_or_else(|error| {
                tracing::warn!(%error, "the store's passports cannot be read; only shipped ones are known");
                Vec::new()
            })
        });
        Self::of(stored)
    }

    /// With these in place of a store's.
    pub fn of(mut stored: Vec<Passport>) -> Self {
        stored
            .sort_by_key(|passport| (passport.origin != Origin::Measured, std::cmp::Reverse(passport.made)));
        Self { stored }
    }

    /// The passport of a device by what people, exporters or firmware call it: of the stored ones
    /// by id, name or alias, then of the shipped ones. Compared without case and punctuation; then
    /// also without what firmware adds (`Rev 1.4`, `Developer Kit`, `4GB`).
    pub fn find(&self, name: &str) -> Option<&Passport> {
        pick(&self.stored, name, name::key)
            .or_else(|| pick(shipped(), name, name::key))
            .or_else(|| pick(&self.stored, name, name::reduced))
            .or_else(|| pick(shipped(), name, name::reduced))
    }

    /// The passport that says most about a device: its own, else that of its product, else that of
    /// its processor.
    pub fn of_device(&self, device: &Device) -> Option<&Passport> {
        if let Some(own) = self.stored.iter().find(|passport| passport.id == device.id.as_str()) {
            return Some(own);
        }
        let product = device.product.as_deref().and_then(|product| self.find(product));
        product.or_else(|| device.cpu.model.as_deref().and_then(|model| self.find(model)))
    }

    /// All: the stored ones, then the shipped ones that no stored one has the id of.
    pub fn all(&self) -> impl Iterator<Item = &Passport> {
        let is_new = |shipped: &&Passport| self.stored.iter().all(|stored| stored.id != shipped.id);
        self.stored.iter().chain(shipped().iter().filter(is_new))
    }
}

/// [`PassportCatalog::find`] in a store as it is now.
pub fn find(store: Option<&Store>, name: &str) -> Option<Passport> {
    PassportCatalog::read(store).find(name).cloned()
}

/// [`PassportCatalog::of_device`] in a store as it is now.
pub fn of_device(store: Option<&Store>, device: &Device) -> Option<Passport> {
    PassportCatalog::read(store).of_device(device).cloned()
}

/// [`PassportCatalog::all`] of a store as it is now.
pub fn all(store: Option<&Store>) -> Vec<Passport> {
    PassportCatalog::read(store).all().cloned().collect()
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
