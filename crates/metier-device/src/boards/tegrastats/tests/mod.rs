//! Every value of the recorded lines (`lines`), every shape that a release prints (`shapes`), and
//! arbitrary bytes.

use metier_types::Bytes;
use proptest::prelude::*;

use super::*;
use crate::boards::recorded;

mod lines;
mod shapes;

const MB: u64 = 1 << 20;
const KB: u64 = 1 << 10;

#[test]
fn what_is_not_known_is_kept_and_bends_nothing_else() {
    let text =
        "RAM 700/32000MB (lfb 7x4MB) CPU [2%@1190,off] EMC_FREQ 0%@665 GPU@37.5C CPU@37C GPU 0/0 CPU 311/311";
    let plain = TegrastatsLine::parse(text);
    let words: Vec<&str> = text.split(' ').collect();
    // A name must stay next to its value, so only positions between fields are tried.
    for at in [0, words.iter().position(|word| *word == "EMC_FREQ").unwrap(), words.len()] {
        let mut with = words.clone();
        with.insert(at, "WARP_CORE stable 9.75 (hot & cold) x@y NEW_UNIT 42 OTHER off");
        let line = TegrastatsLine::parse(&with.join(" "));
        assert_eq!(line.board, plain.board);
        let texts = ["WARP_CORE", "stable", "9.75", "(hot & cold)", "x@y", "NEW_UNIT", "42", "OTHER", "off"];
        assert_eq!(line.unknown, texts);
    }
}

#[test]
fn a_line_that_was_cut_loses_only_its_end() {
    for line in recorded::lines().iter().step_by(3).take(24) {
        let whole = TegrastatsLine::parse(line);
        for cut in 0..line.len() {
            let part = TegrastatsLine::parse(&line[..cut]);
            assert!(
                part.board.ram.is_none()
                    || part.board.ram.unwrap().total_bytes == whole.board.ram.unwrap().total_bytes
            );
            // The clock after the core list may be truncated; the loads may not.
            let loads = |line: &TegrastatsLine| {
                line.board.cores.iter().map(|core| core.load_ratio).collect::<Vec<_>>()
            };
            assert!(part.board.cores.is_empty() || loads(&part) == loads(&whole), "{:?}", &line[..cut]);
            let rails = part.board.rails.len();
            // Only the digits of the last rail's mean may be truncated.
            let (got, want) = (&part.board.rails[..rails.saturating_sub(1)], &whole.board.rails);
            assert_eq!(got, &want[..got.len()]);
        }
    }
}

#[test]
fn nonsense_is_kept_and_overflow_is_nonsense() {
    for token in [
        "99999999999999999999/1MB",
        "99999999999999/99999999999999999GB",
        "1/2/3/4",
        "1mW/2",
        "1/2mW",
        "-",
        "@",
        "%",
        "[]",
        "[1%@]",
        "@[",
        "@[]",
        "1e3/5",
        "+1/2",
        "nan%",
        "1.%",
        "inf%@inf",
        "1%@@2",
    ] {
        let line = TegrastatsLine::parse(&format!("RAIL {token}"));
        assert!(line.board.is_empty(), "{token}: {line:?}");
        assert_eq!(line.unknown, ["RAIL", token]);
    }
    for stamp in ["13-40-2024 10:00:00", "07-09-2024 25:00:00", "7-9-2024 10:00:00", "07-09-2024 10:00"] {
        let line = TegrastatsLine::parse(stamp);
        assert!(line.stamp.is_none() && line.unknown.len() == 2, "{line:?}");
    }
}

#[test]
fn a_second_field_of_the_same_kind_does_not_replace_the_first() {
    let line = TegrastatsLine::parse("RAM 1/2MB CPU [1%@1] RAM 3/4MB CPU [2%@2]");
    assert_eq!(line.board.ram.unwrap().used_bytes, Bytes(MB));
    assert_eq!(line.board.cores.len(), 1);
    assert_eq!(line.unknown, ["RAM", "3/4MB", "CPU", "[2%@2]"]);
}

static REAL: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(recorded::lines);

proptest! {
    #[test]
    fn any_bytes_give_a_line(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = TegrastatsLine::parse_bytes(&bytes);
    }

    #[test]
    fn any_mixture_of_the_letters_of_real_lines_gives_a_line(text in "[A-Z0-9a-z@%/,.()\\[\\] \t_-]{0,200}") {
        let _ = TegrastatsLine::parse(&text);
    }

    #[test]
    fn a_mutated_real_line_gives_a_line_and_loses_no_token(
        number in any::<proptest::sample::Index>(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0..3_u8), 0..8),
    ) {
        let lines = &*REAL;
        let mut bytes = number.get(lines).as_bytes().to_vec();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => { bytes.remove(at); }
                _ => {}
            }
        }
        let line = TegrastatsLine::parse_bytes(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(line.unknown.iter().all(|token| text.contains(token.as_str())));
    }
}
