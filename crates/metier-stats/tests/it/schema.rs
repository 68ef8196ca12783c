//! The published JSON Schemas of comparisons and histories match the code. `METIER_BLESS=1`
//! rewrites them.

use metier_stats::{RunComparison, TrendReport};
use metier_types::schema::VersionedRecord;

fn check<T: VersionedRecord + schemars::JsonSchema>() {
    let name = T::SCHEMA.replace('/', "-");
    let file =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/{name}.json"));
    let now = format!("{}\n", serde_json::to_string_pretty(&schemars::schema_for!(T)).unwrap());
    if std::env::var_os("METIER_BLESS").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(kept, now, "{} is stale; METIER_BLESS=1 writes it anew", file.display());
}

#[test]
fn the_published_schemas_are_those_of_the_code() {
    check::<RunComparison>();
    check::<TrendReport>();
}
