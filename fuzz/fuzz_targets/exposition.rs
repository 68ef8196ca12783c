//! Any bytes as a metrics page, in both formats. The page is rejected with the line, or it is
//! within the limits and can be written and read again.
#![no_main]
#![allow(dead_code, unused_imports)]

// The text formats of metier-prom, without its HTTP client.
#[path = "../../crates/metier-prom/src/distribution.rs"]
mod distribution;
#[path = "../../crates/metier-prom/src/format.rs"]
mod format;
#[path = "../../crates/metier-prom/src/labels.rs"]
mod labels;
#[path = "../../crates/metier-prom/src/name.rs"]
mod name;
#[path = "../../crates/metier-prom/src/number.rs"]
mod number;
#[path = "../../crates/metier-prom/src/read/mod.rs"]
mod read;
#[path = "../../crates/metier-prom/src/write.rs"]
mod write;

use libfuzzer_sys::fuzz_target;

use format::{Format, Kind};
use name::{is_label_name, is_metric_name};
use read::{Limits, Sample, read};
use write::Page;

fn again(sample: &Sample) {
    let pairs: Vec<(&str, &str)> =
        sample.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // A page truncates long values and writes only names that every Prometheus accepts.
    let is_plain = pairs.iter().all(|(name, value)| is_label_name(name) && value.len() <= 1024);
    if !is_metric_name(&sample.name) || !is_plain {
        return;
    }
    let mut page = Page::new(Format::Text);
    page.family(&sample.name, Kind::Gauge, "Again.").sample(pairs.as_slice(), sample.value);
    let text = page.finish();
    let scrape = read(text.as_bytes(), Format::Text, &Limits::default()).expect("what we write can be read");
    let back: Vec<&Sample> = scrape.samples().collect();
    assert_eq!(back.len(), 1, "{text}");
    assert_eq!((&back[0].name, &back[0].labels), (&sample.name, &sample.labels));
    assert!(back[0].value == sample.value || (back[0].value.is_nan() && sample.value.is_nan()));
}

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { bytes: 1 << 16, samples: 200, families: 50, labels: 8 };
    for format in [Format::Text, Format::OpenMetrics] {
        let Ok(scrape) = read(bytes, format, &limits) else { continue };
        assert!(scrape.families.len() <= limits.families && scrape.samples().count() <= limits.samples);
        for sample in scrape.samples() {
            assert!(!sample.name.is_empty() && sample.labels.len() <= limits.labels);
            let mut names: Vec<&str> = sample.labels.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), sample.labels.len(), "a label comes twice");
            again(sample);
        }
    }
});
