//! The published JSON Schemas of documents that commands print are those of the code.
//! `METIER_BLESS=1` writes them anew.

use metier_infer::BenchReport;
use metier_predict::splitting::SplitReport;
use metier_signal::SignalRecord;
use schemars::JsonSchema;

/// Compares the schema of what is written with the published one.
fn assert_published<T: JsonSchema>(name: &str) {
    let settings = schemars::generate::SchemaSettings::default().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let file = folder.join(format!("{name}.json"));
    let now = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    if std::env::var_os("METIER_BLESS").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(kept, now, "{} is stale; METIER_BLESS=1 writes it anew", file.display());
}

#[test]
fn the_published_schemas_are_those_of_the_code() {
    assert_published::<BenchReport>("metier.bench-1");
    assert_published::<SplitReport>("metier.split-1");
    assert_published::<SignalRecord>("metier.pattern-1");
}
