//! Divides metered power: the parts of containers and idle power always add up to the node's power.

/// Node power in parts.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerShares {
    /// Idle power, and power of unattributed work.
    pub idle: f64,
    pub parts: Vec<f64>,
}

/// Divides a node's power in proportion to predictions. Idle power is subtracted once, the rest is
/// divided. `idle + Σ parts` equals the node's power within rounding; no part is negative.
/// Predictions that are not finite count as 0.
pub fn share(node_watts: f64, idle_watts: f64, predicted: &[f64]) -> PowerShares {
    let usable = |watts: f64| if watts.is_finite() && watts > 0.0 { watts } else { 0.0 };
    let node = usable(node_watts);
    let idle = usable(idle_watts).min(node);
    let most = predicted.iter().copied().map(usable).fold(0.0, f64::max);
    if most == 0.0 {
        return PowerShares { idle: node, parts: vec![0.0; predicted.len()] };
    }
    // Scaled first, since a sum of huge numbers would overflow to infinity.
    let sum: f64 = predicted.iter().map(|watts| usable(*watts) / most).sum();
    let dynamic = node - idle;
    let parts: Vec<f64> = predicted.iter().map(|watts| usable(*watts) / most / sum * dynamic).collect();
    PowerShares { idle, parts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn containers_and_idle_add_up_to_the_node(
            node in 0.0..1e5f64,
            idle in 0.0..1e5f64,
            predicted in proptest::collection::vec(prop_oneof![0.0..1e9f64, Just(f64::NAN), Just(-1.0), Just(f64::MAX), Just(1e-300)], 0..100)
        ) {
            let shares = share(node, idle, &predicted);
            let sum = shares.idle + shares.parts.iter().sum::<f64>();
            prop_assert!((sum - node).abs() <= 1e-9 * node.max(1.0), "{sum} {node}");
            prop_assert!(shares.idle >= 0.0 && shares.parts.iter().all(|part| *part >= 0.0 && part.is_finite()));
            prop_assert_eq!(shares.parts.len(), predicted.len());
        }
    }

    #[test]
    fn work_that_nobody_does_is_nobody_s() {
        assert_eq!(share(100.0, 60.0, &[0.0, 0.0]), PowerShares { idle: 100.0, parts: vec![0.0, 0.0] });
        assert_eq!(share(100.0, 60.0, &[1.0, 3.0]), PowerShares { idle: 60.0, parts: vec![10.0, 30.0] });
        assert_eq!(share(f64::NAN, 60.0, &[1.0]), PowerShares { idle: 0.0, parts: vec![0.0] });
    }
}
