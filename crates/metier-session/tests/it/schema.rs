//! The published JSON Schema of a run file is that of the code. `METIER_BLESS=1` writes it anew.

use metier_session::runfile::RunFile;
use metier_types::schema::VersionedRecord;

#[test]
fn the_published_schema_is_that_of_the_code() {
    let name = RunFile::SCHEMA.replace('/', "-");
    let file =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/{name}.json"));
    let now = format!("{}\n", serde_json::to_string_pretty(&schemars::schema_for!(RunFile)).unwrap());
    if std::env::var_os("METIER_BLESS").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(kept, now, "{} is stale; METIER_BLESS=1 writes it anew", file.display());
}
