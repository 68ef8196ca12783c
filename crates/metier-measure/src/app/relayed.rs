//! What the ears of a pod on another machine heard, understood here after its end.
//!
//! The file is that of `metier-launch/src/ears.rs`, which says its form. It comes from another machine, so nothing in it is believed: lengths are
//! checked, connections are bounded, and what makes no sense ends the reading with a reason.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use metier_types::{Missing, StageSource};

use super::descriptor;
use super::follow::Follow;
use super::frame::{Form, Framer, Frames};
use super::heard::Heard;
use super::intake::{Intake, Limits};
use super::listening::{FIFO, INSIDE, LOG, SOCKET, Ways, heard_of, understand};
use super::socket;

/// The name of the file in the folder that the two containers share.
pub const HEARD: &str = "heard";
/// How the file begins.
const HEAD: &[u8; 16] = b"metier-heard-1\n\0";
/// The longest record.
const LONGEST: usize = 1 << 17;
/// Connections that are open at once.
const CALLERS: usize = 1024;

/// The letters by which the ears are told what to listen to; none of them: there is nothing that they could do.
pub fn letters(ways: &Ways) -> String {
    [(ways.socket, 's'), (ways.lines, 'l'), (ways.pywaggle, 'p')]
        .into_iter()
        .filter_map(|(is_asked, letter)| is_asked.then_some(letter))
        .collect()
}

/// Variables that tell the application where the ears are.
pub fn environment(ways: &Ways) -> Vec<(String, String)> {
    let inside = Path::new(INSIDE);
    let mut variables = Vec::new();
    let mut tell = |name: &str, path: PathBuf| {
        variables.push((name.to_string(), path.to_string_lossy().into_owned()));
    };
    if ways.socket {
        let path = inside.join(SOCKET);
        tell("METIER_DATAGRAMS", socket::datagram_path(&path));
        tell("METIER_SOCKET", path);
    }
    if ways.lines {
        tell("METIER_LINES", inside.join(FIFO));
    }
    if ways.pywaggle {
        tell("PYWAGGLE_LOG_DIR", inside.join(LOG));
    }
    variables
}

/// Understands what was brought: the ears' file, and pywaggle's.
pub fn understand_files(heard: Option<&Path>, log: Option<&Path>) -> Heard {
    let mut intake = Intake::new(Limits { speakers: 1, ..Limits::default() });
    let mut problems = Vec::new();
    if let Some(path) = heard {
        let read =
            std::fs::File::open(path).and_then(|file| records(&mut io::BufReader::new(file), &mut intake));
        if let Err(error) = read {
            let reason = format!("what was heard in the pod came back broken: {error}");
            problems.push(("relayed".to_string(), Missing::because(reason)));
        }
    }
    if let Some(path) = log {
        let mut follow = Follow::from_start(path.into(), Form::Json);
        loop {
            let mut frames = Frames::default();
            let more = follow.read(&mut frames).unwrap_or_default();
            if !more {
                follow.end(&mut frames);
            }
            understand(&mut intake, &(), StageSource::Pywaggle, &frames, descriptor::now_ns());
            if !more {
                break;
            }
        }
    }
    heard_of(&intake, 0, 0, problems)
}

fn records(input: &mut impl Read, intake: &mut Intake<()>) -> io::Result<()> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it has another form");
    let mut head = [0; 24];
    input.read_exact(&mut head)?;
    if head[..16] != HEAD[..] {
        return Err(wrong());
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
    let dropped = number(&head[16..]);
    if dropped > 0 {
        intake.dropped(&(), dropped);
    }
    let mut callers: BTreeMap<u64, Framer> = BTreeMap::new();
    let mut lines = Framer::new(Form::Lines);
    let mut content = Vec::new();
    let mut head = [0; 17];
    let mut last_ns = descriptor::now_ns();
    loop {
        match input.read(&mut head[..1])? {
            0 => break,
            _ => input.read_exact(&mut head[1..])?,
        }
        let (kind, caller, length) = (head[0], number(&head[1..5]), number(&head[13..]) as usize);
        last_ns = i64::try_from(number(&head[5..13])).map_err(|_| wrong())?;
        if length > LONGEST {
            return Err(wrong());
        }
        content.resize(length, 0);
        input.read_exact(&mut content)?;
        let mut frames = Frames::default();
        let source = match kind {
            b'l' => {
                lines.push(&content, &mut frames);
                StageSource::Lines
            }
            b'g' => {
                let mut framer = Framer::new(Form::Json);
                framer.push(&content, &mut frames);
                framer.end(&mut frames);
                StageSource::Socket
            }
            b's' if callers.len() < CALLERS || callers.contains_key(&caller) => {
                callers.entry(caller).or_insert_with(|| Framer::new(Form::Json)).push(&content, &mut frames);
                StageSource::Socket
            }
            b'e' => {
                if let Some(mut framer) = callers.remove(&caller) {
                    framer.end(&mut frames);
                }
                StageSource::Socket
            }
            _ => return Err(wrong()),
        };
        understand(intake, &(), source, &frames, last_ns);
    }
    let mut frames = Frames::default();
    lines.end(&mut frames);
    understand(intake, &(), StageSource::Lines, &frames, last_ns);
    let mut frames = Frames::default();
    callers.values_mut().for_each(|framer| framer.end(&mut frames));
    understand(intake, &(), StageSource::Socket, &frames, last_ns);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, caller: u32, seconds: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend(caller.to_le_bytes());
        bytes.extend((seconds * 1_000_000_000).to_le_bytes());
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(content);
        bytes
    }

    fn file(dropped: u64, records: &[Vec<u8>]) -> Vec<u8> {
        [HEAD.to_vec(), dropped.to_le_bytes().to_vec(), records.concat()].concat()
    }

    #[test]
    fn messages_of_two_connections_that_arrived_in_pieces_are_understood() {
        let bytes = file(
            3,
            &[
                record(b's', 1, 10, b"{\"one\":{\"value\":1,"),
                record(b's', 2, 10, b"{\"two\":2}\n\n"),
                record(b's', 1, 11, b"\"timestamp\":11}}"),
                record(b'l', 0, 12, b"frames 2 co"),
                record(b'l', 0, 13, b"unt\n"),
                record(b'g', 0, 14, b"{\"three\":3}"),
                record(b'e', 1, 15, b""),
            ],
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(HEARD);
        std::fs::write(&path, &bytes).unwrap();
        let heard = understand_files(Some(&path), None);
        let mut found: Vec<(&str, u64)> = heard.stages.iter().map(|s| (s.name.as_str(), s.count)).collect();
        found.sort_unstable();
        assert_eq!(found, [("frames", 2), ("one", 1), ("three", 1), ("two", 1)]);
        assert_eq!(heard.counts.dropped, 3);
        assert!(heard.problems.is_empty(), "{:?}", heard.problems);
    }

    #[test]
    fn no_bytes_do_harm_and_what_is_broken_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(HEARD);
        let good = file(0, &[record(b'l', 0, 1, b"a 1\n"), record(b'l', 0, 2, b"b 2\n")]);
        for cut in 0..good.len() {
            std::fs::write(&path, &good[..cut]).unwrap();
            let heard = understand_files(Some(&path), None);
            let is_whole = cut == 24 || cut == 24 + 21;
            assert_eq!(heard.problems.is_empty(), is_whole, "{cut}");
        }
        let mut wrong = good.clone();
        wrong[24 + 13..24 + 17].copy_from_slice(&u32::MAX.to_le_bytes());
        std::fs::write(&path, &wrong).unwrap();
        assert_eq!(understand_files(Some(&path), None).problems.len(), 1);
    }
}
