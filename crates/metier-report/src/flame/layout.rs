//! Layout of frames: from left to right by name, each as wide as its share.

use super::collapsed_stacks::CollapsedStacks;

/// Frames with a smaller share of the total are omitted.
pub const MIN_FRAME_SHARE: f64 = 0.0005;
/// Maximum number of frames in a picture.
pub const MAX_DRAWN_FRAMES: usize = 20_000;

/// A placed frame.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameBox<'a> {
    pub name: &'a str,
    /// Depth; the root has 0.
    pub depth: usize,
    /// Left end, as a share of the width.
    pub from: f64,
    /// Width, as a share.
    pub share: f64,
    pub total: u64,
    /// Samples in this frame alone.
    pub own: u64,
    /// Share in the baseline; `None` without a baseline.
    pub before: Option<f64>,
}

/// The placed frames and the number of omitted ones.
#[derive(Debug, Clone, PartialEq)]
pub struct FlameLayout<'a> {
    /// The placed frames, parents before children.
    pub places: Vec<FrameBox<'a>>,
    /// Number of omitted frames.
    pub left_out: usize,
    /// Largest depth among the placed frames.
    pub deepest: usize,
    /// Share of the baseline's samples whose stacks are absent here.
    pub vanished: f64,
}

/// Lays out stacks; `before` is the baseline, matched by position in the tree.
pub fn lay_out_frames<'a>(stacks: &'a CollapsedStacks, before: Option<&CollapsedStacks>) -> FlameLayout<'a> {
    let whole = stacks.total_samples().max(1) as f64;
    let of_before = before.map(|before| before.total_samples().max(1) as f64);
    let mut layout = FlameLayout { places: Vec::new(), left_out: 0, deepest: 0, vanished: 0.0 };
    // Frame, its counterpart in the baseline, depth, left end in samples.
    let mut waiting: Vec<(usize, Option<usize>, usize, u64)> = vec![(0, before.map(|_| 0), 0, 0)];
    while let Some((at, other, depth, from)) = waiting.pop() {
        let frame = &stacks.frames[at];
        let share = frame.total as f64 / whole;
        if share < MIN_FRAME_SHARE || layout.places.len() >= MAX_DRAWN_FRAMES {
            layout.left_out += 1;
            continue;
        }
        layout.deepest = layout.deepest.max(depth);
        let counterpart = before.zip(other).map(|(before, other)| &before.frames[other]);
        layout.places.push(FrameBox {
            name: &frame.name,
            depth,
            from: from as f64 / whole,
            share,
            total: frame.total,
            own: frame.own,
            before: of_before.map(|whole| counterpart.map_or(0.0, |frame| frame.total as f64 / whole)),
        });
        let mut left = from;
        let mut children = Vec::with_capacity(frame.children.len());
        for (name, child) in &frame.children {
            children.push((
                *child,
                counterpart.and_then(|frame| frame.children.get(name).copied()),
                depth + 1,
                left,
            ));
            left += stacks.frames[*child].total;
        }
        waiting.extend(children.into_iter().rev());
        if let (Some(counterpart), Some(before), Some(whole)) = (counterpart, before, of_before) {
            let gone = counterpart.children.iter().filter(|(name, _)| !frame.children.contains_key(*name));
            layout.vanished += gone.map(|(_, child)| before.frames[*child].total as f64 / whole).sum::<f64>();
        }
    }
    layout
}
