//! Makes trials on this device, until a budget is used up: graphs that the user gave first, then made-up networks where the
//! predictor is least sure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::operator_model::graph::sum;
use crate::operator_model::{Operators, Point, Pressure};
use metier_infer::{Engine, OperatorTime, Runtime, Source, inputs};
use metier_onnx::{Analysis, Bindings, Limits};
use metier_store::Store;
use metier_types::DeviceId;

use super::calm::Pulse;
use super::measure::{self, Effort, Timed};
use super::network;
use super::record::{KIND, Kept};
use super::stress::Stress;
use crate::latency::step::{self, BASIS, COUNTED, FEATURES, Step};
use crate::latency::{Counts, Error};

/// A graph that the user gave.
#[derive(Debug, Clone)]
pub struct Given {
    /// Its name: points of one name are held out together.
    pub name: String,
    /// Its file; weights may be beside it.
    pub path: PathBuf,
    pub bytes: Arc<Vec<u8>>,
    /// Sizes for what it leaves open.
    pub bindings: Bindings,
}

/// What is timed beside stress of processors and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Load {
    None,
    /// A made-up network now and then, which is enough to tell what others cost.
    #[default]
    Some,
    /// Every graph that was given at every level, too.
    All,
}

/// What is to be tried.
pub struct Wanted<'a> {
    /// Where trials are kept.
    pub store: &'a Store,
    pub device: &'a DeviceId,
    pub cores: u32,
    pub engine: Engine,
    pub threads: &'a [u32],
    /// How long to go on.
    pub budget: Duration,
    /// Graphs of the user.
    pub graphs: &'a [Given],
    /// What is timed beside stress, too.
    pub load: Load,
    /// Whether to time known points once more instead of making new ones.
    pub again: bool,
    /// Whether to make up no networks.
    pub only_graphs: bool,
    /// Whether somebody wants it to end.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// How far it has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub points: u64,
    /// Points that could not be made.
    pub failed: u64,
    /// Share of the budget that is used up.
    pub share: f64,
    /// What was tried last.
    pub last: String,
    /// Graphs of the user that could not be timed, each with the first reason.
    pub refused: BTreeMap<String, String>,
}

/// What a point of a graph is worth.
pub const GRAPH: Effort = Effort { seconds: 0.35, fewest: 5, most: 100, looks: 3 };
/// And one of a made-up network.
pub const TRIAL: Effort = Effort { seconds: 0.06, fewest: 5, most: 40, looks: 4 };
/// Beside stress, where times vary more.
const LOADED: Effort = Effort { seconds: 0.6, fewest: 5, most: 200, looks: 0 };
/// A made-up network beside stress, and how many are made without it for each.
const TRIAL_LOADED: Effort = Effort { seconds: 0.25, fewest: 5, most: 100, looks: 0 };
const LOADED_EVERY: usize = 10;
/// Candidates of which the least known is tried.
const CANDIDATES: u64 = 3;
/// Middle over lower quarter of the repeats from which on a trial was disturbed.
const DISTURBED: f64 = 1.15;
/// And the share of its pieces during which others had the processors.
const MOSTLY: f64 = 0.5;
/// How long is felt how quick the host is at its best, unless the budget is small.
const FEEL: Duration = Duration::from_secs(3);
/// Trials before anything is known.
const FIRST: usize = 64;

/// Makes trials; gives how many.
pub fn collect(wanted: &Wanted, tell: &mut dyn FnMut(&Progress)) -> Result<Progress, Error> {
    let begin = Instant::now();
    let mut progress =
        Progress { points: 0, failed: 0, share: 0.0, last: String::new(), refused: BTreeMap::new() };
    let mut known = Kept::join(&wanted.store.trials(wanted.device, KIND)?);
    known.retain(|kept| kept.runtime == wanted.engine.name() && kept.is_of_this_version());
    let mut done: BTreeSet<String> = known.iter().map(Kept::key).collect();
    let runtimes: Vec<(u32, Runtime)> = wanted
        .threads
        .iter()
        .map(|threads| Ok((*threads, Runtime::open(&wanted.engine, *threads as usize)?)))
        .collect::<Result<_, metier_infer::Error>>()?;
    let mut pulse = Pulse::feel(wanted.threads, FEEL.min(wanted.budget / 20));
    let is_over = || begin.elapsed() >= wanted.budget || (wanted.is_stopped)();
    let mut keep = |kept: Result<Kept, Error>,
                    name: &str,
                    is_given: bool,
                    progress: &mut Progress,
                    known: &mut Vec<Kept>|
     -> Result<(), Error> {
        match kept {
            Ok(kept) => {
                let pieces = kept
                    .pieces()
                    .map_err(|error| Error::Trial { name: name.to_string(), why: error.to_string() })?;
                wanted.store.put_trials(wanted.device, KIND, &pieces)?;
                known.push(kept);
                progress.points += 1;
            }
            Err(error) if is_given => {
                progress.refused.entry(name.to_string()).or_insert_with(|| error.to_string());
            }
            Err(error) => {
                tracing::debug!(name, %error, "a trial that cannot be made");
                progress.failed += 1;
            }
        }
        progress.last = name.to_string();
        progress.share = (begin.elapsed().as_secs_f64() / wanted.budget.as_secs_f64().max(1e-9)).min(1.0);
        tell(progress);
        Ok(())
    };
    for given in wanted.graphs {
        let source = Source::File(&given.path);
        let graph = match analyse(&given.bytes, &given.bindings) {
            Ok(graph) => graph,
            Err(error) => {
                keep(Err(error), &given.name, true, &mut progress, &mut known)?;
                continue;
            }
        };
        for (threads, runtime) in &runtimes {
            let id = graph_id(&given.name, &graph);
            let mut levels = vec![None];
            if wanted.load == Load::All {
                levels.extend(Stress::levels(wanted.cores).into_iter().map(Some));
            }
            for level in levels {
                if is_over() {
                    return Ok(progress);
                }
                let pressure =
                    level.map_or(Pressure::default(), |level: Stress| level.pressure(*threads, wanted.cores));
                let probe =
                    Probe { id: &id, name: &given.name, is_trial: false, threads: *threads, pressure };
                let key = probe.key(runtime);
                let effort = if level.is_some() { LOADED } else { GRAPH };
                if wanted.again {
                    let Some(before) = known.iter().find(|kept| kept.key() == key && kept.again.is_none())
                    else {
                        continue;
                    };
                    let before = before.clone();
                    let once = Effort { looks: 0, ..effort };
                    let _stress = level.map(Stress::start);
                    let kept = point(runtime, source, &graph, &probe, &once, &mut pulse);
                    let kept = kept.map(|kept| Kept { again: Some(kept.seconds), ..before });
                    keep(kept, &given.name, true, &mut progress, &mut known)?;
                    continue;
                }
                if !done.insert(key) {
                    continue;
                }
                let kept = {
                    let _stress = level.map(Stress::start);
                    point(runtime, source, &graph, &probe, &effort, &mut pulse)
                };
                keep(kept, &given.name, true, &mut progress, &mut known)?;
            }
        }
    }
    if wanted.again || wanted.only_graphs {
        return Ok(progress);
    }
    let levels = if wanted.load == Load::None { Vec::new() } else { Stress::levels(wanted.cores) };
    let mut made = 0;
    let mut turn = 0;
    let mut laws: Option<Operators> = None;
    let mut learned_from = 0;
    while !is_over() {
        if known.len() >= FIRST && known.len() >= 2 * learned_from {
            laws = learn(&known);
            learned_from = known.len();
        }
        let next = choose(turn, laws.as_ref(), wanted.engine.name());
        turn += 1;
        let (name, bytes) = network::network(next);
        let Ok(graph) = analyse(&bytes, &Bindings::default()) else { continue };
        for (threads, runtime) in &runtimes {
            let id = format!("net-{COUNTED}-{next}");
            let probe = Probe {
                id: &id,
                name: &name,
                is_trial: true,
                threads: *threads,
                pressure: Pressure::default(),
            };
            if is_over() || !done.insert(probe.key(runtime)) {
                continue;
            }
            let kept = point(runtime, Source::Bytes(&bytes), &graph, &probe, &TRIAL, &mut pulse);
            keep(kept, &name, false, &mut progress, &mut known)?;
            made += 1;
            let level = levels.get(made / LOADED_EVERY % levels.len().max(1));
            let Some(level) = level.filter(|_| made.is_multiple_of(LOADED_EVERY) && !is_over()) else {
                continue;
            };
            let probe = Probe { pressure: level.pressure(*threads, wanted.cores), ..probe };
            if done.insert(probe.key(runtime)) {
                let kept = {
                    let _stress = level.start();
                    point(runtime, Source::Bytes(&bytes), &graph, &probe, &TRIAL_LOADED, &mut pulse)
                };
                keep(kept, &name, false, &mut progress, &mut known)?;
            }
        }
        if turn > 1_000_000 {
            break;
        }
    }
    Ok(progress)
}

/// Everything that can be said of a graph.
pub fn analyse(bytes: &[u8], bindings: &Bindings) -> Result<Analysis, Error> {
    let limits = Limits::default();
    let model = metier_onnx::read(bytes, &limits)?;
    Ok(metier_onnx::analyse(&model, bindings, &limits)?)
}

/// A graph with its shapes, and with what tells it from others of the same name: many are called `model`.
pub fn graph_id(name: &str, graph: &Analysis) -> String {
    let shapes: Vec<String> = graph
        .inputs
        .iter()
        .map(|input| {
            step::dims(Some(input)).iter().map(|size| format!("{size:.0}")).collect::<Vec<_>>().join("x")
        })
        .collect();
    let own: Vec<String> = graph
        .operators
        .iter()
        .map(|one| {
            format!("{} {:?} {:?}", one.kind, one.multiply_adds, one.weight_bytes.map(|bytes| bytes.0))
        })
        .collect();
    let own = metier_learn::validate::group_of(&own.join(","));
    format!("{name}|{}|{:08x}", shapes.join(","), own >> 32)
}

/// What one point is.
#[derive(Debug, Clone, Copy)]
pub struct Probe<'a> {
    /// The graph with its shapes.
    pub id: &'a str,
    pub name: &'a str,
    /// Whether it is made up.
    pub is_trial: bool,
    pub threads: u32,
    pub pressure: Pressure,
}

impl Probe<'_> {
    fn key(&self, runtime: &Runtime) -> String {
        self.kept(runtime.engine().name()).key()
    }

    fn kept(&self, runtime: &str) -> Kept {
        Kept {
            counted: COUNTED,
            graph: self.id.to_string(),
            name: self.name.to_string(),
            is_trial: self.is_trial,
            runtime: runtime.to_string(),
            threads: self.threads,
            pressure: self.pressure,
            seconds: 0.0,
            median: 0.0,
            again: None,
            cpu_seconds: 0.0,
            multiply_adds: 0,
            counts: [0.0; 7],
            run: None,
            piece: (0, 1),
            parts: Vec::new(),
        }
    }

    /// With what it took: the whole, and each operator as the runtime tells.
    pub fn timed(
        &self,
        runtime: &str,
        graph: &Analysis,
        steps: &[Step],
        told: &[OperatorTime],
        timed: &Timed,
    ) -> Kept {
        let (parts, _) = measure::parts(graph, steps, told);
        let size = |values: &[metier_onnx::analysis::Value]| -> f64 {
            values.iter().map(|value| 4.0 * step::count(&step::dims(Some(value)))).sum()
        };
        Kept {
            // Beside others the usual time is wanted, and not the one that they happened to leave alone.
            seconds: if self.pressure.is_idle() { timed.seconds } else { timed.median },
            median: timed.median,
            cpu_seconds: timed.cpu_seconds,
            multiply_adds: graph.multiply_adds,
            counts: Counts::of(&graph.characteristics, size(&graph.inputs), size(&graph.outputs)).features(),
            parts: Kept::kept_parts(&parts),
            ..self.kept(runtime)
        }
    }
}

pub fn point(
    runtime: &Runtime,
    source: Source<'_>,
    graph: &Analysis,
    probe: &Probe,
    effort: &Effort,
    pulse: &mut Pulse,
) -> Result<Kept, Error> {
    let engine = runtime.engine().name();
    let steps = measure::steps(graph, engine, probe.threads)?;
    let (given, _) = inputs::make(graph, &inputs::Making::default())?;
    let mut loaded = runtime.load(source)?;
    loaded.give(&given)?;
    // Beside stress that we make ourselves nothing is calm.
    let mut pulse = probe.pressure.is_idle().then_some((pulse, probe.threads));
    let timed =
        measure::whole(&mut loaded, effort, pulse.as_mut().map(|(pulse, threads)| (&mut **pulse, *threads)))?;
    let is_disturbed = timed.median > DISTURBED * timed.seconds || timed.crowded > MOSTLY;
    if probe.is_trial && probe.pressure.is_idle() && is_disturbed {
        let why = "something else ran meanwhile".to_string();
        return Err(Error::Trial { name: probe.name.to_string(), why });
    }
    let told = match effort.looks {
        0 => Vec::new(),
        looks => measure::looks(&mut loaded, looks, pulse)?,
    };
    Ok(probe.timed(engine, graph, &steps, &told, &timed))
}

/// The laws that what is known allows.
fn learn(known: &[Kept]) -> Option<Operators> {
    let points: Vec<Point> = known.iter().map(Kept::point).collect();
    let points: Vec<&Point> = points.iter().collect();
    Operators::learn(&points, &FEATURES.map(String::from), BASIS.len()).ok()
}

/// The network of a turn. Styles take turns, so that each has its share of what is learned; within a style every second is the one of a few whose time is least sure. Among
/// all of them the least sure would mostly be the smallest.
fn choose(turn: u64, laws: Option<&Operators>, runtime: &str) -> u64 {
    let styles = network::STYLES.len() as u64;
    let (round, style) = (turn / styles, turn % styles);
    let number = |candidate: u64| (round * CANDIDATES + candidate) * styles + style;
    let Some(laws) = laws.filter(|_| round % 2 == 1) else { return number(0) };
    let doubt = |number: u64| {
        let (_, bytes) = network::network(number);
        let graph = analyse(&bytes, &Bindings::default()).ok()?;
        let steps = measure::steps(&graph, runtime, 1).ok()?;
        let parts: Vec<_> = steps.iter().map(|step| measure::part(step, None)).collect();
        let sum = sum(laws, &parts, 1);
        Some(sum.spread + 0.5 * (1.0 - sum.in_range))
    };
    let scored =
        (0..CANDIDATES).map(|candidate| (number(candidate), doubt(number(candidate)).unwrap_or(0.0)));
    scored.reduce(|a, b| if b.1 > a.1 { b } else { a }).map_or(number(0), |(number, _)| number)
}
