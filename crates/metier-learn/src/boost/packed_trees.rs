//! Compact encoding of boosted trees in a file: nodes in pre-order (split, left side, right side).
//!
//! Thresholds and leaves have single precision, and split gains are not stored.
//! [`BoostedTrees::to_single_precision`] gives the trees as read back from a file.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::BoostedTrees;
use super::tree_grower::{BoostedNode, BoostedTree};
use crate::packed_numbers::{PackedReader, PackedWriter};

/// Largest depth of a tree.
const MAX_DEPTH: usize = 512;

/// Trees that are serialised compactly.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedTrees(pub BoostedTrees);

#[derive(Serialize, Deserialize)]
struct PackedTreesFile {
    names: Vec<String>,
    start: f64,
    count: usize,
    trees: String,
}

impl Serialize for PackedTrees {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut writer = PackedWriter::default();
        self.0.trees.iter().for_each(|tree| write_tree(tree, &mut writer));
        let (names, count) = (self.0.names.clone(), self.0.trees.len());
        PackedTreesFile { names, start: self.0.start, count, trees: writer.to_base64() }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for PackedTrees {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let file = PackedTreesFile::deserialize(from)?;
        let wrong = || D::Error::custom("trees: are not base64 of `count` trees");
        let mut reader = PackedReader::new(&file.trees).ok_or_else(wrong)?;
        let mut trees = Vec::new();
        for _ in 0..file.count {
            trees.push(read_tree(&mut reader).ok_or_else(wrong)?);
        }
        Ok(Self(BoostedTrees { names: file.names, start: file.start, trees }))
    }
}

fn write_tree(tree: &BoostedTree, writer: &mut PackedWriter) {
    let mut open = vec![0usize];
    let mut places = 0;
    while let Some(place) = open.pop().and_then(|at| tree.places.get(at)) {
        // A tree from a file may contain cycles; write no more nodes than it has.
        places += 1;
        let question = place.feature.filter(|_| places <= tree.places.len());
        match question {
            Some(feature) => {
                writer.write_count((u64::from(feature) + 1) * 2 + u64::from(place.unknown_left));
                writer.write_number(place.value as f32);
                open.extend([place.right as usize, place.left as usize]);
            }
            None => {
                writer.write_count(0);
                writer.write_number(place.value as f32);
            }
        }
    }
}

fn read_tree(reader: &mut PackedReader) -> Option<BoostedTree> {
    let mut places: Vec<BoostedNode> = Vec::new();
    // Splits whose right child index is still unknown.
    let mut open: Vec<usize> = Vec::new();
    loop {
        let (word, value) = (reader.read_count()?, f64::from(reader.read_number()?));
        let at = places.len();
        if word == 0 {
            places.push(BoostedNode::leaf(value));
            let Some(parent) = open.pop() else { return Some(BoostedTree { places }) };
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
            if open.len() > MAX_DEPTH {
                return None;
            }
        }
    }
}

impl BoostedTrees {
    /// The trees in single precision and without gains, as a packed file returns them.
    #[must_use]
    pub fn to_single_precision(mut self) -> Self {
        for tree in &mut self.trees {
            let mut writer = PackedWriter::default();
            write_tree(tree, &mut writer);
            if let Some(packed) =
                PackedReader::new(&writer.to_base64()).and_then(|mut reader| read_tree(&mut reader))
            {
                *tree = packed;
            }
        }
        self
    }
}
