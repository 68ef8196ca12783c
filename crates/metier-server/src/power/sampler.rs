//! The thread that looks.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_device::sensors::{Covers, Meters, Node};
use metier_linux::cgroup::naming::Kind;
use metier_linux::consumers::{Consumers, Look};
use metier_linux::counters::{Counted, Counters};
use metier_power::estimate::NodeEstimate;
use metier_power::ledger::{Estimated, Looked};
use metier_power::vocabulary::{Component, Source};
use metier_types::{Missing, Timestamp};

use super::{InForce, Power, Seen, Watch};
use crate::agent::names::Names;
use crate::agent::{Engine, NameSource};
use crate::error::Error;

/// The first look comes soon: a page that was just opened has something to show.
const FIRST: Duration = Duration::from_secs(1);
/// Meters that show power only are read so often in between, and their energy integrated.
const READING: Duration = Duration::from_secs(1);
/// So many times what a look costs is waited for the next one, at least.
const REST: u32 = 200;
/// Names of containers that are kept, beyond those that work now.
const MOST_NAMES: usize = 1000;
/// The feature that every look has, and those of the processor's counters.
const FEATURES: [&str; 4] = ["bpf_cpu_time_ms", "cache_miss", "cpu_cycles", "cpu_instructions"];

/// Time of this thread on processors.
fn own_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// A thread that looks until it is dropped.
pub struct Sampler {
    /// What it has seen.
    pub watch: Arc<Watch>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    pub fn start(power: Power) -> Result<Self, Error> {
        let watch = Arc::new(Watch::new(power));
        let (stop, stopped) = channel();
        let own = watch.clone();
        let thread = std::thread::Builder::new()
            .name("metier-watts".to_string())
            .spawn(move || Eyes::open(&own).watch(&own, &stopped))
            .map_err(|source| Error::Runtime { source })?;
        Ok(Self { watch, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a look is taken with.
pub(super) struct Eyes {
    meters: Meters,
    consumers: Consumers,
    counters: Option<Counters>,
    names: Names,
    last: Option<Node>,
}

impl Eyes {
    pub(super) fn open(watch: &Watch) -> Self {
        let roots = &watch.power.roots;
        let mut meters = Meters::open_files(roots);
        meters.start();
        let mut consumers = Consumers::new(roots);
        consumers.look();
        let last = meters.node();
        let counters = Counters::open(roots);
        let mut seen = watch.seen();
        seen.meter = meters.node_meters();
        if let Some(missing) = meters.missing_node() {
            seen.missing.insert("measured".into(), missing);
        }
        seen.missing.insert("bpf_page_cache_hit".into(), Missing::because(NO_PAGE_CACHE));
        let counters = match counters {
            Ok(counters) => Some(counters),
            Err(missing) => {
                seen.missing.insert("cpu_cycles".into(), missing);
                None
            }
        };
        drop(seen);
        let at = |socket: PathBuf| Box::new(Engine::at(socket)) as Box<dyn NameSource>;
        let engine = watch.power.engine.clone().map(at);
        Self { meters, consumers, counters, names: Names::start(engine.into_iter().collect()), last }
    }

    fn watch(mut self, watch: &Watch, stopped: &Receiver<()>) {
        let mut wait = watch.power.interval.min(FIRST);
        while self.rests(stopped, wait) {
            let (begun, worked) = (Instant::now(), own_time());
            self.look(watch);
            let worked = own_time().saturating_sub(worked);
            wait = watch.power.interval.max(worked * REST).saturating_sub(begun.elapsed());
        }
    }

    /// Waits; `false` where it was told to end.
    fn rests(&mut self, stopped: &Receiver<()>, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            match stopped.recv_timeout(if self.meters.has_power() { left.min(READING) } else { left }) {
                Err(RecvTimeoutError::Timeout) if self.meters.has_power() => self.meters.tick(),
                Err(RecvTimeoutError::Timeout) => {}
                _ => return false,
            }
        }
    }

    pub(super) fn look(&mut self, watch: &Watch) {
        self.meters.tick();
        let measured = self.measured();
        let Some(look) = self.consumers.look() else { return };
        let covers = self.meters.node_meters().map(|(covers, _)| covers);
        let counted = self.counters.as_mut().and_then(Counters::read);
        let estimate = estimate(&watch.power, &look, counted, covers);
        let seconds = look.elapsed.get();
        let owners = || look.used.iter().filter_map(|used| used.who.owner.as_ref());
        self.names.want_of(owners().map(|owner| (owner, None)));
        let mut seen = watch.seen();
        self.name(owners(), &mut seen);
        let missing = &mut seen.missing;
        for field in ["estimated", "low", "processes"] {
            missing.remove(field);
        }
        match &estimate {
            Err(why) => drop(missing.insert("estimated".into(), Missing::because(why.as_str()))),
            Ok(estimate) if estimate.interval.is_none() => {
                let why = format!("{} tells no interval, only a mean error", estimate.about.predictor);
                missing.insert("low".into(), Missing::because(why));
            }
            Ok(_) => {}
        }
        if look.left_out > 0 {
            let why = format!("{} processes beyond the bound were not looked at", look.left_out);
            missing.insert("processes".into(), Missing::because(why));
        }
        let estimate = estimate.ok();
        seen.predictor = estimate.as_ref().map(|estimate| InForce {
            about: estimate.about.clone(),
            in_range: estimate.in_range,
            core_ratio: estimate.core_ratio,
        });
        seen.processes = look.used.iter().map(|used| (used.who.clone(), used.processes)).collect();
        seen.ledger.enter(Looked {
            at: Timestamp::now().as_millisecond(),
            seconds,
            busy_cores: look.busy.map(|busy| busy.get() / seconds.max(1e-9)),
            measured,
            estimated: estimate.map(|one| Estimated {
                watts: one.watts,
                interval: one.interval,
                idle: one.idle,
            }),
            used: look.used.into_iter().map(|used| (used.who, used.cpu.get())).collect(),
            unseen: look.unseen.get(),
        });
    }

    /// Keeps what the engine calls those that work. A name outlives its container, as what it used does.
    fn name<'a>(&self, owners: impl Iterator<Item = &'a Kind>, seen: &mut Seen) {
        if seen.names.len() > MOST_NAMES {
            seen.names.clear();
        }
        let book = self.names.book();
        for owner in owners {
            let (id, name) = match owner {
                Kind::Container(id) => (id, book.container(id).and_then(|name| name.container.clone())),
                Kind::Pod(uid) => (uid, book.pod(uid).and_then(|name| name.pod.clone())),
                Kind::Run(_) | Kind::Unit(_) => continue,
            };
            if let Some(name) = name {
                seen.names.insert(id.clone(), name);
            }
        }
    }

    /// Power between the last two readings of the meter; after one that failed, over the longer time.
    fn measured(&mut self) -> Option<f64> {
        let now = self.meters.node()?;
        let last = self.last.replace(now.clone())?;
        let seconds = (now.at - last.at).as_secs_f64();
        (seconds > 0.0).then(|| (now.energy.get() - last.energy.get()) / seconds)
    }
}

/// Why predictors that look at the page cache are not asked.
const NO_PAGE_CACHE: &str = "hits of the page cache are counted only by a program inside of the kernel, which is not loaded; predictors that look at them are not asked";

fn estimate(
    power: &Power,
    look: &Look,
    counted: Option<Counted>,
    covers: Option<Covers>,
) -> Result<NodeEstimate, String> {
    let busy = look.busy.ok_or("the kernel does not say how busy the processors are (/proc/stat)")?;
    let seconds = look.elapsed.get();
    if seconds <= 0.0 {
        return Err("no time has passed since the last look".to_string());
    }
    // What is estimated is what is measured; without a meter the whole machine.
    let (source, components): (Source, &[Component]) = match covers {
        None | Some(Covers::Platform) => (Source::Acpi, &[Component::Platform]),
        Some(Covers::PackageAndMemory) => (Source::RaplSysfs, &[Component::Package, Component::Dram]),
        Some(Covers::Package) => (Source::RaplSysfs, &[Component::Package]),
    };
    let mut values = vec![busy.get() * 1000.0 / seconds];
    if let Some(counted) = counted {
        let counts = [counted.cache_misses, counted.cycles, counted.instructions];
        values.extend(counts.map(|count| count / seconds));
    }
    power.estimator.node(&FEATURES[..values.len()], &values, source, components)
}
