//! Boosted trees laid out to be asked quickly, many rows at a time.
//!
//! A row is not led through a tree: each leaf of a tree is a bit, and each question that a row answers with "right" takes out the leaves on its left; the lowest bit that stays is the
//! row's leaf. Questions of a feature stand in the order of their thresholds, so those that a value answers with "right" are the first so many of them, and what these take
//! out of all trees together is written down after every few. So a row costs a search and a few lines of bits for each feature, and no step waits for the one before.
//!
//! Trees with more leaves than bits are walked, eight rows side by side. Single precision; features are known (no NaN).

use super::Boosted;

/// Rows that are answered side by side.
const LANES: usize = 8;
/// Questions of a feature between two lines of bits that are written down.
const BETWEEN: usize = 8;
/// Bytes that lines of bits may take; trees that want more are walked.
const MOST_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    /// Up to this the way is left; the value of a leaf.
    value: f32,
    feature: u16,
    left: u16,
    right: u16,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Tree {
    begin: usize,
    end: usize,
    depth: usize,
}

/// Trees to be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Flat {
    width: usize,
    start: f64,
    form: Form,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Walked(Walked),
    Struck(Struck),
}

impl Flat {
    /// The same trees. `None` where one has too many places, asks for a feature that rows do not have, or leads in circles.
    pub fn new(trees: &Boosted) -> Option<Self> {
        let width = trees.names.len();
        let walked = Walked::new(trees)?;
        let form = match Struck::new(&walked, width) {
            Some(struck) => Form::Struck(struck),
            None => Form::Walked(walked),
        };
        Some(Self { width, start: trees.start, form })
    }

    /// How many features a row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// What they say of rows that stand one behind the other.
    pub fn predict(&self, rows: &[f32]) -> Vec<f64> {
        let count = rows.len().checked_div(self.width).unwrap_or(0);
        let mut out = vec![self.start; count];
        match &self.form {
            Form::Walked(walked) => walked.add(rows, self.width, &mut out),
            Form::Struck(struck) => struck.add(rows, self.width, &mut out),
        }
        out
    }
}

/// Trees that are walked. A place takes twelve bytes; a leaf leads to itself, so that all ways through a tree are equally long.
#[derive(Debug, Clone, PartialEq)]
struct Walked {
    places: Vec<Place>,
    trees: Vec<Tree>,
}

impl Walked {
    fn new(trees: &Boosted) -> Option<Self> {
        let width = trees.names.len();
        let mut flat = Self { places: Vec::new(), trees: Vec::new() };
        for tree in &trees.trees {
            let begin = flat.places.len();
            let mut depth = 0;
            // The place in the tree as it was, where it goes, and how many questions lead there.
            let mut open = vec![(0usize, 0usize, 0usize)];
            flat.places.push(Place { value: 0.0, feature: 0, left: 0, right: 0 });
            while let Some((from, to, way)) = open.pop() {
                let place = tree.places.get(from)?;
                depth = depth.max(way);
                let own = u16::try_from(to).ok()?;
                let mut laid = Place { value: place.value as f32, feature: 0, left: own, right: own };
                if let Some(feature) = place.feature {
                    if feature as usize >= width || way > tree.places.len() {
                        return None;
                    }
                    let left = flat.places.len() - begin;
                    laid.feature = u16::try_from(feature).ok()?;
                    (laid.left, laid.right) = (u16::try_from(left).ok()?, u16::try_from(left + 1).ok()?);
                    flat.places.extend([laid; 2]);
                    open.push((place.right as usize, left + 1, way + 1));
                    open.push((place.left as usize, left, way + 1));
                }
                flat.places[begin + to] = laid;
            }
            flat.trees.push(Tree { begin, end: flat.places.len(), depth });
        }
        Some(flat)
    }

    fn add(&self, rows: &[f32], width: usize, out: &mut [f64]) {
        for (rows, out) in rows.chunks(LANES * width.max(1)).zip(out.chunks_mut(LANES)) {
            for tree in &self.trees {
                let places = &self.places[tree.begin..tree.end];
                let mut at = [0u16; LANES];
                for _ in 0..tree.depth {
                    for (at, row) in at.iter_mut().zip(rows.chunks_exact(width)) {
                        let place = places[*at as usize];
                        *at =
                            if row[place.feature as usize] <= place.value { place.left } else { place.right };
                    }
                }
                for (out, at) in out.iter_mut().zip(at) {
                    *out += f64::from(places[at as usize].value);
                }
            }
        }
    }
}

/// A question: of which tree, and which leaves stay when the way is right.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Question {
    tree: u32,
    stays: u32,
}

/// The questions about a feature, by their thresholds.
#[derive(Debug, Clone, PartialEq, Default)]
struct Asked {
    thresholds: Vec<f32>,
    questions: Vec<Question>,
    /// After every so many questions, which leaves of each tree stay when all of them were answered with "right".
    lines: Vec<u32>,
}

/// Leaves of a tree as bits.
const LEAVES: usize = u32::BITS as usize;

/// Trees whose leaves are struck out.
#[derive(Debug, Clone, PartialEq)]
struct Struck {
    trees: usize,
    features: Vec<Asked>,
    /// Of each tree, from left to right.
    leaves: Vec<[f32; LEAVES]>,
}

impl Struck {
    /// `None` where a tree has more leaves than there are bits or a threshold without an order, or where too much would have to be written down.
    fn new(walked: &Walked, width: usize) -> Option<Self> {
        let trees = walked.trees.len();
        let mut leaves = Vec::with_capacity(trees);
        let mut asked: Vec<Vec<(f32, Question)>> = vec![Vec::new(); width];
        for (number, tree) in walked.trees.iter().enumerate() {
            let places = &walked.places[tree.begin..tree.end];
            if places.len().div_ceil(2) > LEAVES || places.iter().any(|place| place.value.is_nan()) {
                return None;
            }
            let mut own = Vec::with_capacity(LEAVES);
            let tree = u32::try_from(number).ok()?;
            lay(places, 0, tree, &mut own, &mut asked);
            own.resize(LEAVES, 0.0);
            leaves.push(own.try_into().ok()?);
        }
        let lines: usize = asked.iter().map(|of| of.len() / BETWEEN + 1).sum();
        if lines * trees * size_of::<u32>() > MOST_BYTES {
            return None;
        }
        let features = asked.into_iter().map(|of| Asked::new(of, trees)).collect();
        Some(Self { trees, features, leaves })
    }

    fn add(&self, rows: &[f32], width: usize, out: &mut [f64]) {
        let mut stays = vec![0u32; LANES * self.trees];
        for (rows, out) in rows.chunks(LANES * width.max(1)).zip(out.chunks_mut(LANES)) {
            for (row, stays) in rows.chunks_exact(width).zip(stays.chunks_exact_mut(self.trees.max(1))) {
                stays.fill(u32::MAX);
                for (value, asked) in row.iter().zip(&self.features) {
                    asked.strike(*value, stays);
                }
            }
            for (tree, leaves) in self.leaves.iter().enumerate() {
                for (lane, out) in out.iter_mut().enumerate() {
                    // The last leaf of a tree is never struck out: there is always a lowest.
                    let leaf = stays[lane * self.trees + tree].trailing_zeros() as usize % LEAVES;
                    *out += f64::from(leaves[leaf]);
                }
            }
        }
    }
}

/// Numbers the leaves below a place from left to right, and notes the questions; gives the bits of the leaves. No way is longer than a tree has leaves.
fn lay(
    places: &[Place],
    at: usize,
    tree: u32,
    leaves: &mut Vec<f32>,
    asked: &mut [Vec<(f32, Question)>],
) -> u32 {
    let place = places[at];
    if usize::from(place.left) == at {
        leaves.push(place.value);
        return 1 << ((leaves.len() - 1) % LEAVES);
    }
    let left = lay(places, usize::from(place.left), tree, leaves, asked);
    let right = lay(places, usize::from(place.right), tree, leaves, asked);
    asked[usize::from(place.feature)].push((place.value, Question { tree, stays: !left }));
    left | right
}

impl Asked {
    fn new(mut all: Vec<(f32, Question)>, trees: usize) -> Self {
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut this = Self::default();
        let mut line = vec![u32::MAX; trees];
        for (number, (threshold, question)) in all.into_iter().enumerate() {
            if number % BETWEEN == 0 {
                this.lines.extend_from_slice(&line);
            }
            line[question.tree as usize] &= question.stays;
            this.thresholds.push(threshold);
            this.questions.push(question);
        }
        if this.questions.len() % BETWEEN == 0 {
            this.lines.extend_from_slice(&line);
        }
        this
    }

    /// Takes out what a value's answers do.
    fn strike(&self, value: f32, stays: &mut [u32]) {
        let count = self.thresholds.partition_point(|threshold| *threshold < value);
        let line = count / BETWEEN;
        let known = &self.lines[line * stays.len()..][..stays.len()];
        for (stays, known) in stays.iter_mut().zip(known) {
            *stays &= known;
        }
        for question in &self.questions[line * BETWEEN..count] {
            stays[question.tree as usize] &= question.stays;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, tests::friedman};
    use super::*;

    #[test]
    fn striking_out_leaves_gives_the_same_bits_as_walking() {
        let table = friedman(400, 11);
        let settings = Settings { trees: 40, leaves: 32, leaf_rows: 1, ..Settings::default() };
        let mut fitted = Boosted::fit(&table, None, &settings).unwrap();
        // One tree without a question.
        fitted.trees[3].places.retain(|place| place.feature.is_none());
        fitted.trees[3].places.truncate(1);
        let width = table.width();
        let walked = Walked::new(&fitted).unwrap();
        let struck = Struck::new(&walked, width).unwrap();
        let mut rows: Vec<f32> =
            (0..table.len()).flat_map(|row| table.row(row)).map(|value| *value as f32).collect();
        // Values on the very thresholds, and far outside.
        for place in walked.places.iter().take(200) {
            rows.extend((0..width).map(|_| place.value));
        }
        rows.extend((0..width).map(|_| f32::INFINITY));
        rows.extend((0..width).map(|_| f32::NEG_INFINITY));
        let said = |add: &dyn Fn(&mut [f64])| {
            let mut out = vec![0.5; rows.len() / width];
            add(&mut out);
            out
        };
        let one = said(&|out| walked.add(&rows, width, out));
        let other = said(&|out| struck.add(&rows, width, out));
        assert!(one.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits()), "{one:?} {other:?}");
    }

    #[test]
    fn trees_of_more_leaves_than_bits_are_walked() {
        let table = friedman(600, 12);
        let settings = Settings { trees: 3, leaves: 60, leaf_rows: 1, ..Settings::default() };
        let fitted = Boosted::fit(&table, None, &settings).unwrap();
        let flat = Flat::new(&fitted).unwrap();
        assert!(matches!(flat.form, Form::Walked(_)));
        let row: Vec<f32> = table.row(5).iter().map(|value| *value as f32).collect();
        let own: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
        assert!((flat.predict(&row)[0] - fitted.predict(&own)).abs() < 1e-4);
    }
}
