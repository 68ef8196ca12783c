//! Counts of a query response: samples of each metric, samples above zero, and their sum; by pod
//! and scenario if a benchmark gives them.

use crate::response::KeplerResponse;

/// Counts of a metric, over all series or one pod.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricCountRow {
    /// The pod; empty for all series.
    pub pod: String,
    pub scenario: String,
    pub metric: String,
    pub count: usize,
    pub positive: usize,
    pub total: f64,
}

/// Counts the samples. Without pods each metric has one row; with pods, one row for each pod with
/// samples.
pub fn count(response: &KeplerResponse, pods: &[(String, String)]) -> Vec<MetricCountRow> {
    let mut rows = Vec::new();
    let all_pods = [(String::new(), String::new())];
    for (pod, scenario) in if pods.is_empty() { &all_pods[..] } else { pods } {
        for (metric, list) in &response.0 {
            let own = list.iter().filter(|series| pod.is_empty() || series.label("pod_name") == pod);
            let mut row = MetricCountRow {
                pod: pod.clone(),
                scenario: scenario.clone(),
                metric: metric.clone(),
                count: 0,
                positive: 0,
                total: 0.0,
            };
            for (_, value) in own.flat_map(|series| &series.samples) {
                row.count += 1;
                row.positive += usize::from(*value > 0.0);
                row.total += value;
            }
            if row.count > 0 || pod.is_empty() {
                rows.push(row);
            }
        }
    }
    rows
}

/// Retains the series of these pods, and those without a pod.
pub fn of_pods(response: &mut KeplerResponse, pods: &[&str]) {
    for list in response.0.values_mut() {
        list.retain(|series| {
            let pod = series.label("pod_name");
            pod.is_empty() || pods.contains(&pod)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_counted_by_metric_and_by_pod() {
        let text = br#"{"m":[{"metric":{"pod_name":"a"},"values":[[1,"0"],[2,"5"]]},{"metric":{"pod_name":"b"},"values":[[1,"1"]]}],"n":[]}"#;
        let mut response = KeplerResponse::read(text).unwrap();
        let short = |row: &MetricCountRow| (row.metric.clone(), row.count, row.positive, row.total);
        let all: Vec<_> = count(&response, &[]).iter().map(short).collect();
        assert_eq!(all, [("m".into(), 3, 2, 6.0), ("n".into(), 0, 0, 0.0)]);
        let pods = [("a".to_string(), "cpu".to_string()), ("gone".to_string(), "cpu".to_string())];
        let by_pod: Vec<_> = count(&response, &pods).iter().map(short).collect();
        assert_eq!(by_pod, [("m".into(), 2, 1, 5.0)]);
        of_pods(&mut response, &["b"]);
        assert_eq!(count(&response, &[])[0].count, 1);
    }
}
