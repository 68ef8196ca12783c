//! Stacks that are the same, counted, and in the end written down with names.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::jit::JitSymbols;
use super::kernel::KernelSymbols;
use super::modules::{ModuleId, Modules};

/// Different stacks that are told apart.
const MOST: usize = 100_000;

/// Where code is, before it has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Frame {
    /// An address of the kernel.
    Kernel(u64),
    /// An offset in a file.
    Code(ModuleId, u64),
    /// An address of a process where code may be that comes from no file.
    Loose(u32, u64),
    /// No address of code: the chain was lost here.
    Nowhere,
}

/// How often each stack was seen.
#[derive(Default)]
pub(super) struct Counts {
    /// Name of the thread and frames, innermost first.
    stacks: HashMap<(Arc<str>, Box<[Frame]>), u64>,
    /// Samples of stacks beyond the limit.
    others: u64,
}

/// The text, and what is worth knowing of it.
#[derive(Debug, PartialEq)]
pub(super) struct Folded {
    pub text: String,
    pub distinct: usize,
    /// Share of frames, as often as they were seen, that have no name.
    pub unnamed_ratio: Option<f64>,
}

impl Counts {
    pub(super) fn add(&mut self, name: Arc<str>, frames: Vec<Frame>) {
        let key = (name, frames.into_boxed_slice());
        if let Some(count) = self.stacks.get_mut(&key) {
            *count += 1;
        } else if self.stacks.len() < MOST {
            self.stacks.insert(key, 1);
        } else {
            self.others += 1;
        }
    }

    pub(super) fn has_kernel(&self) -> bool {
        self.stacks.keys().any(|(_, frames)| frames.iter().any(|frame| matches!(frame, Frame::Kernel(_))))
    }

    /// Names every frame and writes one line for each stack, sorted.
    pub(super) fn fold(self, modules: &mut Modules, kernel: &KernelSymbols, jit: &JitSymbols) -> Folded {
        let mut names: HashMap<Frame, (String, bool)> = HashMap::new();
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        let (mut unnamed, mut all) = (0, 0);
        for ((thread, frames), count) in self.stacks {
            let mut line = clean(&thread);
            for frame in frames.iter().rev() {
                let (name, is_known) = names.entry(*frame).or_insert_with(|| {
                    let (name, is_known) = name_of(*frame, modules, kernel, jit);
                    (clean(&name), is_known)
                });
                all += count;
                unnamed += if *is_known { 0 } else { count };
                line.push(';');
                line.push_str(name);
            }
            *lines.entry(line).or_default() += count;
        }
        if self.others > 0 {
            lines.insert("[too many different stacks]".into(), self.others);
        }
        let text: String = lines.iter().map(|(line, count)| format!("{line} {count}\n")).collect();
        Folded { text, distinct: lines.len(), unnamed_ratio: (all > 0).then(|| unnamed as f64 / all as f64) }
    }
}

fn name_of(frame: Frame, modules: &mut Modules, kernel: &KernelSymbols, jit: &JitSymbols) -> (String, bool) {
    match frame {
        Frame::Kernel(address) => match kernel.name(address) {
            Some(name) => (format!("{name}_[k]"), true),
            None => ("[unknown kernel]_[k]".into(), false),
        },
        Frame::Code(module, offset) => modules.name(module, offset),
        Frame::Nowhere => ("[unknown]".into(), false),
        Frame::Loose(pid, address) => match jit.name(pid, address) {
            Some(name) => (name, true),
            None => ("[unknown]".into(), false),
        },
    }
}

/// A name that cannot be taken for two, nor for a line of its own.
fn clean(name: &str) -> String {
    if name.is_empty() {
        return "[unknown]".into();
    }
    name.chars()
        .map(|c| match c {
            ';' => ':',
            c if c.is_control() => '?',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_linux::Roots;

    #[test]
    fn lines_are_sorted_counted_and_outermost_first() {
        let mut counts = Counts::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a;b\n".into(), "b".into());
        counts.add(b.clone(), vec![Frame::Loose(1, 1), Frame::Loose(1, 9)]);
        counts.add(a, vec![Frame::Kernel(5), Frame::Loose(1, 1)]);
        counts.add(b.clone(), vec![Frame::Loose(1, 2), Frame::Loose(1, 9)]);
        counts.add(b, vec![]);
        let folded = counts.fold(
            &mut Modules::new(&Roots::default()),
            &KernelSymbols::default(),
            &JitSymbols::default(),
        );
        let text = "a:b?;[unknown];[unknown kernel]_[k] 1\nb 1\nb;[unknown];[unknown] 2\n";
        assert_eq!(folded, Folded { text: text.into(), distinct: 3, unnamed_ratio: Some(1.0) });
    }
}
