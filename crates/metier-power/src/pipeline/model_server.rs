//! Downloads missing predictors from a model server, with the protocol of Kepler's estimator: `POST
//! /model` with the client's metrics. Also downloads single predictors from an address.
//!
//! The archive is requested first, since metier's server puts the best predictor there. If the
//! archive holds only a pickle, the weights are requested. Limits: [`DownloadLimits`]; only answers
//! that parse as a predictor are stored.

use std::path::Path;

use metier_fetch::{read_beginning, read_body};
use reqwest::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use reqwest::{RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};

use super::download::{DownloadLimits, client, reason, runtime, without_secrets};
use super::files::MAX_ARCHIVE_BYTES;
use super::single::{PredictorPurpose, SinglePredictor};
use crate::Error;
use crate::kepler_terms::shorten;
use crate::node::MachineSpec;

/// Longest part of a refusal quoted in a message.
const REFUSAL_BYTES: usize = 2000;

/// A request for which no local predictor exists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnmetPredictorRequest {
    /// Output type and source.
    pub purpose: PredictorPurpose,
    /// Metrics of the client.
    pub metrics: Vec<String>,
    /// The requested trainer, or empty.
    pub trainer_name: String,
    /// Error limits of the client.
    pub filter: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelServerClient {
    address: Url,
    /// Limits of a download.
    pub limits: DownloadLimits,
}

/// An answer: the predictor's name and bytes.
struct PredictorAnswer {
    name: String,
    bytes: Vec<u8>,
}

fn limits() -> DownloadLimits {
    DownloadLimits { bytes: MAX_ARCHIVE_BYTES, ..DownloadLimits::default() }
}

impl ModelServerClient {
    /// A model server with its `/model` at that address. No request is made yet.
    pub fn new(address: &str) -> Result<Self, Error> {
        let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.filter(Url::has_host).ok_or_else(|| Error::Word {
            field: "model-server",
            got: shorten(address),
            want: "http(s)://HOST:PORT/model".to_string(),
        })?;
        Ok(Self { address: url, limits: limits() })
    }

    /// The address without secrets.
    pub fn display_address(&self) -> String {
        without_secrets(&self.address)
    }

    /// Downloads a predictor into a pipeline's folder. Returns its name.
    pub fn download_predictor(
        &self,
        predictor: &UnmetPredictorRequest,
        machine: &MachineSpec,
        folder: &Path,
    ) -> Result<String, Error> {
        let failed = |why: String| Error::Download { address: self.display_address(), why };
        let mut body = json!({
            "metrics": predictor.metrics, "output_type": predictor.purpose.output_type.name(), "source": predictor.purpose.source.name(),
            "trainer_name": predictor.trainer_name, "filter": predictor.filter, "machine_spec": machine,
        });
        let archive = self.ask(&body).map_err(failed)?;
        let archive = SinglePredictor::read(&archive.bytes, &archive.name);
        let stored =
            archive.and_then(|single| Ok((single.name(), single.store_in(folder, predictor.purpose)?)));
        if let Ok((name, true)) = &stored {
            return Ok(name.clone());
        }
        body["weight"] = Value::Bool(true);
        let weights = self.ask(&body).map_err(|why| match &stored {
            // The fault of the archive is more useful to report than the missing weights alone.
            Ok((name, _)) => {
                failed(format!("{name} is a pickle that only its maker can load, and no weights: {why}"))
            }
            Err(error) => failed(format!("{error}; and no weights: {why}")),
        })?;
        let single = SinglePredictor::read(&weights.bytes, &weights.name)?;
        match single.store_in(folder, predictor.purpose)? {
            true => Ok(single.name()),
            false => Err(failed(format!("{} cannot be predicted with", single.name()))),
        }
    }

    fn ask(&self, body: &Value) -> Result<PredictorAnswer, String> {
        let client = client(&self.limits)?;
        let request = client.post(self.address.clone()).header(CONTENT_TYPE, "application/json");
        runtime()?.block_on(answer(request.body(body.to_string()), self.limits.bytes))
    }
}

/// Downloads a predictor from an address (`http(s)://…`, `file:///…`) into a pipeline's folder.
/// Returns its name.
pub fn download_initial(address: &str, purpose: PredictorPurpose, folder: &Path) -> Result<String, Error> {
    let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https" | "file"));
    let url = url.ok_or_else(|| Error::Word {
        field: "INIT_URL",
        got: shorten(address),
        want: "http(s)://… or file:///… of a predictor's zip or weights".to_string(),
    })?;
    let failed = |why: String| Error::Download { address: without_secrets(&url), why };
    let file = url.path().rsplit('/').next().unwrap_or_default();
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem).to_string();
    let bytes = if url.scheme() == "file" {
        let path = url.to_file_path().map_err(|()| failed("is no path of a file".to_string()))?;
        let length = std::fs::metadata(&path).map_err(|error| failed(error.to_string()))?.len();
        if length > MAX_ARCHIVE_BYTES {
            return Err(failed(format!("has more than {MAX_ARCHIVE_BYTES} bytes")));
        }
        std::fs::read(&path).map_err(|error| failed(error.to_string()))?
    } else {
        let limits = limits();
        let client = client(&limits).map_err(failed)?;
        let asked = runtime().map_err(failed)?.block_on(answer(client.get(url.clone()), limits.bytes));
        asked.map_err(failed)?.bytes
    };
    let single = SinglePredictor::read(&bytes, &stem).map_err(|error| failed(error.to_string()))?;
    match single.store_in(folder, purpose)? {
        true => Ok(single.name()),
        false => Err(failed(
            "is a pickle that only its creator can load; want a predictor with weights".to_string(),
        )),
    }
}

/// The whole answer, or the server's own reason for a refusal.
async fn answer(request: RequestBuilder, most: u64) -> Result<PredictorAnswer, String> {
    let response = request.send().await.map_err(|error| reason(&error))?;
    let status = response.status();
    let name = response.headers().get(CONTENT_DISPOSITION).and_then(|value| value.to_str().ok());
    let name = name.and_then(|value| value.split("filename=").nth(1)).unwrap_or_default();
    let name = name.trim_matches('"').trim_end_matches(".zip").to_string();
    if status == StatusCode::OK {
        let bytes = read_body(response, most).await.map_err(|error| error.to_string())?;
        return Ok(PredictorAnswer { name, bytes });
    }
    let bytes = read_beginning(response, REFUSAL_BYTES).await;
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text =
        value["detail"].as_str().map_or_else(|| String::from_utf8_lossy(&bytes).into_owned(), str::to_string);
    Err(format!("the server answered {status}: {}", shorten(text.trim())))
}
