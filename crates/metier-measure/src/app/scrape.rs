//! Scrapes the application's own metrics page once a second.
//!
//! Counters contribute their growth between the first and the last scrape. Histograms and summaries
//! contribute the growth of their counts; their quantiles come from the page's buckets. Gauges give
//! a value per scrape. Families that client libraries add about themselves and their runtime
//! (`process_*`, `go_*`, `python_*`, …) are left out. `localhost` means the application's own
//! network namespace: the scraping thread enters it.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use metier_prom::{ExpositionFormat, MetricFamily, MetricKind, MetricSample, ScrapeLimits};
use metier_types::{LockUnpoisoned, StageKind, StageSource};

use super::descriptor::{enter_network_namespace, unix_time_ns};
use super::intake::MessageIntake;
use super::message::{AppMessage, MessageNumber, format_labels, infer_kind};
use super::stage_stats::ScrapedBuckets;
use crate::http_get::{self as http, HttpPage, HttpUrl};

const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);
/// Time between attempts before the first successful scrape.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Accepted content types of a page.
pub const ACCEPT: &str = "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5";
/// Families that client libraries add by themselves.
const RUNTIME_PREFIXES: [&str; 7] = ["process_", "go_", "python_", "promhttp_", "nodejs_", "jvm_", "scrape_"];

/// A distribution at its last scrape, with its buckets at the first.
#[derive(Debug, Default, Clone)]
struct ScrapedDistribution {
    count: f64,
    sum: f64,
    first: Vec<(f64, f64)>,
}

/// Converts pages to messages; stores distributions between scrapes.
#[derive(Debug, Default)]
pub struct ScrapeConverter {
    before: HashMap<String, ScrapedDistribution>,
}

impl ScrapeConverter {
    pub fn convert_page<K: Eq + Hash + Clone>(
        &mut self,
        intake: &mut MessageIntake<K>,
        sender: &K,
        families: &[MetricFamily],
        at_ns: i64,
    ) {
        for family in
            families.iter().filter(|family| !RUNTIME_PREFIXES.iter().any(|r| family.name.starts_with(r)))
        {
            match family.kind {
                MetricKind::Histogram | MetricKind::Summary => {
                    self.convert_distributions(intake, sender, family, at_ns)
                }
                _ => convert_samples(intake, sender, family, at_ns),
            }
        }
    }

    fn convert_distributions<K: Eq + Hash + Clone>(
        &mut self,
        intake: &mut MessageIntake<K>,
        sender: &K,
        family: &MetricFamily,
        at_ns: i64,
    ) {
        let mut found: Vec<(String, ScrapedDistribution)> = Vec::new();
        for sample in &family.samples {
            let own = |(key, _): &&(String, String)| key != "le" && key != "quantile";
            let Some(labels) = format_sample_labels(sample.labels.iter().filter(own)) else { continue };
            let at = match found.iter().position(|(known, _)| *known == labels) {
                Some(at) => at,
                None => {
                    found.push((labels, ScrapedDistribution::default()));
                    found.len() - 1
                }
            };
            let now = &mut found[at].1;
            match sample.name.strip_prefix(&family.name) {
                Some("_count") => now.count = sample.value,
                Some("_sum") => now.sum = sample.value,
                Some("_bucket") => {
                    let bound = sample.label("le").and_then(|le| le.parse().ok());
                    now.first.extend(bound.map(|bound: f64| (bound, sample.value)));
                }
                _ => {}
            }
        }
        for (labels, mut now) in found {
            now.first.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (kind, scale) = infer_kind(&family.name);
            let message = AppMessage {
                name: family.name.as_str().into(),
                labels: labels.as_str().into(),
                kind,
                source: StageSource::Scrape,
                number: MessageNumber::Increment(0.0),
                at_ns: Some(at_ns),
            };
            let key = format!("{}\0{labels}", family.name);
            let before = self.before.get(&key);
            let Some(tally) = intake.stage_mut(sender, &message) else { continue };
            // A smaller count than before: the application has restarted.
            let restarted = before.is_some_and(|before| now.count < before.count);
            let first = match before {
                Some(before) if !restarted => before.first.clone(),
                Some(_) => now.first.iter().map(|(bound, _)| (*bound, 0.0)).collect(),
                None => now.first.clone(),
            };
            let (count, sum) = match before {
                Some(before) if !restarted => (now.count - before.count, now.sum - before.sum),
                Some(_) => (now.count, now.sum),
                None => (0.0, 0.0),
            };
            if count.is_finite() && sum.is_finite() {
                let grown = now.first.iter().map(|(bound, count)| {
                    let base =
                        first.iter().find(|(known, _)| known == bound).map_or(0.0, |(_, count)| *count);
                    (*bound * scale, (count - base).max(0.0) as u64)
                });
                let buckets = ScrapedBuckets { cumulative: grown.collect() };
                tally.add_histogram(count.max(0.0), sum * scale, buckets, at_ns);
            }
            self.before.insert(key, ScrapedDistribution { first, ..now });
        }
    }
}

fn convert_samples<K: Eq + Hash + Clone>(
    intake: &mut MessageIntake<K>,
    sender: &K,
    family: &MetricFamily,
    at_ns: i64,
) {
    for sample in &family.samples {
        if sample.name.ends_with("_created") || !sample.value.is_finite() {
            continue;
        }
        let Some(labels) = format_sample_labels(sample.labels.iter()) else { continue };
        let is_counter = family.kind == MetricKind::Counter;
        // A gauge in seconds is not the duration of one item: it stays a value.
        let (kind, number) = match is_counter {
            true => (StageKind::Counter, MessageNumber::CounterValue(sample.value)),
            false => (StageKind::Value, MessageNumber::Observation(sample.value)),
        };
        let name = sample_name(sample);
        intake.take_message(
            sender,
            &AppMessage {
                name: name.into(),
                labels: labels.into(),
                kind,
                source: StageSource::Scrape,
                number,
                at_ns: Some(at_ns),
            },
        );
    }
}

fn sample_name(sample: &MetricSample) -> &str {
    &sample.name
}

fn format_sample_labels<'a>(pairs: impl Iterator<Item = &'a (String, String)>) -> Option<String> {
    format_labels(pairs.map(|(key, value)| (key.as_str(), value.as_str()))).ok()
}

/// Result of scraping a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScrapeOutcome {
    /// Successful scrapes.
    pub pages: u64,
    /// Reason of the last failed attempt.
    pub problem: Option<String>,
}

/// The thread that scrapes a page.
#[derive(Debug)]
pub struct PageScraper {
    /// The address as given.
    pub address: String,
    stop: Sender<()>,
    thread: Option<JoinHandle<ScrapeOutcome>>,
}

impl PageScraper {
    /// Starts scraping. `process` belongs to the application; `localhost` means its network
    /// namespace.
    pub fn start<K: Eq + Hash + Clone + Send + 'static>(
        address: &str,
        url: HttpUrl,
        process: Option<u32>,
        proc: &Path,
        intake: Arc<Mutex<MessageIntake<K>>>,
        sender: K,
    ) -> std::io::Result<Self> {
        let namespace = process.filter(|_| url.is_local()).map(|pid| {
            let of = |process: &str| proc.join(process).join("ns/net");
            let theirs = of(&pid.to_string());
            let same = std::fs::read_link(&theirs).ok() == std::fs::read_link(of("self")).ok();
            if same { Ok(None) } else { File::open(theirs).map(Some) }
        });
        let mut entered = None;
        let get = move || {
            // Enter the namespace once, in the scraping thread.
            let entered = entered.get_or_insert_with(|| match &namespace {
                Some(Ok(Some(file))) => {
                    enter_network_namespace(file.as_fd()).map_err(|error| error.to_string())
                }
                Some(Err(error)) => Err(error.to_string()),
                _ => Ok(()),
            });
            match entered {
                Ok(()) => http::fetch_page(&url, ACCEPT),
                Err(error) => Err(format!("its network namespace cannot be entered: {error}")),
            }
        };
        Self::start_with(address, get, intake, sender)
    }

    /// Scrapes through `get` in a thread of its own; an error of `get` is the reason of a failed
    /// attempt.
    pub fn start_with<K: Eq + Hash + Clone + Send + 'static>(
        address: &str,
        mut get: impl FnMut() -> Result<HttpPage, String> + Send + 'static,
        intake: Arc<Mutex<MessageIntake<K>>>,
        sender: K,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("metier-scrape".into())
            .spawn(move || run_scrape_loop(&mut get, &stopped, &intake, &sender))?;
        Ok(Self { address: address.to_string(), stop, thread: Some(thread) })
    }

    pub fn finish(mut self) -> ScrapeOutcome {
        let _ = self.stop.send(());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

fn run_scrape_loop<K: Eq + Hash + Clone>(
    get: &mut dyn FnMut() -> Result<HttpPage, String>,
    stopped: &Receiver<()>,
    intake: &Mutex<MessageIntake<K>>,
    sender: &K,
) -> ScrapeOutcome {
    let mut reading = ScrapeConverter::default();
    let mut went = ScrapeOutcome::default();
    loop {
        let page = get().and_then(|page| {
            let format = ExpositionFormat::from_media_type(&page.media_type);
            let limits = ScrapeLimits { samples: 20_000, families: 2000, ..ScrapeLimits::default() };
            metier_prom::parse_page(&page.body, format, &limits).map_err(|error| error.to_string())
        });
        match page {
            Ok(page) => {
                went.pages += 1;
                let mut intake = intake.lock_unpoisoned();
                reading.convert_page(&mut intake, sender, &page.families, unix_time_ns());
            }
            Err(problem) => went.problem = Some(problem),
        }
        let pause = if went.pages == 0 { RETRY_INTERVAL } else { SCRAPE_INTERVAL };
        match stopped.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return went,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::intake::IntakeLimits as Most;
    use super::*;

    #[test]
    fn counters_and_histograms_count_by_growth_and_gauges_by_value() {
        let mut intake = MessageIntake::new(Most::default());
        let mut reading = ScrapeConverter::default();
        let page = |frames: u32, slow: u32, fast: u32| {
            format!(
                "# TYPE frames_total counter\nframes_total{{camera=\"top\"}} {frames}\n# TYPE queue gauge\nqueue 4\n\
                 # TYPE go_threads gauge\ngo_threads 9\n# TYPE inference_seconds histogram\n\
                 inference_seconds_bucket{{le=\"0.1\"}} {fast}\ninference_seconds_bucket{{le=\"0.2\"}} {}\n\
                 inference_seconds_bucket{{le=\"+Inf\"}} {}\ninference_seconds_count {}\ninference_seconds_sum {}\n",
                fast + slow,
                fast + slow,
                fast + slow,
                f64::from(fast) * 0.05 + f64::from(slow) * 0.15,
            )
        };
        for (second, (frames, slow, fast)) in
            [(100, 1, 9), (110, 1, 59), (130, 51, 59)].into_iter().enumerate()
        {
            let page = metier_prom::parse_page(
                page(frames, slow, fast).as_bytes(),
                ExpositionFormat::Text,
                &ScrapeLimits::default(),
            )
            .unwrap();
            reading.convert_page(&mut intake, &(), &page.families, second as i64 * 1_000_000_000);
        }
        let stages: HashMap<String, metier_types::AppStage> = intake
            .sender(&())
            .unwrap()
            .stages()
            .iter()
            .map(|tally| (tally.name.clone(), tally.to_stage()))
            .collect();
        assert_eq!(stages.len(), 3, "{stages:?}");
        let frames = &stages["frames_total"];
        assert_eq!((frames.count, frames.rate_per_second), (30, Some(15.0)));
        assert_eq!(frames.labels, "camera=\"top\"");
        assert_eq!(stages["queue"].mean, Some(4.0));
        let inference = &stages["inference_seconds"];
        assert_eq!((inference.kind, inference.count), (StageKind::Duration, 100));
        assert!((inference.mean.unwrap() - 0.1).abs() < 1e-9, "{inference:?}");
        assert!((inference.p50.unwrap() - 0.1).abs() < 1e-9 && (inference.p95.unwrap() - 0.19).abs() < 1e-9);
    }
}
