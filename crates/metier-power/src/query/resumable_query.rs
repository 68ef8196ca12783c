//! A query with stored answers: a folder with a file for each metric, and the query itself.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use metier_store::atomic_file::{self, AtomicFile};
use serde_json::Value;

use crate::Error;
use crate::pipeline::replace;

const QUESTION_FILE: &str = "question";

/// Stored answers of a query.
#[derive(Debug)]
pub struct ResumableQuery {
    folder: PathBuf,
}

impl ResumableQuery {
    /// Opens the folder. Its files stay if `is_same` accepts the stored query. Returns the query in
    /// force: the stored one, or the new one.
    pub fn open(
        folder: &Path,
        question: &Value,
        is_same: impl Fn(&Value) -> bool,
    ) -> Result<(Self, Value), Error> {
        let path = folder.join(QUESTION_FILE);
        let before = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let query = Self { folder: folder.to_path_buf() };
        if let Some(before) = before.filter(is_same) {
            return Ok((query, before));
        }
        query.remove()?;
        fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
        replace(&path, question.to_string().as_bytes())?;
        Ok((query, question.clone()))
    }

    fn file(&self, metric: &str) -> PathBuf {
        // Metric names may contain any character; file names may not.
        let name: String = metric
            .bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() || byte == b'_' {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02x}")
                }
            })
            .collect();
        self.folder.join(format!("{name}.json"))
    }

    /// Whether the metric is stored.
    pub fn has(&self, metric: &str) -> bool {
        self.file(metric).is_file()
    }

    pub fn put(&self, metric: &str, series: &Value) -> Result<(), Error> {
        replace(&self.file(metric), series.to_string().as_bytes())
    }

    /// Removes the query if it has no answers yet, so that a retry uses its own time range.
    pub fn discard_if_empty(self) -> Result<(), Error> {
        let entries = fs::read_dir(&self.folder).map_err(|error| Error::file(&self.folder, error))?;
        let is_answer = |entry: fs::DirEntry| entry.path().extension().is_some_and(|end| end == "json");
        if entries.flatten().any(is_answer) { Ok(()) } else { self.remove() }
    }

    /// Writes one response of these metrics and removes the parts.
    pub fn finish(self, metrics: &[String], to: &Path) -> Result<(), Error> {
        let wrong = |error: std::io::Error| Error::file(to, error);
        let file = AtomicFile::create(to, atomic_file::PUBLIC_FILE_MODE).map_err(wrong)?;
        let mut out = BufWriter::new(file.file());
        for (at, metric) in metrics.iter().enumerate() {
            let path = self.file(metric);
            let text = fs::read(&path).map_err(|error| Error::file(&path, error))?;
            let before = if at == 0 { "{" } else { ",\n" };
            write!(out, "{before}{}: ", Value::from(metric.as_str())).map_err(wrong)?;
            out.write_all(&text).map_err(wrong)?;
        }
        out.write_all(if metrics.is_empty() { b"{}" } else { b"}" }).map_err(wrong)?;
        out.flush().map_err(wrong)?;
        drop(out);
        file.persist().map_err(wrong)?;
        self.remove()
    }

    fn remove(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file(&self.folder, error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::KeplerResponse;
    use serde_json::json;

    #[test]
    fn a_query_goes_on_where_it_was_broken_off_and_ends_as_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let (parts, to) = (folder.path().join("parts"), folder.path().join("all.json"));
        let question = json!({ "step": 3 });
        let (query, _) = ResumableQuery::open(&parts, &question, |_| false).unwrap();
        query.put("a", &json!([{ "metric": { "job": "x" }, "values": [[1, "2"]] }])).unwrap();
        drop(query);
        let (resumable_query, held) =
            ResumableQuery::open(&parts, &json!({ "step": 3, "later": 1 }), |before| before["step"] == 3)
                .unwrap();
        assert_eq!((resumable_query.has("a"), resumable_query.has("b"), held), (true, false, question));
        resumable_query.put("b:c/d", &json!([])).unwrap();
        resumable_query.finish(&["a".to_string(), "b:c/d".to_string()], &to).unwrap();
        let response = KeplerResponse::read(&fs::read(&to).unwrap()).unwrap();
        assert_eq!(response.metric("a")[0].samples, [(1.0, 2.0)]);
        assert!(response.0.contains_key("b:c/d") && !parts.exists());
    }

    #[test]
    fn answers_to_another_question_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("parts");
        let (query, _) = ResumableQuery::open(&parts, &json!(1), |_| false).unwrap();
        query.put("a", &json!([])).unwrap();
        let (resumable_query, _) =
            ResumableQuery::open(&parts, &json!(2), |before| *before == json!(2)).unwrap();
        assert!(!resumable_query.has("a"));
    }
}
