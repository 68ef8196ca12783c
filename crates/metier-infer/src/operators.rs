//! Time by operator, as an engine tells it.

/// What one operator took in one inference.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorTime {
    /// The engine's name for it, mostly that of an operator in the file.
    pub name: String,
    /// Its kind in the engine; operators that were joined have kinds of their own.
    pub kind: String,
    /// Values that it takes, where the engine names them.
    pub inputs: Vec<String>,
    /// Values that it makes, where the engine names them.
    pub outputs: Vec<String>,
    /// Time of one inference: the median over those looked at, all its turns together.
    pub seconds: f64,
}

/// Joins the looks at several inferences: for each operator (by its place) the median of its sums.
pub(crate) fn medians(looks: Vec<Vec<OperatorTime>>) -> Vec<OperatorTime> {
    let mut order: Vec<OperatorTime> = Vec::new();
    let mut times: Vec<Vec<f64>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (number, look) in looks.into_iter().enumerate() {
        for one in look {
            // A loop runs the same operator many times: one line for it.
            let key = (one.name.clone(), one.kind.clone(), one.outputs.clone());
            let place = *places.entry(key).or_insert_with(|| {
                order.push(one.clone());
                times.push(Vec::new());
                order.len() - 1
            });
            let sums = &mut times[place];
            sums.resize(number + 1, 0.0);
            sums[number] += one.seconds;
        }
    }
    for (one, sums) in order.iter_mut().zip(&mut times) {
        sums.sort_by(f64::total_cmp);
        one.seconds = sums.get(sums.len() / 2).copied().unwrap_or_default();
    }
    order
}
