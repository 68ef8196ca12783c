//! Any application bytes, as lines, Waggle socket messages and pywaggle logs. The split into reads
//! must not matter, nothing panics, and all parsed values can be counted.
#![no_main]
#![allow(dead_code)]

/// The application parsers of metier-measure, without their threads.
#[path = "../../crates/metier-measure/src/app"]
mod app {
    pub mod descriptor;
    pub mod frame;
    pub mod histogram;
    pub mod intake;
    pub mod lines;
    pub mod message;
    pub mod pywaggle;
    pub mod socket;
    pub mod tally;
}

use libfuzzer_sys::fuzz_target;
use app::frame::{Form, Framer, Frames};
use app::intake::{Intake, Limits};
use app::message::Message;
use app::{lines, pywaggle, socket};

/// The reading time of all input.
const NOW: i64 = 1_700_000_000_000_000_000;

fn cut(form: Form, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, u64) {
    let (mut framer, mut frames) = (Framer::new(form), Frames::default());
    pieces.iter().for_each(|piece| framer.push(piece, &mut frames));
    framer.end(&mut frames);
    (frames.iter().map(<[u8]>::to_vec).collect(), frames.count())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let middle = usize::from(*first).min(bytes.len());
    let mut intake: Intake<u8> = Intake::new(Limits::default());
    for form in [Form::Lines, Form::Json] {
        let (whole, count) = cut(form, &[bytes]);
        assert_eq!((whole.clone(), count), cut(form, &[&bytes[..middle], &bytes[middle..]]));
        for frame in &whole {
            let mut take = |message: Message<'_>| intake.take(&0, &message);
            if let Ok(Some(message)) = lines::understand(frame, NOW) {
                take(message);
            }
            let _ = socket::understand(frame, NOW, &mut take);
            if let Ok(message) = pywaggle::understand(frame) {
                take(message);
            }
        }
    }
    for stage in intake.speakers().flat_map(|(_, speaker)| speaker.stages()) {
        assert!(!stage.name.is_empty());
    }
});
