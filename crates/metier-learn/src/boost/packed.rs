//! Compact encoding of boosted trees in a file: nodes in pre-order (split, left side, right side).
//!
//! Thresholds and leaves have single precision, and split gains are not stored.
//! [`Boosted::in_single`] gives the trees as read back from a file.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Boosted;
use super::grow::{BoostedNode, Tree};
use crate::pack::{Reader, Writer};

/// Largest depth of a tree.
const DEPTH: usize = 512;

/// Trees that are serialised compactly.
#[derive(Debug, Clone, PartialEq)]
pub struct Packed(pub Boosted);

#[derive(Serialize, Deserialize)]
struct File {
    names: Vec<String>,
    start: f64,
    count: usize,
    trees: String,
}

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut writer = Writer::default();
        self.0.trees.iter().for_each(|tree| put(tree, &mut writer));
        let (names, count) = (self.0.names.clone(), self.0.trees.len());
        File { names, start: self.0.start, count, trees: writer.text() }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let file = File::deserialize(from)?;
        let wrong = || D::Error::custom("trees: are no base64 of as many trees as count says");
        let mut reader = Reader::new(&file.trees).ok_or_else(wrong)?;
        let mut trees = Vec::new();
        for _ in 0..file.count {
            trees.push(take(&mut reader).ok_or_else(wrong)?);
        }
        Ok(Self(Boosted { names: file.names, start: file.start, trees }))
    }
}

fn put(tree: &Tree, writer: &mut Writer) {
    let mut open = vec![0usize];
    let mut places = 0;
    while let Some(place) = open.pop().and_then(|at| tree.places.get(at)) {
        // A tree from a file may contain cycles; write no more nodes than it has.
        places += 1;
        let question = place.feature.filter(|_| places <= tree.places.len());
        match question {
            Some(feature) => {
                writer.count((u64::from(feature) + 1) * 2 + u64::from(place.unknown_left));
                writer.number(place.value as f32);
                open.extend([place.right as usize, place.left as usize]);
            }
            None => {
                writer.count(0);
                writer.number(place.value as f32);
            }
        }
    }
}

fn take(reader: &mut Reader) -> Option<Tree> {
    let mut places: Vec<BoostedNode> = Vec::new();
    // Splits whose right child index is still unknown.
    let mut open: Vec<usize> = Vec::new();
    loop {
        let (word, value) = (reader.count()?, f64::from(reader.number()?));
        let at = places.len();
        if word == 0 {
            places.push(BoostedNode::leaf(value));
            let Some(parent) = open.pop() else { return Some(Tree { places }) };
            places[parent].right = u32::try_from(places.len()).ok()?;
        } else {
            let feature = u32::try_from((word / 2).checked_sub(1)?).ok()?;
            let left = u32::try_from(at + 1).ok()?;
            let unknown_left = word % 2 == 1;
            places.push(BoostedNode {
                feature: Some(feature),
                value,
                left,
                right: 0,
                unknown_left,
                gain: 0.0,
            });
            open.push(at);
            if open.len() > DEPTH {
                return None;
            }
        }
    }
}

impl Boosted {
    /// The trees in single precision and without gains, as a packed file returns them.
    #[must_use]
    pub fn in_single(mut self) -> Self {
        for tree in &mut self.trees {
            let mut writer = Writer::default();
            put(tree, &mut writer);
            if let Some(packed) = Reader::new(&writer.text()).and_then(|mut reader| take(&mut reader)) {
                *tree = packed;
            }
        }
        self
    }
}
