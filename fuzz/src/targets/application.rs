//! Any bytes from an application: lines, socket messages, pywaggle's log. The split into reads does
//! not matter, and every accepted message can be counted.

use metier_measure::app::message_framer::{FrameFormat, MessageFramer, MessageFrames};
use metier_measure::app::{AppMessage, IntakeLimits, MessageIntake, line_protocol, pywaggle, socket};

use super::{FuzzTarget, texts};

pub const TARGET: FuzzTarget = FuzzTarget { name: "application", seeds, run };

/// The time of reading of all input.
const NOW: i64 = 1_700_000_000_000_000_000;

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "\u{7}detect 12.5 ms camera=left\nframes 3 count\n",
        "\u{9}{\"fps\": {\"value\": 25, \"timestamp\": 1.5}}\n{\"a\": [1, 2]}",
        " {\"name\":\"env.count\",\"val\":3,\"ts\":1700000000000000000,\"meta\":{\"camera\":\"left\"}}\n",
    ])
}

fn cut(form: FrameFormat, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, u64) {
    let (mut framer, mut frames) = (MessageFramer::new(form), MessageFrames::default());
    pieces.iter().for_each(|piece| framer.push(piece, &mut frames));
    framer.finish(&mut frames);
    (frames.iter().map(<[u8]>::to_vec).collect(), frames.count())
}

fn run(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let middle = usize::from(*first).min(bytes.len());
    let mut intake: MessageIntake<u8> = MessageIntake::new(IntakeLimits::default());
    for form in [FrameFormat::Lines, FrameFormat::Json] {
        let (whole, count) = cut(form, &[bytes]);
        assert_eq!((whole.clone(), count), cut(form, &[&bytes[..middle], &bytes[middle..]]));
        for frame in &whole {
            let mut take = |message: AppMessage<'_>| intake.take_message(&0, &message);
            if let Ok(Some(message)) = line_protocol::parse_line(frame, NOW) {
                take(message);
            }
            let _ = socket::parse_messages(frame, NOW, &mut take);
            if let Ok(message) = pywaggle::parse_message(frame) {
                take(message);
            }
        }
    }
    for stage in intake.senders().flat_map(|(_, sender)| sender.stages()) {
        assert!(!stage.name.is_empty());
    }
}
