//! What an application in a pod of another machine says of itself, into the record.
//!
//! Its pages are read while it runs, through the API server: `localhost` in an address is the pod, whose own addresses the cluster
//! reaches, not its loopback. What it tells the ears beside it is brought at its end with its files.

use std::time::Duration;

use metier_linux::cgroup::Group;
use metier_linux::wake;
use metier_measure::app::relayed::{self, Brought, Relaying};
use metier_measure::app::{Heard, descriptor, scrape};
use metier_measure::http_get::{self, Url};
use metier_measure::observer::{Keep, Observer, Started};
use metier_measure::spec::ListenSources;
use metier_types::{Missing, Run, Series};
use tokio::runtime::Handle;

use crate::cluster::Cluster;
use crate::fetched::Back;

/// What is said when the cluster does not reach a page.
const FIX: &str = "check that the application serves its metrics there, on all addresses of its pod and not only on its loopback";

/// Listens to a pod of another machine.
pub(crate) struct Relayed {
    ways: ListenSources,
    cluster: Cluster,
    handle: Handle,
    pod: String,
    /// Where what it said comes from; or why it does not come, where somebody asked for it.
    back: Option<Result<Back, Missing>>,
    /// Why its pages cannot be read.
    no_pages: Option<Missing>,
    relaying: Option<Relaying>,
    problems: Vec<(String, Missing)>,
    started_ns: u64,
}

impl Relayed {
    pub fn new(
        ways: ListenSources,
        cluster: Cluster,
        handle: Handle,
        pod: String,
        back: Option<Result<Back, Missing>>,
        no_pages: Option<Missing>,
    ) -> Self {
        let (relaying, problems, started_ns) = (None, Vec::new(), 0);
        Self { ways, cluster, handle, pod, back, no_pages, relaying, problems, started_ns }
    }

    fn read(&self, relaying: &mut Relaying, address: &str) -> Result<(), String> {
        let url = Url::parse(address)?;
        // Other machines are reached from here as from anywhere.
        let started = if url.is_local() {
            let (cluster, handle, pod) = (self.cluster.clone(), self.handle.clone(), self.pod.clone());
            relaying.read(address, move || handle.block_on(cluster.page(&pod, &url, scrape::ACCEPT)))
        } else {
            relaying.read(address, move || http_get::get(&url, scrape::ACCEPT))
        };
        started.map_err(|error| error.to_string())
    }

    fn since_start(&self) -> Duration {
        Duration::from_nanos(wake::monotonic_ns().saturating_sub(self.started_ns))
    }

    /// Takes what was brought; the error says why nothing was.
    fn take(&self, relaying: &mut Relaying) -> Result<(), Missing> {
        let back = match &self.back {
            None => return Ok(()),
            Some(Err(why)) => return Err(why.clone()),
            Some(Ok(back)) => back,
        };
        let wall = self.since_start();
        let began_here = descriptor::now_ns() - i64::try_from(wall.as_nanos()).unwrap_or(0);
        let taken = back.with(|here| match here {
            Ok(here) if here.heard.is_none() => {
                Err("the container that listens beside it was not there in time".to_string())
            }
            Ok(here) => {
                let began_ns = here.ahead_ns.map(|ahead| began_here.saturating_sub(ahead));
                let brought = Brought { heard: here.heard.as_deref(), log: here.log.as_deref(), began_ns };
                relaying.take(brought, wall);
                Ok(())
            }
            Err(why) => Err(why.clone()),
        });
        taken.map_err(|why| {
            Missing::because(format!("what the application said could not be fetched from the pod: {why}"))
        })
    }
}

impl Observer for Relayed {
    fn started(&mut self, started: Started<'_>) {
        self.started_ns = started.started_ns;
        let mut relaying = Relaying::new(started.run);
        for address in &self.ways.scrape {
            let read = match &self.no_pages {
                Some(why) => Err(why.clone()),
                None => self.read(&mut relaying, address).map_err(|why| unread(address, &why)),
            };
            self.problems.extend(read.err().map(|why| ("scrape".to_string(), why)));
        }
        self.relaying = Some(relaying);
    }

    fn tick(&mut self, since_start: Duration, _: Option<&Group>) {
        self.relaying.iter_mut().for_each(|relaying| relaying.tick(since_start));
    }

    fn series(&mut self) -> Vec<Series> {
        self.relaying.as_mut().and_then(Relaying::rows).into_iter().collect()
    }

    fn ended(&mut self, _: Option<&Group>) {
        let Some(mut relaying) = self.relaying.take() else { return };
        for (address, why) in relaying.end(self.since_start()) {
            self.problems.push(("scrape".to_string(), unread(&address, &why)));
        }
        if let Err(why) = self.take(&mut relaying) {
            self.problems.push((relayed::PROBLEM.to_string(), why));
        }
        self.relaying = Some(relaying);
    }

    fn cancelled(&mut self) {
        self.relaying = None;
    }

    fn finish(&mut self, run: &mut Run, _: &mut Keep<'_>) {
        // What those who listen on this machine say of it.
        run.missing.remove("stages");
        let mut heard = self.relaying.take().map(|mut relaying| relaying.heard()).unwrap_or_default();
        let is_nothing = |heard: &Heard| heard.stages.is_empty() && heard.counts.messages == 0;
        match self.problems.first() {
            Some((_, why)) if self.problems.len() == 1 && is_nothing(&heard) => {
                run.missing.insert("stages".into(), why.clone());
            }
            _ => {
                heard.problems.append(&mut self.problems);
                heard.write(run);
            }
        }
    }
}

fn unread(address: &str, problem: &str) -> Missing {
    Missing::fixable(format!("{address} could not be read: {problem}"), FIX)
}
