//! Records the messages and metrics of an application in a pod on another machine.
//!
//! Its metrics pages are scraped during the run through the API server. `localhost` in an address
//! means the pod; the cluster reaches the pod's own addresses, not its loopback. The listener
//! container records messages, which are downloaded with the files at the end.

use std::time::Duration;

use metier_linux::cgroup::RunCgroup;
use metier_linux::wakeup;
use metier_measure::app::remote_app::{self, RemoteAppFiles, RemoteAppIntake};
use metier_measure::app::{AppRecord, descriptor, scrape};
use metier_measure::http_get::{self, HttpUrl};
use metier_measure::observer::{ArtefactKeeper, RunObserver, StartedRun};
use metier_measure::spec::ListenSources;
use metier_types::{MissingReason, Run, Series};
use tokio::runtime::Handle;

use crate::artefact_download::ArtefactDownload;
use crate::cluster_client::ClusterClient;

/// Advice for a page that the cluster cannot reach.
const PAGE_FIX: &str = "check that the application serves its metrics there, on all addresses of its pod and not only on its loopback";

/// Observer of an application in a pod on another machine.
pub(crate) struct RemoteAppObserver {
    ways: ListenSources,
    cluster: ClusterClient,
    handle: Handle,
    pod: String,
    /// Download of the messages, or the reason why there is none; `None` if no messages were
    /// requested.
    back: Option<Result<ArtefactDownload, MissingReason>>,
    /// Why the metrics pages cannot be read.
    no_pages: Option<MissingReason>,
    relaying: Option<RemoteAppIntake>,
    problems: Vec<(String, MissingReason)>,
    started_ns: u64,
}

impl RemoteAppObserver {
    pub fn new(
        ways: ListenSources,
        cluster: ClusterClient,
        handle: Handle,
        pod: String,
        back: Option<Result<ArtefactDownload, MissingReason>>,
        no_pages: Option<MissingReason>,
    ) -> Self {
        let (relaying, problems, started_ns) = (None, Vec::new(), 0);
        Self { ways, cluster, handle, pod, back, no_pages, relaying, problems, started_ns }
    }

    fn start_reading(&self, relaying: &mut RemoteAppIntake, address: &str) -> Result<(), String> {
        let url = HttpUrl::parse(address)?;
        // Addresses of other machines are scraped directly.
        let started = if url.is_local() {
            let (cluster, handle, pod) = (self.cluster.clone(), self.handle.clone(), self.pod.clone());
            relaying.scrape_page(address, move || {
                handle.block_on(cluster.read_pod_page(&pod, &url, scrape::ACCEPT))
            })
        } else {
            relaying.scrape_page(address, move || http_get::fetch_page(&url, scrape::ACCEPT))
        };
        started.map_err(|error| error.to_string())
    }

    fn since_start(&self) -> Duration {
        Duration::from_nanos(wakeup::monotonic_ns().saturating_sub(self.started_ns))
    }

    /// Reads the downloaded messages. The error is the reason why there are none.
    fn take_downloaded(&self, relaying: &mut RemoteAppIntake) -> Result<(), MissingReason> {
        let back = match &self.back {
            None => return Ok(()),
            Some(Err(why)) => return Err(why.clone()),
            Some(Ok(back)) => back,
        };
        let wall = self.since_start();
        let began_here = descriptor::unix_time_ns() - i64::try_from(wall.as_nanos()).unwrap_or(0);
        let taken = back.with_result(|here| match here {
            Ok(here) if here.heard.is_none() => {
                Err("the container that listens beside it was not there in time".to_string())
            }
            Ok(here) => {
                let began_ns = here.ahead_ns.map(|ahead| began_here.saturating_sub(ahead));
                let brought =
                    RemoteAppFiles { heard: here.heard.as_deref(), log: here.log.as_deref(), began_ns };
                relaying.read_files(brought, wall);
                Ok(())
            }
            Err(why) => Err(why.clone()),
        });
        taken.map_err(|why| {
            MissingReason::without_fix(format!(
                "the application's messages could not be fetched from the pod: {why}"
            ))
        })
    }
}

impl RunObserver for RemoteAppObserver {
    fn on_started(&mut self, started: StartedRun<'_>) {
        self.started_ns = started.started_ns;
        let mut relaying = RemoteAppIntake::new(started.run);
        for address in &self.ways.scrape {
            let read = match &self.no_pages {
                Some(why) => Err(why.clone()),
                None => self.start_reading(&mut relaying, address).map_err(|why| unread_page(address, &why)),
            };
            self.problems.extend(read.err().map(|why| ("scrape".to_string(), why)));
        }
        self.relaying = Some(relaying);
    }

    fn on_sample(&mut self, since_start: Duration, _: Option<&RunCgroup>) {
        self.relaying.iter_mut().for_each(|relaying| relaying.add_row_if_due(since_start));
    }

    fn take_series(&mut self) -> Vec<Series> {
        self.relaying.as_mut().and_then(RemoteAppIntake::take_rows).into_iter().collect()
    }

    fn on_ended(&mut self, _: Option<&RunCgroup>) {
        let Some(mut relaying) = self.relaying.take() else { return };
        for (address, why) in relaying.stop_scraping(self.since_start()) {
            self.problems.push(("scrape".to_string(), unread_page(&address, &why)));
        }
        if let Err(why) = self.take_downloaded(&mut relaying) {
            self.problems.push((remote_app::PROBLEM_FIELD.to_string(), why));
        }
        self.relaying = Some(relaying);
    }

    fn on_cancelled(&mut self) {
        self.relaying = None;
    }

    fn on_finish(&mut self, run: &mut Run, _: &mut ArtefactKeeper<'_>) {
        // Removes the reason that the local listeners recorded.
        run.missing.remove("stages");
        let mut record = self.relaying.take().map(|mut relaying| relaying.take_record()).unwrap_or_default();
        let is_nothing =
            |app_record: &AppRecord| app_record.stages.is_empty() && app_record.counts.messages == 0;
        match self.problems.first() {
            Some((_, why)) if self.problems.len() == 1 && is_nothing(&record) => {
                run.missing.insert("stages".into(), why.clone());
            }
            _ => {
                record.problems.append(&mut self.problems);
                record.write_into(run);
            }
        }
    }
}

fn unread_page(address: &str, problem: &str) -> MissingReason {
    MissingReason::with_fix(format!("{address} could not be read: {problem}"), PAGE_FIX)
}
