//! Boosted trees laid out to be asked quickly, many rows at a time.
//!
//! A place takes twelve bytes, so that a hundred small trees stay in the processor's nearest memory, and eight rows walk through a tree side by side: none waits for
//! another's answer. A leaf leads to itself, so that all ways through a tree are equally long. Single precision; features are known (no NaN).

use super::Boosted;

/// Rows that walk side by side.
const LANES: usize = 8;

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
    places: Vec<Place>,
    trees: Vec<Tree>,
}

impl Flat {
    /// The same trees. `None` where one has too many places, asks for a feature that rows do not have, or leads in circles.
    pub fn new(trees: &Boosted) -> Option<Self> {
        let width = trees.names.len();
        let mut flat = Self { width, start: trees.start, places: Vec::new(), trees: Vec::new() };
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

    /// How many features a row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// What they say of rows that stand one behind the other.
    pub fn predict(&self, rows: &[f32]) -> Vec<f64> {
        let count = rows.len().checked_div(self.width).unwrap_or(0);
        let mut out = vec![self.start; count];
        for (rows, out) in rows.chunks(LANES * self.width.max(1)).zip(out.chunks_mut(LANES)) {
            for tree in &self.trees {
                let places = &self.places[tree.begin..tree.end];
                let mut at = [0u16; LANES];
                for _ in 0..tree.depth {
                    for (at, row) in at.iter_mut().zip(rows.chunks_exact(self.width)) {
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
        out
    }
}
