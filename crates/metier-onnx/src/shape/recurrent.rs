//! LSTM, GRU and RNN.

use super::{InferredFacts, ShapeContext, ValueFact};

/// Outputs: all steps, the last step, and for LSTM the last cell state.
pub fn recurrent(given: &ShapeContext) -> InferredFacts {
    let data_type = given.data_type(0);
    let is_both = given.node.text("direction") == Some("bidirectional");
    let directions = Some(if is_both { 2 } else { 1 });
    let hidden =
        given.node.integer("hidden_size").map(|size| given.checked_size(i128::from(size))).transpose()?;
    // The recurrence weights imply it, too: directions, gates × hidden, hidden.
    let hidden = hidden.or_else(|| given.shape(2).and_then(|shape| shape.get(2).copied().flatten()));
    let Some(&[first, second, _]) = given.shape(0) else {
        return match given.shape(0) {
            Some(shape) => {
                Err(given.mismatch_error(format!("an input of {} dimensions; want 3", shape.len())))
            }
            None => Ok(vec![ValueFact::new(data_type, None); 3]),
        };
    };
    let is_batch_first = given.node.integer("layout").unwrap_or(0) != 0;
    let (steps, batch) = if is_batch_first { (second, first) } else { (first, second) };
    let (all, last) = if is_batch_first {
        (vec![batch, steps, directions, hidden], vec![batch, directions, hidden])
    } else {
        (vec![steps, directions, batch, hidden], vec![directions, batch, hidden])
    };
    let last = ValueFact::new(data_type, Some(last));
    Ok(vec![ValueFact::new(data_type, Some(all)), last.clone(), last])
}
