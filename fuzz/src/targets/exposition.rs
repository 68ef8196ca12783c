//! Any bytes as a metrics page, in both formats. The page is refused with the line, or it is within
//! the limits, and its samples read back equal when they are written.

use metier_prom::{
    ExpositionFormat, MetricKind, MetricSample, MetricsPage, ScrapeLimits, is_label_name, is_metric_name,
    parse_page,
};

use super::{FuzzTarget, texts};

pub const TARGET: FuzzTarget = FuzzTarget { name: "exposition", seeds, run };

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "# HELP tegra_ram_used_bytes Used.\n# TYPE tegra_ram_used_bytes gauge\ntegra_ram_used_bytes 2.097152e+06\n# TYPE tegra_temperature_celcius gauge\ntegra_temperature_celcius{sensor=\"cpu\"} 40.5\n",
        "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\"} 7 1700000000000\n# EOF\n",
        "# TYPE h histogram\n# UNIT h seconds\nh_bucket{le=\"1\"} 1 # {id=\"q\"} 0.5 1.5\nh_bucket{le=\"+Inf\"} 1\nh_sum 2\nh_count 1\n# EOF\n",
    ])
}

fn write_and_read(sample: &MetricSample) {
    let pairs: Vec<(&str, &str)> =
        sample.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // A page truncates long values and writes only names that every Prometheus accepts.
    let is_plain = pairs.iter().all(|(name, value)| is_label_name(name) && value.len() <= 1024);
    if !is_metric_name(&sample.name) || !is_plain {
        return;
    }
    let mut page = MetricsPage::new(ExpositionFormat::Text);
    page.begin_family(&sample.name, MetricKind::Gauge, "Again.").add_sample(pairs.as_slice(), sample.value);
    let text = page.finish();
    let page = parse_page(text.as_bytes(), ExpositionFormat::Text, &ScrapeLimits::default())
        .expect("what is written can be read");
    let back: Vec<&MetricSample> = page.samples().collect();
    assert_eq!(back.len(), 1, "{text}");
    assert_eq!((&back[0].name, &back[0].labels), (&sample.name, &sample.labels));
    assert!(back[0].value == sample.value || (back[0].value.is_nan() && sample.value.is_nan()));
}

fn run(bytes: &[u8]) {
    let limits = ScrapeLimits { bytes: 1 << 16, samples: 200, families: 50, labels: 8 };
    for format in [ExpositionFormat::Text, ExpositionFormat::OpenMetrics] {
        let Ok(page) = parse_page(bytes, format, &limits) else { continue };
        assert!(page.families.len() <= limits.families && page.samples().count() <= limits.samples);
        for sample in page.samples() {
            assert!(!sample.name.is_empty() && sample.labels.len() <= limits.labels);
            let mut names: Vec<&str> = sample.labels.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), sample.labels.len(), "a label comes twice");
            write_and_read(sample);
        }
    }
}
