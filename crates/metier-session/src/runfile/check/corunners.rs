//! Companions and neighbours of a run, each written inline or in its own file.

use std::path::Path;

use super::super::checked::CheckedRun;
use super::super::document::shortened;
use super::super::fault::{RunFileFault, RunFileFaults};
use super::super::file::NestedRun;
use super::RunFileCheck;

const MAX_CORUNNERS: usize = 16;

impl RunFileCheck {
    pub(super) fn check_corunners(&mut self, others: &[NestedRun], path: &str) -> Vec<CheckedRun> {
        if others.len() > MAX_CORUNNERS {
            self.wrong(path.to_string(), &others.len().to_string(), "at most 16 runs");
            return Vec::new();
        }
        let mut list = Vec::new();
        for (index, other) in others.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match other {
                NestedRun::Run(file) => {
                    if file.repeats.is_some() || file.warmup.is_some() {
                        let want = "neither repeats nor warmup: it lasts as long as it is wanted";
                        self.faults.push(RunFileFault::new(&path, "a run with repeats or warmup", want));
                    }
                    list.push(self.run((**file).clone(), &path));
                }
                NestedRun::File(name) => match load(Path::new(name)) {
                    Ok(checked) => list.push(checked),
                    Err(CoRunnerLoadFailure::Unreadable(why)) => {
                        let got = format!("{:?}, which cannot be read ({why})", shortened(name));
                        self.faults.push(RunFileFault::new(&path, got, "the path of a run file"));
                    }
                    Err(CoRunnerLoadFailure::Faulty(faults)) => {
                        self.faults.extend(faults.in_file(Path::new(name)).0)
                    }
                },
            }
        }
        list
    }
}

enum CoRunnerLoadFailure {
    Unreadable(String),
    Faulty(RunFileFaults),
}

/// Reads the file of a co-runner. Its own co-runners must be inline, which bounds the nesting.
fn load(path: &Path) -> Result<CheckedRun, CoRunnerLoadFailure> {
    let text =
        super::super::read_text(path).map_err(|why| CoRunnerLoadFailure::Unreadable(why.to_string()))?;
    let (mut file, origins) = super::super::parse(&text).map_err(CoRunnerLoadFailure::Faulty)?;
    let others = file.needs.iter().chain(&file.with);
    if others.into_iter().any(|other| matches!(other, NestedRun::File(_))) {
        let want = "its company in line: files of files of files have no end";
        return Err(CoRunnerLoadFailure::Faulty(
            RunFileFault::new("needs", "the path of a file", want).into(),
        ));
    }
    file.resolve_paths(path.parent().unwrap_or(Path::new(".")));
    file.check(&origins).map_err(CoRunnerLoadFailure::Faulty)
}
