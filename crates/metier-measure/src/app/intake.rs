//! The engine: takes messages of many speakers and keeps, for each stage of each, counts, sums and a histogram.
//!
//! It is the same for a run (one speaker) and for live watching (a speaker per container or process), does no input
//! or output, and is bounded: so many speakers, so many stages for each, so many examples of what was not understood.

use std::collections::HashMap;
use std::hash::Hash;

use metier_types::{Intake as Counts, StageSource};

use super::message::{FINITE, Message, Number, name_defect};
use super::tally::Tally;

/// Examples of malformed messages that are kept.
const EXAMPLES: usize = 5;
/// Bytes of an example.
const EXAMPLE_BYTES: usize = 80;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub speakers: usize,
    pub stages: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { speakers: 256, stages: 256 }
    }
}

/// What one speaker said.
#[derive(Debug, Clone, Default)]
pub struct Speaker {
    stages: Vec<Tally>,
    places: HashMap<Box<str>, usize>,
    /// How listening to it went.
    pub counts: Counts,
}

impl Speaker {
    /// Its stages, in the order in which they first came.
    pub fn stages(&self) -> &[Tally] {
        &self.stages
    }
}

/// Takes messages, by speaker.
#[derive(Debug)]
pub struct Intake<K> {
    limits: Limits,
    speakers: HashMap<K, Speaker>,
    /// Messages of speakers beyond the number that is kept.
    pub beyond_speakers: u64,
    /// Connections of processes that do not belong here.
    pub strangers: u64,
    /// Connections beyond the number that is served at once.
    pub refused: u64,
    key: String,
}

impl<K: Eq + Hash + Clone> Intake<K> {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            speakers: HashMap::new(),
            beyond_speakers: 0,
            strangers: 0,
            refused: 0,
            key: String::new(),
        }
    }

    /// Takes a message; one that makes no sense is counted as malformed.
    pub fn take(&mut self, who: &K, message: &Message<'_>) {
        if let Some(want) = defect(message) {
            return self.malformed(who, message.name.as_bytes(), want);
        }
        if let Some(tally) = self.tally(who, message) {
            tally.take(message.number, message.at_ns);
        }
    }

    /// The tally of a message's stage, new where it is the first; counts the message. `None` beyond the limits.
    pub fn tally(&mut self, who: &K, message: &Message<'_>) -> Option<&mut Tally> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.push(tag(message.source));
        key.push(match message.kind {
            metier_types::StageKind::Duration => 'd',
            metier_types::StageKind::Rate => 'r',
            metier_types::StageKind::Counter => 'c',
            _ => 'v',
        });
        key.push_str(&message.name);
        key.push('\0');
        key.push_str(&message.labels);
        let stages = self.limits.stages;
        let place = self.speaker(who).and_then(|speaker| {
            let place = match speaker.places.get(key.as_str()) {
                Some(place) => *place,
                None if speaker.stages.len() >= stages => {
                    speaker.counts.beyond_limit += 1;
                    return None;
                }
                None => {
                    speaker.places.insert(key.as_str().into(), speaker.stages.len());
                    speaker.stages.push(Tally::new(message));
                    speaker.stages.len() - 1
                }
            };
            speaker.counts.messages += 1;
            Some(place)
        });
        self.key = key;
        self.speakers.get_mut(who)?.stages.get_mut(place?)
    }

    /// Counts a message that was not understood, with what would be right.
    pub fn malformed(&mut self, who: &K, text: &[u8], want: &str) {
        let Some(speaker) = self.speaker(who) else { return };
        speaker.counts.malformed += 1;
        if speaker.counts.examples.len() < EXAMPLES {
            let shown = String::from_utf8_lossy(&text[..text.len().min(EXAMPLE_BYTES)]).into_owned();
            let more = if text.len() > EXAMPLE_BYTES { "…" } else { "" };
            let example = format!("{shown:?}{more}: want {want}");
            if !speaker.counts.examples.contains(&example) {
                speaker.counts.examples.push(example);
            }
        }
    }

    /// Counts messages that were thrown away so that the application need not wait.
    pub fn dropped(&mut self, who: &K, messages: u64) {
        if let Some(speaker) = self.speaker(who) {
            speaker.counts.dropped += messages;
        }
    }

    pub fn speakers(&self) -> impl Iterator<Item = (&K, &Speaker)> {
        self.speakers.iter()
    }

    pub fn get(&self, who: &K) -> Option<&Speaker> {
        self.speakers.get(who)
    }

    /// Forgets those speakers for whom `keep` is false: what they said is gone.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.speakers.retain(|who, _| keep(who));
    }

    fn speaker(&mut self, who: &K) -> Option<&mut Speaker> {
        if !self.speakers.contains_key(who) {
            if self.speakers.len() >= self.limits.speakers {
                self.beyond_speakers += 1;
                return None;
            }
            self.speakers.insert(who.clone(), Speaker::default());
        }
        self.speakers.get_mut(who)
    }
}

fn tag(source: StageSource) -> char {
    match source {
        StageSource::Socket => 's',
        StageSource::Pywaggle => 'p',
        StageSource::Lines => 'l',
        _ => 'm',
    }
}

fn defect(message: &Message<'_>) -> Option<&'static str> {
    let (Number::One(value) | Number::More(value) | Number::Stands(value)) = message.number;
    if !value.is_finite() {
        return Some(FINITE);
    }
    if matches!(message.number, Number::More(more) if more < 0.0) {
        return Some("a count that is not negative");
    }
    let is_duration = message.kind == metier_types::StageKind::Duration;
    if is_duration && matches!(message.number, Number::One(seconds) if seconds < 0.0) {
        return Some("a duration that is not negative");
    }
    name_defect(&message.name)
}

#[cfg(test)]
mod tests {
    use metier_types::StageKind;

    use super::*;

    fn message(name: &str, value: f64) -> Message<'_> {
        Message {
            name: name.into(),
            labels: "".into(),
            kind: StageKind::Value,
            source: StageSource::Lines,
            number: Number::One(value),
            at_ns: None,
        }
    }

    #[test]
    fn speakers_and_their_stages_are_bounded_and_what_is_beyond_is_counted() {
        let mut intake = Intake::new(Limits { speakers: 2, stages: 3 });
        for who in 0..4 {
            for stage in ["a", "b", "c", "d", "a"] {
                intake.take(&who, &message(stage, 1.0));
            }
        }
        assert_eq!(intake.speakers().count(), 2);
        let one = intake.get(&0).unwrap();
        assert_eq!(one.stages().len(), 3);
        assert_eq!((one.counts.messages, one.counts.beyond_limit), (4, 1));
        assert_eq!(intake.beyond_speakers, 10);
        intake.retain(|who| *who != 0);
        intake.take(&7, &message("a", 1.0));
        assert!(intake.get(&7).is_some(), "room again");
    }

    #[test]
    fn what_makes_no_sense_is_counted_with_a_few_examples() {
        let mut intake = Intake::new(Limits::default());
        for n in 0..100 {
            intake.take(&(), &message(&format!("x{n}"), f64::NAN));
            intake.take(&(), &message("two words", 1.0));
            intake.take(&(), &Message { kind: StageKind::Duration, ..message("inference", -0.5) });
        }
        let counts = &intake.get(&()).unwrap().counts;
        assert_eq!((counts.messages, counts.malformed, counts.examples.len()), (0, 300, EXAMPLES));
        assert!(counts.examples[0].contains("finite"), "{counts:?}");
    }
}
