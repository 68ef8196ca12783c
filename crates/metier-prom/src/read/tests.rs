use super::*;

fn text(page: &str) -> Result<ScrapedPage, ScrapeError> {
    parse_page(page.as_bytes(), ExpositionFormat::Text, &ScrapeLimits::default())
}

fn open(page: &str) -> Result<ScrapedPage, ScrapeError> {
    parse_page(page.as_bytes(), ExpositionFormat::OpenMetrics, &ScrapeLimits::default())
}

/// The example of the format's documentation, paraphrased.
#[test]
fn a_page_with_everything_is_read() {
    let page = r#"# HELP requests_total All "requests".\nSince \\ start.
# TYPE requests_total counter
requests_total{method="post",code="200"} 1027 1395066363000
requests_total{method="post",code="400",}    3	1395066363000

# only a comment
#and another
path{a="C:\\DIR\\",b="cannot\nopen \"x\"", c = "\d"} 1.458255915e9
bare -4.5e-3
odd{problem="division by zero"} +Inf -3982045
nan NaN
minus -Inf
# TYPE took_seconds histogram
took_seconds_bucket{le="0.05"} 24054
took_seconds_bucket{le="+Inf"} 144320
took_seconds_sum 53423
took_seconds_count 144320
"#;
    let scrape = text(&page.replace('\n', "\r\n")).unwrap();
    // Compared as text, because NaN is not equal to itself.
    assert_eq!(format!("{scrape:?}"), format!("{:?}", text(page).unwrap()));
    let requests = scrape.family("requests_total").unwrap();
    assert_eq!(requests.kind, MetricKind::Counter);
    assert_eq!(requests.help.as_deref(), Some("All \"requests\".\nSince \\ start."));
    assert_eq!(requests.samples.len(), 2);
    assert_eq!(requests.samples[1].milliseconds, Some(1_395_066_363_000));
    assert_eq!(requests.samples[1].label("code"), Some("400"));
    let path = &scrape.family("path").unwrap().samples[0];
    assert_eq!(path.label("a"), Some("C:\\DIR\\"));
    assert_eq!(path.label("b"), Some("cannot\nopen \"x\""));
    assert_eq!(path.label("c"), Some("\\d"));
    assert_eq!(scrape.family("odd").unwrap().samples[0].value, f64::INFINITY);
    assert_eq!(scrape.family("odd").unwrap().samples[0].milliseconds, Some(-3_982_045));
    assert!(scrape.family("nan").unwrap().samples[0].value.is_nan());
    assert_eq!(scrape.family("minus").unwrap().samples[0].value, f64::NEG_INFINITY);
    assert_eq!(scrape.family("bare").unwrap().kind, MetricKind::Unknown);
    assert_eq!(scrape.family("took_seconds").unwrap().samples.len(), 4);
    assert_eq!(scrape.samples().count(), 11);
}

#[test]
fn open_metrics_has_seconds_units_exemplars_and_an_end() {
    let scrape = open(
        "# TYPE a counter\n# UNIT a seconds\n# HELP a x\na_total{k=\"v\"} 1 1520879607.789 # {trace=\"#}\"} 0.7 1520879607.1\n\
         a_created 3\n# TYPE h histogram\nh_bucket{le=\"1.0\"} 2 # {} 0.5\nh_count 2\n# TYPE b info\nb_info{v=\"1\"} 1\n# EOF\n",
    )
    .unwrap();
    let a = scrape.family("a").unwrap();
    assert_eq!((a.samples.len(), a.unit.as_deref()), (2, Some("seconds")));
    assert_eq!(a.samples[0].milliseconds, Some(1_520_879_607_789));
    assert_eq!(scrape.family("h").unwrap().samples.len(), 2);
    assert_eq!(scrape.family("b").unwrap().samples[0].name, "b_info");
    assert_eq!(open("a 1\n"), Err(ScrapeError::CutOff { line: 1 }));
    assert!(matches!(open("# EOF\na 1\n"), Err(ScrapeError::Malformed { line: 2, column: 1, .. })));
}

#[test]
fn quoted_names_are_read() {
    let scrape = text("{\"my.metric\",\"a.b\"=\"c\"} 4\n# TYPE \"x y\" gauge\n{\"x y\"} 1\n").unwrap();
    assert_eq!(scrape.families[0].name, "my.metric");
    assert_eq!(scrape.families[0].samples[0].label("a.b"), Some("c"));
    assert_eq!((scrape.families[1].name.as_str(), scrape.families[1].kind), ("x y", MetricKind::Gauge));
}

#[test]
fn an_error_names_line_column_and_what_was_found() {
    for (page, line, column, part) in [
        ("ok 1\nümlaut 2\n", 2, 1, "'ü'"),
        ("ok 1\n9x 2", 2, 1, "digit"),
        ("a{b=\"é\"c=\"d\"} 2", 1, 8, "`,` or `}`"),
        ("a{b=c} 2", 1, 5, "quoted"),
        ("a{b} 2", 1, 4, "`=`"),
        ("a{b=\"c} 2", 1, 5, "does not end"),
        ("a{b=\"c\\", 1, 5, "does not end"),
        ("a{b=\"1\",b=\"2\"} 2", 1, 9, "twice"),
        ("a", 1, 2, "no a value"),
        ("a twelve", 1, 3, "\"twelve\""),
        ("a 1 later", 1, 5, "milliseconds"),
        ("a 1 1e99", 1, 5, "beyond"),
        ("a 1 2 3", 1, 7, "'3'"),
        ("a 1 # {x=\"y\"} 1", 1, 5, "'#'"),
        ("{x=\"y\"} 1", 1, 8, "without a metric's name"),
        ("# TYPE a whatever", 1, 18, "\"whatever\""),
        ("# TYPE a", 1, 9, "no type"),
        ("# TYPE a gauge\n# TYPE a gauge", 2, 1, "second TYPE"),
        ("# HELP 1a x", 1, 8, "digit"),
    ] {
        match text(page) {
            Err(ScrapeError::Malformed { line: l, column: c, what }) => {
                assert_eq!((l, c), (line, column), "{page:?}: {what}");
                assert!(what.contains(part), "{page:?}: {what}");
            }
            other => panic!("{page:?}: {other:?}"),
        }
    }
    let bytes = b"ok 1\na{b=\"\xff\"} 1";
    let error = parse_page(bytes, ExpositionFormat::Text, &ScrapeLimits::default()).unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 6: a byte that is not UTF-8");
}

#[test]
fn everything_is_bounded() {
    let limits = ScrapeLimits { bytes: 60, samples: 2, families: 2, labels: 1 };
    let small = |page: &str| parse_page(page.as_bytes(), ExpositionFormat::Text, &limits);
    assert!(matches!(small(&"a 1\n".repeat(16)), Err(ScrapeError::TooLarge { got: 64, most: 60 })));
    assert!(matches!(
        small("a 1\na 1\na 1\n"),
        Err(ScrapeError::TooMany { line: 3, what: "samples", most: 2 })
    ));
    assert!(matches!(
        small("# HELP a\n# HELP b\n# HELP c\n"),
        Err(ScrapeError::TooMany { line: 3, what: "families", .. })
    ));
    assert!(small("a{b=\"\"} 1").is_ok());
    assert!(small("a{b=\"\",c=\"\"} 1").unwrap_err().to_string().contains("more than 1 labels"));
    assert!(small(&format!("{} 1", "n".repeat(50))).is_ok());
    assert!(text(&format!("{} 1", "n".repeat(5000))).is_err());
}
