//! Aggregates messages: counts, sums and a histogram for each stage of each sender.
//!
//! A run has one sender; live monitoring has one per container or process. The intake does no input
//! or output. It bounds the number of senders, of stages per sender, and of stored examples of
//! malformed messages.

use std::collections::HashMap;
use std::hash::Hash;

use metier_types::{IntakeSummary as Counts, StageSource};

use super::message::{AppMessage, MessageNumber, WANT_FINITE_NUMBER, find_name_defect};
use super::stage_stats::StageStats;

/// Maximum number of stored examples of malformed messages.
const MAX_EXAMPLES: usize = 5;
/// Maximum length of an example in bytes.
const MAX_EXAMPLE_BYTES: usize = 80;

/// Limits of an intake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntakeLimits {
    pub speakers: usize,
    pub stages: usize,
}

impl Default for IntakeLimits {
    fn default() -> Self {
        Self { speakers: 256, stages: 256 }
    }
}

/// Statistics of one sender.
#[derive(Debug, Clone, Default)]
pub struct SenderStats {
    stages: Vec<StageStats>,
    places: HashMap<Box<str>, usize>,
    /// Counts of accepted, malformed and dropped messages.
    pub counts: Counts,
}

impl SenderStats {
    /// Its stages in order of first appearance.
    pub fn stages(&self) -> &[StageStats] {
        &self.stages
    }
}

/// Aggregates messages by sender.
#[derive(Debug)]
pub struct MessageIntake<K> {
    limits: IntakeLimits,
    speakers: HashMap<K, SenderStats>,
    /// Messages of senders beyond the limit.
    pub beyond_speakers: u64,
    /// Connections of processes that do not belong to the run.
    pub strangers: u64,
    /// Connections beyond the limit of simultaneous connections.
    pub refused: u64,
    key: String,
}

impl<K: Eq + Hash + Clone> MessageIntake<K> {
    pub fn new(limits: IntakeLimits) -> Self {
        Self {
            limits,
            speakers: HashMap::new(),
            beyond_speakers: 0,
            strangers: 0,
            refused: 0,
            key: String::new(),
        }
    }

    /// Adds a message; an inconsistent message is counted as malformed.
    pub fn take_message(&mut self, sender: &K, message: &AppMessage<'_>) {
        if let Some(want) = find_defect(message) {
            return self.count_malformed(sender, message.name.as_bytes(), want);
        }
        if let Some(tally) = self.stage_mut(sender, message) {
            tally.add_number(message.number, message.at_ns);
        }
    }

    /// Counts the message and returns its stage's statistics, created if new. `None` beyond the
    /// limits.
    pub fn stage_mut(&mut self, sender: &K, message: &AppMessage<'_>) -> Option<&mut StageStats> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.push(source_tag(message.source));
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
        let place = self.sender_mut(sender).and_then(|speaker| {
            let place = match speaker.places.get(key.as_str()) {
                Some(place) => *place,
                None if speaker.stages.len() >= stages => {
                    speaker.counts.beyond_limit += 1;
                    return None;
                }
                None => {
                    speaker.places.insert(key.as_str().into(), speaker.stages.len());
                    speaker.stages.push(StageStats::new(message));
                    speaker.stages.len() - 1
                }
            };
            speaker.counts.messages += 1;
            Some(place)
        });
        self.key = key;
        self.speakers.get_mut(sender)?.stages.get_mut(place?)
    }

    /// Counts a malformed message, with a description of what is expected.
    pub fn count_malformed(&mut self, sender: &K, text: &[u8], want: &str) {
        let Some(speaker) = self.sender_mut(sender) else { return };
        speaker.counts.malformed += 1;
        if speaker.counts.examples.len() < MAX_EXAMPLES {
            let shown = String::from_utf8_lossy(&text[..text.len().min(MAX_EXAMPLE_BYTES)]).into_owned();
            let more = if text.len() > MAX_EXAMPLE_BYTES { "…" } else { "" };
            let example = format!("{shown:?}{more}: want {want}");
            if !speaker.counts.examples.contains(&example) {
                speaker.counts.examples.push(example);
            }
        }
    }

    /// Counts messages that were dropped so that the application need not wait.
    pub fn count_dropped(&mut self, sender: &K, messages: u64) {
        if let Some(speaker) = self.sender_mut(sender) {
            speaker.counts.dropped += messages;
        }
    }

    pub fn senders(&self) -> impl Iterator<Item = (&K, &SenderStats)> {
        self.speakers.iter()
    }

    pub fn sender(&self, sender: &K) -> Option<&SenderStats> {
        self.speakers.get(sender)
    }

    /// Removes the senders for which `keep` is false, with their statistics.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.speakers.retain(|sender, _| keep(sender));
    }

    fn sender_mut(&mut self, sender: &K) -> Option<&mut SenderStats> {
        if !self.speakers.contains_key(sender) {
            if self.speakers.len() >= self.limits.speakers {
                self.beyond_speakers += 1;
                return None;
            }
            self.speakers.insert(sender.clone(), SenderStats::default());
        }
        self.speakers.get_mut(sender)
    }
}

fn source_tag(source: StageSource) -> char {
    match source {
        StageSource::Socket => 's',
        StageSource::Pywaggle => 'p',
        StageSource::Lines => 'l',
        _ => 'm',
    }
}

fn find_defect(message: &AppMessage<'_>) -> Option<&'static str> {
    let (MessageNumber::Observation(value)
    | MessageNumber::Increment(value)
    | MessageNumber::CounterValue(value)) = message.number;
    if !value.is_finite() {
        return Some(WANT_FINITE_NUMBER);
    }
    if matches!(message.number, MessageNumber::Increment(more) if more < 0.0) {
        return Some("a count that is not negative");
    }
    let is_duration = message.kind == metier_types::StageKind::Duration;
    if is_duration && matches!(message.number, MessageNumber::Observation(seconds) if seconds < 0.0) {
        return Some("a duration that is not negative");
    }
    find_name_defect(&message.name)
}

#[cfg(test)]
mod tests {
    use metier_types::StageKind;

    use super::*;

    fn message(name: &str, value: f64) -> AppMessage<'_> {
        AppMessage {
            name: name.into(),
            labels: "".into(),
            kind: StageKind::Value,
            source: StageSource::Lines,
            number: MessageNumber::Observation(value),
            at_ns: None,
        }
    }

    #[test]
    fn speakers_and_their_stages_are_bounded_and_what_is_beyond_is_counted() {
        let mut intake = MessageIntake::new(IntakeLimits { speakers: 2, stages: 3 });
        for sender in 0..4 {
            for stage in ["a", "b", "c", "d", "a"] {
                intake.take_message(&sender, &message(stage, 1.0));
            }
        }
        assert_eq!(intake.senders().count(), 2);
        let stats = intake.sender(&0).unwrap();
        assert_eq!(stats.stages().len(), 3);
        assert_eq!((stats.counts.messages, stats.counts.beyond_limit), (4, 1));
        assert_eq!(intake.beyond_speakers, 10);
        intake.retain(|sender| *sender != 0);
        intake.take_message(&7, &message("a", 1.0));
        assert!(intake.sender(&7).is_some(), "room again");
    }

    #[test]
    fn what_makes_no_sense_is_counted_with_a_few_examples() {
        let mut intake = MessageIntake::new(IntakeLimits::default());
        for n in 0..100 {
            intake.take_message(&(), &message(&format!("x{n}"), f64::NAN));
            intake.take_message(&(), &message("two words", 1.0));
            intake.take_message(&(), &AppMessage { kind: StageKind::Duration, ..message("inference", -0.5) });
        }
        let counts = &intake.sender(&()).unwrap().counts;
        assert_eq!((counts.messages, counts.malformed, counts.examples.len()), (0, 300, MAX_EXAMPLES));
        assert!(counts.examples[0].contains("finite"), "{counts:?}");
    }
}
