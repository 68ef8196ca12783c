//! Records (`records.rs`) and store locations for the tests of this crate.

#[allow(dead_code, reason = "encryption is a feature, and other crates use it too")]
pub mod private_postgres;
mod records;

use metier_store::{RecordStore, StoreLocation};
use metier_types::RunId;

pub use records::*;

/// A store location for one test, removed on drop.
pub enum Place {
    Folder(tempfile::TempDir),
    Schema { url: String, server: String, name: String },
}

impl Place {
    /// An SQLite file in a folder that does not exist yet.
    pub fn sqlite() -> Place {
        Place::Folder(tempfile::tempdir().unwrap())
    }

    /// A new schema on the lab's server; without a server `None`, with a message.
    pub fn postgres() -> Option<Place> {
        let Ok(server) = std::env::var("METIER_LAB_POSTGRES") else {
            eprintln!(
                "SKIP: the PostgreSQL half of this test, because METIER_LAB_POSTGRES is not set \
                 (lab/lab up postgres && eval \"$(lab/lab env postgres)\")"
            );
            return None;
        };
        let name = format!("t{}", RunId::new().to_string().replace('-', ""));
        let mut client = postgres::Client::connect(&server, postgres::NoTls).unwrap();
        client.batch_execute(&format!("CREATE SCHEMA {name}")).unwrap();
        let joint = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{joint}options=-csearch_path%3D{name}");
        Some(Place::Schema { url, server, name })
    }

    pub fn location(&self) -> StoreLocation {
        match self {
            Place::Folder(folder) => StoreLocation::Sqlite(folder.path().join("deep/er/metier.db")),
            Place::Schema { url, .. } => url.parse().unwrap(),
        }
    }

    pub fn open(&self) -> RecordStore {
        RecordStore::open(&self.location()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Place::Schema { server, name, .. } = self {
            let mut client = postgres::Client::connect(server, postgres::NoTls).unwrap();
            client.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).unwrap();
        }
    }
}
