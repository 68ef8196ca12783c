//! The lines of `/proc/stat` and `/proc/PID/stat` that tell time on processors, in ticks.

/// The fields of `/proc/PID/stat` that count.
#[derive(Debug, PartialEq)]
pub struct Stat<'a> {
    pub name: &'a str,
    pub parent: u32,
    /// What it used, in programs and in the kernel.
    pub own: u64,
    /// What its children used that it has waited for, and theirs.
    pub children: u64,
    /// When it started: with the pid, who it is.
    pub started: u64,
}

impl<'a> Stat<'a> {
    /// A name may hold blanks and brackets: it ends at the last one that closes.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (front, rest) = text.rsplit_once(')')?;
        let name = front.split_once('(')?.1;
        let mut fields = rest.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let mut ticks = |skipped: usize| fields.nth(skipped)?.parse::<u64>().ok();
        let own = ticks(9)?.saturating_add(ticks(0)?);
        let children = ticks(0)?.saturating_add(ticks(0)?);
        let started = ticks(4)?;
        Some(Self { name, parent, own, children, started })
    }
}

/// Time that all processors together were busy: not idle, not waiting for storage, not given to other machines.
pub fn busy(text: &str) -> Option<u64> {
    let first = text.lines().next()?.strip_prefix("cpu ")?;
    let columns: Vec<u64> = first.split_ascii_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq; guests are in `user` already.
    let [user, nice, system, _, _, irq, softirq, ..] = columns[..] else { return None };
    Some(user + nice + system + irq + softirq)
}
