//! The runs that it needs and those beside it, each written in line or in a file of its own.

use std::path::Path;

use super::super::checked::Checked;
use super::super::fault::{Fault, Faults};
use super::super::file::Other;
use super::super::node::shortened;
use super::Check;

const MOST_OTHERS: usize = 16;

impl Check {
    pub(super) fn others(&mut self, others: &[Other], path: &str) -> Vec<Checked> {
        if others.len() > MOST_OTHERS {
            self.wrong(path.to_string(), &others.len().to_string(), "at most 16 runs");
            return Vec::new();
        }
        let mut list = Vec::new();
        for (index, other) in others.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match other {
                Other::Run(file) => {
                    if file.repeats.is_some() || file.warmup.is_some() {
                        let want = "neither repeats nor warmup: it lasts as long as it is wanted";
                        self.faults.push(Fault::new(&path, "a run with repeats or warmup", want));
                    }
                    list.push(self.run((**file).clone(), &path));
                }
                Other::File(name) => match load(Path::new(name)) {
                    Ok(checked) => list.push(checked),
                    Err(Loading::Unreadable(why)) => {
                        let got = format!("{:?}, which cannot be read ({why})", shortened(name));
                        self.faults.push(Fault::new(&path, got, "the path of a run file"));
                    }
                    Err(Loading::Faulty(faults)) => self.faults.extend(faults.of(Path::new(name)).0),
                },
            }
        }
        list
    }
}

enum Loading {
    Unreadable(String),
    Faulty(Faults),
}

/// Another run's file. It may have company of its own only in line, which bounds how deep this goes.
fn load(path: &Path) -> Result<Checked, Loading> {
    let text = super::super::read_text(path).map_err(|why| Loading::Unreadable(why.to_string()))?;
    let (mut file, origins) = super::super::parse(&text).map_err(Loading::Faulty)?;
    let others = file.needs.iter().chain(&file.with);
    if others.into_iter().any(|other| matches!(other, Other::File(_))) {
        let want = "its company in line: files of files of files have no end";
        return Err(Loading::Faulty(Fault::new("needs", "the path of a file", want).into()));
    }
    file.beside(path.parent().unwrap_or(Path::new(".")));
    file.check(&origins).map_err(Loading::Faulty)
}
