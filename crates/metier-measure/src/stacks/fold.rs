//! Counts equal stacks and writes them with names at the end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::code_modules::{CodeModules, ModuleId};
use super::jit_symbols::JitSymbols;
use super::kernel_symbols::KernelSymbols;

/// Maximum number of distinct stacks.
const MAX_STACKS: usize = 100_000;

/// A code location without a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum UnresolvedFrame {
    /// An address of the kernel.
    Kernel(u64),
    /// An offset in a file.
    Code(ModuleId, u64),
    /// A process address in executable memory without a file.
    Anonymous(u32, u64),
    /// Not an address of code: the chain is broken here.
    Unmapped,
}

/// Count of each stack.
#[derive(Default)]
pub(super) struct StackCounts {
    /// Name of the thread and frames, innermost first.
    stacks: HashMap<(Arc<str>, Box<[UnresolvedFrame]>), u64>,
    /// Samples of stacks beyond the limit.
    others: u64,
}

/// The folded text, with statistics.
#[derive(Debug, PartialEq)]
pub(super) struct FoldedStacks {
    pub text: String,
    pub distinct: usize,
    /// Share of frames without a name, weighted by their counts.
    pub unnamed_ratio: Option<f64>,
}

impl StackCounts {
    pub(super) fn count_stack(&mut self, name: Arc<str>, frames: Vec<UnresolvedFrame>) {
        let key = (name, frames.into_boxed_slice());
        if let Some(count) = self.stacks.get_mut(&key) {
            *count += 1;
        } else if self.stacks.len() < MAX_STACKS {
            self.stacks.insert(key, 1);
        } else {
            self.others += 1;
        }
    }

    pub(super) fn has_kernel(&self) -> bool {
        self.stacks
            .keys()
            .any(|(_, frames)| frames.iter().any(|frame| matches!(frame, UnresolvedFrame::Kernel(_))))
    }

    /// Names every frame and writes one line for each stack, sorted.
    pub(super) fn fold_stacks(
        self,
        modules: &mut CodeModules,
        kernel: &KernelSymbols,
        jit: &JitSymbols,
    ) -> FoldedStacks {
        let mut names: HashMap<UnresolvedFrame, (String, bool)> = HashMap::new();
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        let (mut unnamed, mut all) = (0, 0);
        for ((thread, frames), count) in self.stacks {
            let mut line = clean_name(&thread);
            for frame in frames.iter().rev() {
                let (name, is_known) = names.entry(*frame).or_insert_with(|| {
                    let (name, is_known) = frame_name(*frame, modules, kernel, jit);
                    (clean_name(&name), is_known)
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
        FoldedStacks {
            text,
            distinct: lines.len(),
            unnamed_ratio: (all > 0).then(|| unnamed as f64 / all as f64),
        }
    }
}

fn frame_name(
    frame: UnresolvedFrame,
    modules: &mut CodeModules,
    kernel: &KernelSymbols,
    jit: &JitSymbols,
) -> (String, bool) {
    match frame {
        UnresolvedFrame::Kernel(address) => match kernel.name_at(address) {
            Some(name) => (format!("{name}_[k]"), true),
            None => ("[unknown kernel]_[k]".into(), false),
        },
        UnresolvedFrame::Code(module, offset) => modules.name_at(module, offset),
        UnresolvedFrame::Unmapped => ("[unknown]".into(), false),
        UnresolvedFrame::Anonymous(pid, address) => match jit.name_at(pid, address) {
            Some(name) => (name, true),
            None => ("[unknown]".into(), false),
        },
    }
}

/// Replaces characters that would split a name or a line.
fn clean_name(name: &str) -> String {
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
    use metier_linux::KernelRoots;

    #[test]
    fn lines_are_sorted_counted_and_outermost_first() {
        let mut counts = StackCounts::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a;b\n".into(), "b".into());
        counts
            .count_stack(b.clone(), vec![UnresolvedFrame::Anonymous(1, 1), UnresolvedFrame::Anonymous(1, 9)]);
        counts.count_stack(a, vec![UnresolvedFrame::Kernel(5), UnresolvedFrame::Anonymous(1, 1)]);
        counts
            .count_stack(b.clone(), vec![UnresolvedFrame::Anonymous(1, 2), UnresolvedFrame::Anonymous(1, 9)]);
        counts.count_stack(b, vec![]);
        let folded = counts.fold_stacks(
            &mut CodeModules::new(&KernelRoots::default()),
            &KernelSymbols::default(),
            &JitSymbols::default(),
        );
        let text = "a:b?;[unknown];[unknown kernel]_[k] 1\nb 1\nb;[unknown];[unknown] 2\n";
        assert_eq!(folded, FoldedStacks { text: text.into(), distinct: 3, unnamed_ratio: Some(1.0) });
    }
}
