//! Captures the engine's log of an inference from stdout and parses it.
//!
//! Each operator has some lines:
//!
//! ```text
//! #12 Conv (name of the node)
//!   input 0: name of a value (tensor(f32) [1, 3, 8, 8])
//!   output 0: name of a value ([1, 8, 8, 8])
//!   time: 0.123ms
//! ```
//!
//! Operators of a subgraph come before the control flow operator that holds them. Its time includes
//! theirs, so control flow is omitted.

use std::io::{Read as _, Seek as _, Write as _};

use crate::{EngineOperatorTime, Error};

/// Largest number of log bytes read.
const MAX_LOG_BYTES: u64 = 256 << 20;

/// Runs `work`, and returns this process's output to stdout meanwhile.
pub(super) fn capture_stdout<T>(work: impl FnOnce() -> T) -> Result<(T, String), Error> {
    let failed = |what: &str, error: std::io::Error| Error::Operators(format!("{what}: {error}"));
    let mut file = create_memory_file().map_err(|error| failed("no file for the engine's log", error))?;
    let mut stdout = std::io::stdout().lock();
    stdout.flush().map_err(|error| failed("stdout", error))?;
    let original = rustix::io::dup(&stdout).map_err(|error| failed("stdout", error.into()))?;
    drop(stdout);
    rustix::stdio::dup2_stdout(&file).map_err(|error| failed("stdout", error.into()))?;
    // Restore stdout even after a panic.
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    let flushed = std::io::stdout().lock().flush();
    rustix::stdio::dup2_stdout(&original).map_err(|error| failed("stdout", error.into()))?;
    let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    flushed.map_err(|error| failed("the engine's log", error))?;
    let mut bytes = Vec::new();
    file.rewind().map_err(|error| failed("the engine's log", error))?;
    file.take(MAX_LOG_BYTES).read_to_end(&mut bytes).map_err(|error| failed("the engine's log", error))?;
    Ok((done, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Creates an anonymous file in memory.
fn create_memory_file() -> std::io::Result<std::fs::File> {
    Ok(rustix::fs::memfd_create("metier-operators", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// Operators of a log in execution order.
pub(super) fn parse_log(text: &str) -> Vec<EngineOperatorTime> {
    let mut all = Vec::new();
    let mut open: Option<EngineOperatorTime> = None;
    for line in text.lines() {
        if let Some(head) = line.strip_prefix('#') {
            open = parse_header(head);
        } else if let Some(operator) = &mut open {
            if let Some(value) = value_name(line, "  input ", " (tensor(")
                .or_else(|| value_name(line, "  input ", " (sequence("))
            {
                operator.inputs.push(value);
            } else if let Some(value) = value_name(line, "  output ", " ([") {
                operator.outputs.push(value);
            } else if let Some(time) = line.strip_prefix("  time: ").and_then(|time| time.strip_suffix("ms"))
                && let (Ok(milliseconds), Some(mut operator)) = (time.parse::<f64>(), open.take())
                && !matches!(operator.kind.as_str(), "If" | "Loop" | "Scan")
            {
                operator.seconds = milliseconds / 1e3;
                all.push(operator);
            }
        }
    }
    all
}

/// Parses `12 Conv (name)`.
fn parse_header(head: &str) -> Option<EngineOperatorTime> {
    let (_, rest) = head.split_once(' ')?;
    let (kind, name) = rest.split_once(" (")?;
    let name = name.strip_suffix(')')?;
    Some(EngineOperatorTime {
        name: name.to_string(),
        kind: kind.to_string(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        seconds: 0.0,
    })
}

/// Parses the name in `  input 0: name (…`; it may contain anything except the end marker.
fn value_name(line: &str, begin: &str, end: &str) -> Option<String> {
    let (_, rest) = line.strip_prefix(begin)?.split_once(": ")?;
    Some(rest.rsplit_once(end)?.0.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "#0 Conv (conv (1))\n  input 0: x: y (a) (tensor(f32) [1, 3])\n  output 0: z ([1, 8])\n  time: 0.250ms\n\
        #0 Relu ()\n  output 0: r ([1])\n  time: 1.000ms\n#1 If (branch)\n  output 0: q ([1])\n  time: 1.100ms\n3 ops evaluated in 1ms\n";

    #[test]
    fn a_log_is_read_operator_by_operator_without_control_flow() {
        let all = parse_log(LOG);
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!(
            (all[0].name.as_str(), all[0].kind.as_str(), all[0].seconds),
            ("conv (1)", "Conv", 0.000_25)
        );
        assert_eq!(
            (all[0].inputs.clone(), all[0].outputs.clone()),
            (vec!["x: y (a)".into()], vec!["z".to_string()])
        );
        assert_eq!((all[1].name.as_str(), all[1].seconds), ("", 0.001));
    }
}
