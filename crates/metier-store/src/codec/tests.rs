//! Any series reads back bit for bit, and no input bytes cause harm.

use proptest::prelude::*;

use super::*;

fn limits() -> DecodeLimits {
    DecodeLimits { rows: 10_000, columns: 40, values: 100_000 }
}

/// Bitwise equality, NaN included.
fn assert_same(a: &Series, b: &Series) {
    let strip = |series: &Series| {
        let mut series = series.clone();
        for column in &mut series.columns {
            if let ColumnValues::Float(values) = &column.values {
                column.values =
                    ColumnValues::Integer(values.iter().map(|value| value.to_bits() as i64).collect());
            }
        }
        series
    };
    assert_eq!(strip(a), strip(b));
    for (a, b) in a.columns.iter().zip(&b.columns) {
        assert_eq!(matches!(a.values, ColumnValues::Float(_)), matches!(b.values, ColumnValues::Float(_)));
    }
}

/// Typical integers: noise, small steps, multiples of a unit, extremes, equal values.
fn integers(rows: usize) -> BoxedStrategy<Vec<i64>> {
    let steps = (any::<i64>(), -300i64..300, 1i64..5000, prop::collection::vec(-20i64..20, rows)).prop_map(
        |(first, slope, unit, noise)| {
            let mut value = first;
            let next = noise.iter().map(|noise| {
                value = value.wrapping_add((slope + noise).wrapping_mul(unit));
                value
            });
            next.collect()
        },
    );
    let extremes = prop::sample::select(vec![i64::MIN, i64::MAX, 0, -1, 1, 1 << 53]);
    prop_oneof![
        prop::collection::vec(any::<i64>(), rows),
        steps,
        prop::collection::vec(extremes, rows),
        any::<i64>().prop_map(move |value| vec![value; rows]),
    ]
    .boxed()
}

fn floats(rows: usize) -> BoxedStrategy<Vec<f64>> {
    let odd = vec![
        f64::NAN,
        -f64::NAN,
        f64::from_bits(0x7ff0_0000_0000_0001),
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        f64::MIN_POSITIVE / 3.0,
        f64::MAX,
        9_007_199_254_740_992.0,
        9_007_199_254_740_993.0,
    ];
    let decimal = (0u32..12, prop::collection::vec(-100_000i64..100_000, rows))
        .prop_map(|(e, digits)| digits.iter().map(|d| *d as f64 / 10f64.powi(e as i32)).collect::<Vec<_>>());
    let mostly = (decimal.clone(), prop::sample::select(odd.clone()), any::<prop::sample::Index>()).prop_map(
        |(mut values, odd, at)| {
            if !values.is_empty() {
                let at = at.index(values.len());
                values[at] = odd;
            }
            values
        },
    );
    prop_oneof![
        prop::collection::vec(any::<u64>().prop_map(f64::from_bits), rows),
        prop::collection::vec(prop::sample::select(odd), rows),
        prop::collection::vec(any::<f32>().prop_map(f64::from), rows),
        decimal,
        mostly,
    ]
    .boxed()
}

fn column(rows: usize) -> impl Strategy<Value = SeriesColumn> {
    let values = prop_oneof![
        integers(rows).prop_map(ColumnValues::Integer),
        floats(rows).prop_map(ColumnValues::Float)
    ];
    let absent = prop_oneof![
        Just(vec![false; rows]),
        Just(vec![true; rows]),
        prop::collection::vec(prop::bool::weighted(0.1), rows),
    ];
    (".{0,12}", any::<bool>(), prop::sample::select(UNIT_BY_CODE.to_vec()), values, absent).prop_map(
        |(name, is_counter, unit, values, absent)| SeriesColumn {
            name,
            kind: if is_counter { ColumnKind::Counter } else { ColumnKind::Gauge },
            unit,
            values,
            absent: (0..).zip(absent).filter_map(|(row, absent)| absent.then_some(row)).collect(),
        },
    )
}

fn series() -> impl Strategy<Value = Series> {
    let rows = prop_oneof![Just(0usize), Just(1), 2..8usize, 120..140usize, 250..600usize];
    rows.prop_flat_map(|rows| {
        let columns = prop::collection::vec(column(rows), 0..5);
        let extra = prop::option::of(".{0,9}");
        (".{0,12}", integers(rows), columns, extra).prop_map(|(name, times, columns, extra)| {
            let mut series = Series::new(RunId::new(), name);
            series.times = times;
            series.columns = columns;
            if let Some(extra) = extra {
                series.extra.insert("later".to_string(), serde_json::json!({ "text": extra, "number": 0.1 }));
            }
            series
        })
    })
}

/// Bytes with the checksum corrected after a change.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= HEADER_BYTES {
        let length = (bytes.len() - HEADER_BYTES) as u32;
        let sum = xxh64(&bytes[HEADER_BYTES..]);
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes[12..20].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_series_reads_back(series in series()) {
        let bytes = encode_series(&series).unwrap();
        assert_same(&decode_series(&bytes, limits()).unwrap(), &series);
    }

    #[test]
    fn parts_read_back(series in series(), at in any::<prop::sample::Index>()) {
        let at = at.index(series.times.len() + 1);
        let bytes = [encode_rows(&series, 0..at).unwrap(), encode_rows(&series, at..series.times.len()).unwrap()];
        let parts = bytes.map(|bytes| decode_series(&bytes, limits()).unwrap());
        prop_assert_eq!([&parts[0].times[..], &parts[1].times[..]].concat(), series.times.clone());
        for (i, column) in series.columns.iter().enumerate() {
            let later = parts[1].columns[i].absent.iter().map(|row| row + at as u32);
            let absent: Vec<u32> = parts[0].columns[i].absent.iter().copied().chain(later).collect();
            prop_assert_eq!(&absent, &column.absent);
        }
    }

    #[test]
    fn a_flipped_bit_is_found(series in series(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut bytes = encode_series(&series).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        prop_assert!(decode_series(&bytes, limits()).is_err());
    }

    #[test]
    fn a_cut_is_found(series in series(), at in any::<prop::sample::Index>()) {
        let bytes = encode_series(&series).unwrap();
        prop_assert!(decode_series(&bytes[..at.index(bytes.len())], limits()).is_err());
    }

    #[test]
    fn bytes_made_with_intent_do_no_harm(
        series in series(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = encode_series(&series).unwrap();
        for (at, value) in changes {
            let at = HEADER_BYTES + at.index(bytes.len() - HEADER_BYTES);
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(HEADER_BYTES + cut.index(bytes.len() - HEADER_BYTES));
        }
        if let Ok(decoded) = decode_series(&sealed(bytes), limits()) {
            let rows = decoded.times.len();
            prop_assert!(rows <= 10_000 && decoded.columns.len() <= 40);
            prop_assert!(decoded.columns.iter().all(|column| column.values.len() == rows));
        }
    }

    #[test]
    fn noise_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(decode_series(&bytes, limits()).is_err());
        let mut with_head = b"mser\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        with_head.extend(&bytes);
        let _ = decode_series(&sealed(with_head), limits());
    }
}

fn plain(rows: usize, columns: usize) -> Series {
    let mut series = Series::new(RunId::new(), "use");
    series.times = vec![0; rows];
    series.columns = (0..columns)
        .map(|i| SeriesColumn {
            name: i.to_string(),
            kind: ColumnKind::Gauge,
            unit: ColumnUnit::Count,
            values: ColumnValues::Integer(vec![7; rows]),
            absent: vec![],
        })
        .collect();
    series
}

#[test]
fn limits_hold_before_anything_is_allocated() {
    for (rows, columns) in [(10_001, 0), (1, 41), (10_000, 20)] {
        let bytes = encode_series(&plain(rows, columns)).unwrap();
        assert!(
            matches!(decode_series(&bytes, limits()), Err(CodecError::TooLarge { .. })),
            "{rows} x {columns}"
        );
    }
    assert!(decode_series(&encode_series(&plain(10_000, 9)).unwrap(), limits()).is_ok());
}

#[test]
fn equal_and_absent_columns_cost_nothing() {
    let mut series = plain(9000, 1);
    series.columns[0].absent = (0..9000).collect();
    assert!(encode_series(&series).unwrap().len() < 80);
}

#[test]
fn a_later_version_is_named() {
    let mut bytes = encode_series(&plain(1, 1)).unwrap();
    bytes[4] = 2;
    assert_eq!(decode_series(&bytes, limits()), Err(CodecError::Newer(2)));
}

#[test]
fn misshapen_series_are_refused() {
    let mut short = plain(3, 1);
    short.times.pop();
    let mut outside = plain(3, 1);
    outside.columns[0].absent = vec![3];
    let mut unordered = plain(3, 1);
    unordered.columns[0].absent = vec![1, 1];
    for series in [short, outside, unordered] {
        assert!(matches!(encode_series(&series), Err(CodecError::Misshapen(_))));
    }
}

/// One page of each kind. Data of earlier versions must read the same for ever.
fn one_of_each() -> Series {
    let rows = 300i64;
    let mut series = Series::new("0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b2f".parse().unwrap(), "use");
    series.times = (0..rows).map(|i| i * 10_000_000 + i * i % 7 * 1000).collect();
    let column = |name: &str, kind, unit, values| SeriesColumn {
        name: name.into(),
        kind,
        unit,
        values,
        absent: vec![],
    };
    let of = |each: fn(i64) -> i64| ColumnValues::Integer((0..rows).map(each).collect());
    let fl = |each: fn(i64) -> f64| ColumnValues::Float((0..rows).map(each).collect());
    series.columns = vec![
        column("constant", ColumnKind::Gauge, ColumnUnit::Count, of(|_| -5)),
        column("noise", ColumnKind::Gauge, ColumnUnit::Bytes, of(|i| i * 7919 % 1009 * 4096)),
        column("counter", ColumnKind::Counter, ColumnUnit::Nanoseconds, of(|i| i * 1000 + i * i % 11)),
        column("square", ColumnKind::Counter, ColumnUnit::Microjoules, of(|i| i * i)),
        column(
            "extreme",
            ColumnKind::Gauge,
            ColumnUnit::Count,
            of(|i| if i % 2 == 0 { i64::MIN } else { i64::MAX }),
        ),
        column("rare", ColumnKind::Gauge, ColumnUnit::Hertz, of(|i| if i % 64 == 63 { i << 40 } else { 0 })),
        column(
            "decimal",
            ColumnKind::Gauge,
            ColumnUnit::Celsius,
            fl(|i| if i == 9 { -0.0 } else { (i % 40) as f64 / 8.0 }),
        ),
        column("bits", ColumnKind::Gauge, ColumnUnit::Ratio, fl(|i| ((i + 1) as f64).sqrt())),
        column("infinite", ColumnKind::Gauge, ColumnUnit::Watts, fl(|_| f64::INFINITY)),
    ];
    series.columns[1].absent = vec![0, 5, 6, 7, 299];
    series.extra.insert("later".to_string(), serde_json::json!([1, "two"]));
    series
}

#[test]
fn what_version_1_wrote_reads_the_same() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/series-1.bin");
    if std::env::var_os("METIER_WRITE_GOLDEN").is_some() {
        std::fs::write(path, encode_series(&one_of_each()).unwrap()).unwrap();
    }
    let golden = std::fs::read(path).unwrap();
    assert_same(&decode_series(&golden, limits()).unwrap(), &one_of_each());
}
