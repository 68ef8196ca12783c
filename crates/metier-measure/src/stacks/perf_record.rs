//! Records in a perf ring buffer.
//!
//! Every record has a header of 8 bytes (kind, flags, size) and, because it was requested, its
//! time: at the end, or at a fixed offset in a sample. Inconsistent records are skipped, although
//! the kernel wrote them.

use perf_event_open_sys::bindings as b;

/// Values from here up are context marks inside a chain, not addresses.
const CONTEXT_MARKS: u64 = u64::MAX - 4095;
/// Marks: kernel frames follow, or user frames.
const KERNEL_MARK: u64 = -128_i64 as u64;
const USER_MARK: u64 = -512_i64 as u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PerfRecord {
    /// A stack, innermost frame first.
    Sample {
        pid: u32,
        tid: u32,
        kernel: Vec<u64>,
        user: Vec<u64>,
    },
    /// A file was mapped as executable.
    Mapped(ExecutableMapping),
    /// A thread was named; with `exec` its process became another program.
    Named {
        pid: u32,
        tid: u32,
        name: String,
        exec: bool,
    },
    /// A thread or process was created.
    Forked {
        pid: u32,
        parent: u32,
        tid: u32,
        parent_tid: u32,
    },
    Ended {
        pid: u32,
        tid: u32,
    },
    /// Number of lost records.
    Lost(u64),
}

/// A file mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExecutableMapping {
    pub pid: u32,
    pub start: u64,
    pub length: u64,
    pub offset: u64,
    pub file: (u32, u32, u64),
    pub path: String,
}

/// Splits a buffer into records with their times.
pub(super) fn parse_records(mut bytes: &[u8], into: &mut Vec<(u64, PerfRecord)>) {
    while let (Some(kind), Some(flags), Some(size)) = (u32_at(bytes, 0), u16_at(bytes, 4), u16_at(bytes, 6)) {
        let size = usize::from(size);
        let Some(body) = bytes.get(8..size) else { return };
        into.extend(parse_record(kind, flags, body));
        bytes = &bytes[size..];
    }
}

fn parse_record(kind: u32, flags: u16, body: &[u8]) -> Option<(u64, PerfRecord)> {
    let trailer = || u64_at(body, body.len().checked_sub(8)?);
    let pair = |at: usize| Some((u32_at(body, at)?, u32_at(body, at + 4)?));
    // Text ends at its NUL; the last 16 bytes are process, thread and time.
    let text = |at: usize| {
        let bytes = body.get(at..body.len().checked_sub(16)?)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    match kind {
        b::PERF_RECORD_SAMPLE => {
            let (pid, tid) = pair(8)?;
            let count = usize::try_from(u64_at(body, 24)?).ok()?;
            let chain = body.get(32..32_usize.checked_add(count.checked_mul(8)?)?)?;
            let (kernel, user) = split_chain(chain.chunks_exact(8).filter_map(|word| u64_at(word, 0)));
            Some((u64_at(body, 16)?, PerfRecord::Sample { pid, tid, kernel, user }))
        }
        b::PERF_RECORD_MMAP2 => {
            let mapping = ExecutableMapping {
                pid: pair(0)?.0,
                start: u64_at(body, 8)?,
                length: u64_at(body, 16)?,
                offset: u64_at(body, 24)?,
                file: (u32_at(body, 32)?, u32_at(body, 36)?, u64_at(body, 40)?),
                path: text(64)?,
            };
            Some((trailer()?, PerfRecord::Mapped(mapping)))
        }
        b::PERF_RECORD_COMM => {
            let (pid, tid) = pair(0)?;
            let exec = u32::from(flags) & b::PERF_RECORD_MISC_COMM_EXEC != 0;
            Some((trailer()?, PerfRecord::Named { pid, tid, name: text(8)?, exec }))
        }
        b::PERF_RECORD_FORK => {
            let ((pid, parent), (tid, parent_tid)) = (pair(0)?, pair(8)?);
            Some((trailer()?, PerfRecord::Forked { pid, parent, tid, parent_tid }))
        }
        b::PERF_RECORD_EXIT => {
            let ((pid, _), (tid, _)) = (pair(0)?, pair(8)?);
            Some((trailer()?, PerfRecord::Ended { pid, tid }))
        }
        b::PERF_RECORD_LOST => Some((trailer()?, PerfRecord::Lost(u64_at(body, 8)?))),
        b::PERF_RECORD_LOST_SAMPLES => Some((trailer()?, PerfRecord::Lost(u64_at(body, 0)?))),
        _ => None,
    }
}

/// The kernel's and the program's part of a chain.
fn split_chain(chain: impl Iterator<Item = u64>) -> (Vec<u64>, Vec<u64>) {
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let mut now = None;
    for address in chain {
        match address {
            KERNEL_MARK | USER_MARK => now = Some(address),
            CONTEXT_MARKS.. => now = None,
            _ if now == Some(KERNEL_MARK) => kernel.push(address),
            _ if now == Some(USER_MARK) => user.push(address),
            _ => {}
        }
    }
    (kernel, user)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(kind: u32, flags: u16, body: &[u8]) -> Vec<u8> {
        let size = (body.len() + 8) as u16;
        [&kind.to_ne_bytes()[..], &flags.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_chain_is_split_at_its_marks_and_records_follow_each_other() {
        let ids = u64::from_ne_bytes([7_u32.to_ne_bytes(), 8_u32.to_ne_bytes()].concat().try_into().unwrap());
        let sample = words(&[0x10, ids, 99, 6, KERNEL_MARK, 0xff1, 0xff2, USER_MARK, 0x10, 0x20]);
        let mut name = words(&[ids]);
        name.extend(b"sort\0\0\0\0");
        name.extend(words(&[ids, 100]));
        let mut buffer = bytes(b::PERF_RECORD_SAMPLE, 0, &sample);
        buffer.extend(bytes(b::PERF_RECORD_COMM, b::PERF_RECORD_MISC_COMM_EXEC as u16, &name));
        buffer.extend(bytes(b::PERF_RECORD_LOST, 0, &words(&[1, 42, ids, 101])));
        let mut got = Vec::new();
        parse_records(&buffer, &mut got);
        assert_eq!(
            got,
            [
                (
                    99,
                    PerfRecord::Sample { pid: 7, tid: 8, kernel: vec![0xff1, 0xff2], user: vec![0x10, 0x20] }
                ),
                (100, PerfRecord::Named { pid: 7, tid: 8, name: "sort".into(), exec: true }),
                (101, PerfRecord::Lost(42)),
            ]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_cut_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            parse_records(&bytes, &mut Vec::new());
        }

        #[test]
        fn any_body_of_a_known_kind_is_taken_or_left(kind in 1_u32..14, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse_records(&bytes(kind, 0, &body), &mut Vec::new());
        }
    }
}
