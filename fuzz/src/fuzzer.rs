//! The loop of a target: an input is mutated and run, and kept if it took a new edge.
//!
//! A finding is a panic, or an input that runs longer than [`MAX_INPUT_TIME`]. Its input is written
//! to the folder of findings: `metier-fuzz TARGET --input FILE` runs it again.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier_types::LockUnpoisoned;
use metier_types::random::{SplitMix64, hash_name};

use crate::coverage::CoverageMap;
use crate::mutation::mutate;
use crate::targets::FuzzTarget;

/// Longest time of one input; debug builds on a busy machine are slow.
const MAX_INPUT_TIME: Duration = Duration::from_secs(20);

/// The outcome of a target.
pub struct FuzzResult {
    name: &'static str,
    inputs: u64,
    kept: usize,
    edges: usize,
    /// Where the input of a finding is, and what happened.
    pub finding: Option<(PathBuf, String)>,
}

impl fmt::Display for FuzzResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, inputs, kept, edges, finding } = self;
        write!(f, "{name}: {inputs} inputs, {kept} kept, {edges} edges: ")?;
        match finding {
            None => f.write_str("nothing found"),
            Some((path, what)) => write!(f, "FOUND {what}\n  metier-fuzz {name} --input {}", path.display()),
        }
    }
}

/// The input under way, and since when.
type CurrentInput = Arc<Mutex<Option<(Instant, Vec<u8>)>>>;

pub fn fuzz(target: &FuzzTarget, time: Duration, seed: u64, folder: &Path) -> anyhow::Result<FuzzResult> {
    let mut random = SplitMix64::new(seed ^ hash_name(target.name));
    let mut coverage = CoverageMap::new();
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    let mut seeds = (target.seeds)();
    seeds.push(Vec::new());
    let current = CurrentInput::default();
    watch_time(target.name, current.clone(), folder.to_path_buf());
    let end = Instant::now() + time;
    let mut inputs = 0;
    let mut finding = None;
    while finding.is_none() && (!seeds.is_empty() || Instant::now() < end) {
        let (input, is_seed) = match seeds.pop() {
            Some(seed) => (seed, true),
            None => {
                let pick = |random: &mut SplitMix64| random.next_below(corpus.len());
                let (one, other) = (pick(&mut random), pick(&mut random));
                (mutate(&corpus[one], &corpus[other], &mut random), false)
            }
        };
        *current.lock_unpoisoned() = Some((Instant::now(), input.clone()));
        coverage.reset();
        let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        *current.lock_unpoisoned() = None;
        inputs += 1;
        if let Err(panic) = ended {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            let path = keep_finding(folder, target.name, &input)?;
            finding = Some((path, text.unwrap_or_else(|| "a panic".to_string())));
        }
        if coverage.take() || is_seed {
            corpus.push(input);
        }
    }
    Ok(FuzzResult { name: target.name, inputs, kept: corpus.len(), edges: coverage.edges(), finding })
}

fn keep_finding(folder: &Path, name: &str, input: &[u8]) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("{name}-{}", std::process::id()));
    std::fs::write(&path, input)?;
    Ok(path)
}

/// Ends the program when an input runs too long.
fn watch_time(name: &'static str, current: CurrentInput, folder: PathBuf) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let current = current.lock_unpoisoned();
            let Some((since, input)) = current.as_ref() else { continue };
            if since.elapsed() > MAX_INPUT_TIME {
                let path = keep_finding(&folder, name, input);
                eprintln!("{name}: FOUND an input that runs longer than {MAX_INPUT_TIME:?}: {path:?}");
                std::process::exit(1);
            }
        }
    });
}
