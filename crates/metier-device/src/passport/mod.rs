//! Device passports: the performance capabilities of a device.
//!
//! A passport is measured by micro-benchmarks ([`mod@bench`]), imported from a file, or shipped
//! with metier from public specifications ([`shipped_passports`]). [`find_passport`] prefers stored
//! passports to shipped ones, so that a measured board is never rated by its data sheet.

pub mod bench;
mod name_match;
mod passport_reader;
mod schema_check;
pub mod shipped;

use metier_store::RecordStore;
use metier_types::{Device, Passport, PassportOrigin};

pub use bench::{PassportBenchPlan, measure_passport, measure_quick_passport};
pub use passport_reader::{MAX_PASSPORT_BYTES, PassportFault, parse_passport};
pub use shipped::shipped_passports;

/// Passports that answer: the stored ones as they were read, and the shipped ones.
#[derive(Debug, Clone, Default)]
pub struct PassportCatalog {
    /// Measured before specified, newest first: of two with the same name the better one is found.
    stored: Vec<Passport>,
}

impl PassportCatalog {
    /// Reads those of a store. A store that cannot be read is as good as none, and that is logged.
    pub fn read(store: Option<&RecordStore>) -> Self {
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
        stored.sort_by_key(|passport| {
            (passport.origin != PassportOrigin::Measured, std::cmp::Reverse(passport.made))
        });
        Self { stored }
    }

    /// The passport of a device by what people, exporters or firmware call it: of the stored ones
    /// by id, name or alias, then of the shipped ones. Compared without case and punctuation; then
    /// also without what firmware adds (`Rev 1.4`, `Developer Kit`, `4GB`).
    pub fn find_passport(&self, name: &str) -> Option<&Passport> {
        find_by_key(&self.stored, name, name_match::name_key)
            .or_else(|| find_by_key(shipped_passports(), name, name_match::name_key))
            .or_else(|| find_by_key(&self.stored, name, name_match::reduced_name_key))
            .or_else(|| find_by_key(shipped_passports(), name, name_match::reduced_name_key))
    }

    /// The passport that says most about a device: its own, else that of its product, else that of
    /// its processor.
    pub fn find_for_device(&self, device: &Device) -> Option<&Passport> {
        if let Some(own) = self.stored.iter().find(|passport| passport.id == device.id.as_str()) {
            return Some(own);
        }
        let product = device.product.as_deref().and_then(|product| self.find_passport(product));
        product.or_else(|| device.cpu.model.as_deref().and_then(|model| self.find_passport(model)))
    }

    /// All: the stored ones, then the shipped ones that no stored one has the id of.
    pub fn list_passports(&self) -> impl Iterator<Item = &Passport> {
        let is_new = |shipped: &&Passport| self.stored.iter().all(|stored| stored.id != shipped.id);
        self.stored.iter().chain(shipped_passports().iter().filter(is_new))
    }
}

/// [`PassportCatalog::find_passport`] in a store as it is now.
pub fn find_passport(store: Option<&RecordStore>, name: &str) -> Option<Passport> {
    PassportCatalog::read(store).find_passport(name).cloned()
}

/// [`PassportCatalog::find_for_device`] in a store as it is now.
pub fn find_for_device(store: Option<&RecordStore>, device: &Device) -> Option<Passport> {
    PassportCatalog::read(store).find_for_device(device).cloned()
}

/// [`PassportCatalog::list_passports`] of a store as it is now.
pub fn list_passports(store: Option<&RecordStore>) -> Vec<Passport> {
    PassportCatalog::read(store).list_passports().cloned().collect()
}

/// The first passport that matches the name; ids take precedence over names, and names over
/// aliases.
fn find_by_key<'a>(passports: &'a [Passport], name: &str, key: fn(&str) -> String) -> Option<&'a Passport> {
    let text = key(name);
    if text.is_empty() {
        return None;
    }
    let by = |is: &dyn Fn(&Passport) -> bool| passports.iter().find(|passport| is(passport));
    by(&|passport| key(&passport.id) == text)
        .or_else(|| by(&|passport| key(&passport.name) == text))
        .or_else(|| by(&|passport| passport.aliases.iter().any(|alias| key(alias) == text)))
}

#[cfg(test)]
mod tests;
