//! The sampling thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_device::sensors::{EnergyMeters, MeterScope, NodeEnergy};
use metier_linux::cgroup::group_identity::CgroupKind;
use metier_linux::cpu_consumers::{ConsumerInterval, CpuConsumers};
use metier_linux::perf_counters::{PerfCounters, PerfCounts};
use metier_power::estimate::NodePowerEstimate;
use metier_power::kepler_terms::{EnergySource, PowerComponent};
use metier_power::ledger::{EstimatedPower, NodeObservation};
use metier_types::{MissingReason, UtcTimestamp};

use super::{ActivePowerPredictor, NodePowerConfig, PowerHistory, PowerMonitor};
use crate::agent::name_resolver::NameResolver;
use crate::agent::{EngineNameSource, NameSource};
use crate::error::Error;

/// The first sample comes soon, so that a new page has something to show.
const FIRST_SAMPLE_DELAY: Duration = Duration::from_secs(1);
/// Meters that show power only are also read at this interval between samples, and their energy is
/// integrated.
const METER_READ_INTERVAL: Duration = Duration::from_secs(1);
/// The pause before the next sample is at least this multiple of the last sample's cost.
const MIN_REST_FACTOR: u32 = 200;
/// Most names of containers in memory, beyond those of running ones.
const MAX_NAMES: usize = 1000;
/// The feature that every sample has, and those of the processor's counters.
const LIVE_FEATURES: [&str; 4] = ["bpf_cpu_time_ms", "cache_miss", "cpu_cycles", "cpu_instructions"];

/// CPU time of this thread.
fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The sampling thread; dropping this ends it.
pub struct PowerSampler {
    /// Its samples.
    pub watch: Arc<PowerMonitor>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PowerSampler {
    pub fn start(power: NodePowerConfig) -> Result<Self, Error> {
        let watch = Arc::new(PowerMonitor::new(power));
        let (stop, stopped) = channel();
        let own = watch.clone();
        let thread = std::thread::Builder::new()
            .name("metier-watts".to_string())
            .spawn(move || NodePowerProbe::open(&own).run(&own, &stopped))
            .map_err(|source| Error::Runtime { source })?;
        Ok(Self { watch, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for PowerSampler {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The sources of a sample.
pub(super) struct NodePowerProbe {
    meters: EnergyMeters,
    consumers: CpuConsumers,
    counters: Option<PerfCounters>,
    names: NameResolver,
    last: Option<NodeEnergy>,
}

impl NodePowerProbe {
    pub(super) fn open(watch: &PowerMonitor) -> Self {
        let roots = &watch.power.roots;
        let mut meters = EnergyMeters::open_files(roots);
        meters.reset();
        let mut consumers = CpuConsumers::new(roots);
        consumers.sample();
        let last = meters.node_energy();
        let counters = PerfCounters::open(roots);
        let mut seen = watch.lock_history();
        seen.meter = meters.node_meters();
        if let Some(missing) = meters.missing_node() {
            seen.missing.insert("measured".into(), missing);
        }
        seen.missing.insert("bpf_page_cache_hit".into(), MissingReason::without_fix(NO_PAGE_CACHE));
        let counters = match counters {
            Ok(counters) => Some(counters),
            Err(missing) => {
                seen.missing.insert("cpu_cycles".into(), missing);
                None
            }
        };
        drop(seen);
        let at = |socket: PathBuf| Box::new(EngineNameSource::at_socket(socket)) as Box<dyn NameSource>;
        let engine = watch.power.engine.clone().map(at);
        Self { meters, consumers, counters, names: NameResolver::start(engine.into_iter().collect()), last }
    }

    fn run(mut self, watch: &PowerMonitor, stopped: &Receiver<()>) {
        let mut wait = watch.power.interval.min(FIRST_SAMPLE_DELAY);
        while self.wait_or_stop(stopped, wait) {
            let (begun, worked) = (Instant::now(), thread_cpu_time());
            self.sample(watch);
            let worked = thread_cpu_time().saturating_sub(worked);
            wait = watch.power.interval.max(worked * MIN_REST_FACTOR).saturating_sub(begun.elapsed());
        }
    }

    /// Waits; `false` if the thread is to end.
    fn wait_or_stop(&mut self, stopped: &Receiver<()>, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            match stopped.recv_timeout(if self.meters.has_power_sensor() {
                left.min(METER_READ_INTERVAL)
            } else {
                left
            }) {
                Err(RecvTimeoutError::Timeout) if self.meters.has_power_sensor() => self.meters.sample(),
                Err(RecvTimeoutError::Timeout) => {}
                _ => return false,
            }
        }
    }

    pub(super) fn sample(&mut self, watch: &PowerMonitor) {
        self.meters.sample();
        let measured = self.measured_watts();
        let Some(look) = self.consumers.sample() else { return };
        let covers = self.meters.node_meters().map(|(covers, _)| covers);
        let counted = self.counters.as_mut().and_then(PerfCounters::read_delta);
        let estimate = estimate_node(&watch.power, &look, counted, covers);
        let seconds = look.elapsed.get();
        let owners = || look.used.iter().filter_map(|used| used.identity.owner.as_ref());
        self.names.request_names_of(owners().map(|owner| (owner, None)));
        let mut seen = watch.lock_history();
        self.remember_names(owners(), &mut seen);
        let missing = &mut seen.missing;
        for field in ["estimated", "low", "processes"] {
            missing.remove(field);
        }
        match &estimate {
            Err(why) => drop(missing.insert("estimated".into(), MissingReason::without_fix(why.as_str()))),
            Ok(estimate) if estimate.interval.is_none() => {
                let why = format!("{} tells no interval, only a mean error", estimate.about.predictor);
                missing.insert("low".into(), MissingReason::without_fix(why));
            }
            Ok(_) => {}
        }
        if look.left_out > 0 {
            let why = format!("{} processes beyond the bound were not sampled", look.left_out);
            missing.insert("processes".into(), MissingReason::without_fix(why));
        }
        let estimate = estimate.ok();
        seen.predictor = estimate.as_ref().map(|estimate| ActivePowerPredictor {
            about: estimate.about.clone(),
            in_range: estimate.in_range,
            core_ratio: estimate.core_ratio,
        });
        seen.processes = look.used.iter().map(|used| (used.identity.clone(), used.processes)).collect();
        seen.ledger.enter(NodeObservation {
            at: UtcTimestamp::now().as_millisecond(),
            seconds,
            busy_cores: look.busy.map(|busy| busy.get() / seconds.max(1e-9)),
            measured,
            estimated: estimate.map(|estimate| EstimatedPower {
                watts: estimate.watts,
                interval: estimate.interval,
                idle: estimate.idle,
            }),
            used: look.used.into_iter().map(|used| (used.identity, used.cpu.get())).collect(),
            unseen: look.unseen.get(),
        });
    }

    /// Stores the engine's names of the running containers. A name outlives its container, as does
    /// the container's energy in the history.
    fn remember_names<'a>(&self, owners: impl Iterator<Item = &'a CgroupKind>, seen: &mut PowerHistory) {
        if seen.names.len() > MAX_NAMES {
            seen.names.clear();
        }
        let book = self.names.lock_names();
        for owner in owners {
            let (id, name) = match owner {
                CgroupKind::Container(id) => (id, book.container(id).and_then(|name| name.container.clone())),
                CgroupKind::Pod(uid) => (uid, book.pod(uid).and_then(|name| name.pod.clone())),
                CgroupKind::Run(_) | CgroupKind::Unit(_) => continue,
            };
            if let Some(name) = name {
                seen.names.insert(id.clone(), name);
            }
        }
    }

    /// Mean power since the last successful reading of the meter.
    fn measured_watts(&mut self) -> Option<f64> {
        let now = self.meters.node_energy()?;
        let last = self.last.replace(now.clone())?;
        let seconds = (now.at - last.at).as_secs_f64();
        (seconds > 0.0).then(|| (now.energy.get() - last.energy.get()) / seconds)
    }
}

/// Why predictors with page-cache features are not used.
const NO_PAGE_CACHE: &str = "page cache hits are counted only by a program in the kernel, which is not loaded; predictors that need them are not used";

fn estimate_node(
    power: &NodePowerConfig,
    look: &ConsumerInterval,
    counted: Option<PerfCounts>,
    covers: Option<MeterScope>,
) -> Result<NodePowerEstimate, String> {
    let busy = look.busy.ok_or("the kernel does not say how busy the processors are (/proc/stat)")?;
    let seconds = look.elapsed.get();
    if seconds <= 0.0 {
        return Err("no time has passed since the last look".to_string());
    }
    // The estimate covers the same part as the meter; without a meter, the whole machine.
    let (source, components): (EnergySource, &[PowerComponent]) = match covers {
        None | Some(MeterScope::Platform) => (EnergySource::Acpi, &[PowerComponent::Platform]),
        Some(MeterScope::PackageAndMemory) => {
            (EnergySource::RaplSysfs, &[PowerComponent::Package, PowerComponent::Dram])
        }
        Some(MeterScope::Package) => (EnergySource::RaplSysfs, &[PowerComponent::Package]),
    };
    let mut values = vec![busy.get() * 1000.0 / seconds];
    if let Some(counted) = counted {
        let counts = [counted.cache_misses, counted.cycles, counted.instructions];
        values.extend(counts.map(|count| count / seconds));
    }
    power.estimator.estimate_node(&LIVE_FEATURES[..values.len()], &values, source, components)
}
