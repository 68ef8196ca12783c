//! Parses an estimator request in one pass; the numbers of all rows go into one flat list.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};

use super::reply::FEWER_ROWS_HINT;
use crate::kepler_terms::{EnergySource, OutputType};

/// Largest number of rows: each takes at least two bytes of the reply, and the exporter reads 4096.
const MAX_REQUEST_ROWS: usize = 2048;
/// Largest count of numbers in a request.
const MAX_REQUEST_NUMBERS: usize = 256 << 10;
/// Largest count of names in a request.
const MAX_REQUEST_NAMES: usize = 4096;

/// Whether a request is complete: its last non-blank byte closes an object. The protocol has no
/// length field and no terminator.
pub fn is_whole(bytes: &[u8]) -> bool {
    bytes.iter().rev().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}')
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with metrics, values, output_type and source")]
pub struct EstimateRequest {
    /// Column names.
    #[serde(deserialize_with = "names")]
    pub metrics: Vec<String>,
    pub values: RequestRows,
    /// `AbsPower` or `DynPower`.
    pub output_type: String,
    /// The energy source that the estimate replaces.
    #[serde(deserialize_with = "maybe")]
    pub source: Option<String>,
    /// Names of features that are equal in all rows.
    #[serde(deserialize_with = "names")]
    pub system_features: Vec<String>,
    /// Values of `system_features`; texts are ignored.
    pub system_values: SystemValues,
    /// The requested trainer.
    #[serde(default)]
    pub trainer_name: String,
    /// Error limits.
    #[serde(default)]
    pub filter: String,
}

impl EstimateRequest {
    /// A request for rows of these metrics without trainer or filter.
    pub(super) fn plain(metrics: &[&str], output_type: OutputType, source: EnergySource) -> Self {
        Self {
            metrics: metrics.iter().map(ToString::to_string).collect(),
            values: RequestRows::default(),
            output_type: output_type.name().to_string(),
            source: Some(source.name().to_string()),
            system_features: Vec::new(),
            system_values: SystemValues::default(),
            trainer_name: String::new(),
            filter: String::new(),
        }
    }

    /// Parses the bytes; the error states what is wrong with them.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let request: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let width = request.metrics.len();
        if let Some((row, got)) = request.values.wrong_width(width) {
            return Err(format!("values[{row}] has {got} numbers; want {width}, one for each of metrics"));
        }
        let (got, want) = (request.system_values.0.len(), request.system_features.len());
        if got < want {
            return Err(format!(
                "system_values has {got} values; want {want}, one for each of system_features"
            ));
        }
        Ok(request)
    }
}

fn names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    from.deserialize_seq(BoundedListVisitor("names", |name: String| Ok(name)))
}

/// A list that stops parsing at its length limit, before it allocates more.
struct BoundedListVisitor<T, U>(&'static str, fn(T) -> Result<U, &'static str>);

impl<'de, T: Deserialize<'de>, U> Visitor<'de> for BoundedListVisitor<T, U> {
    type Value = Vec<U>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.0)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<U>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element()? {
            if list.len() >= MAX_REQUEST_NAMES {
                let why = format!("more than {MAX_REQUEST_NAMES} {}; want at most so many", self.0);
                return Err(A::Error::custom(why));
            }
            list.push((self.1)(item).map_err(A::Error::custom)?);
        }
        Ok(list)
    }
}

/// Accepts a text or null.
fn maybe<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(from)
}

/// Rows of numbers, one after the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequestRows {
    pub numbers: Vec<f64>,
    /// Length of the rows if all are equal, else of the first.
    width: usize,
    /// Number of rows.
    pub count: usize,
    odd: Option<(usize, usize)>,
}

impl RequestRows {
    fn wrong_width(&self, want: usize) -> Option<(usize, usize)> {
        if self.count > 0 && self.width != want {
            return Some((0, self.width));
        }
        self.odd
    }
}

impl<'de> Deserialize<'de> for RequestRows {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct RequestRowsVisitor;
        impl<'de> Visitor<'de> for RequestRowsVisitor {
            type Value = RequestRows;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of rows")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RequestRows, A::Error> {
                let mut rows = RequestRows::default();
                while let Some(width) = seq.next_element_seed(RowVisitor(&mut rows.numbers))? {
                    if rows.count == 0 {
                        rows.width = width;
                    } else if width != rows.width && rows.odd.is_none() {
                        rows.odd = Some((rows.count, width));
                    }
                    rows.count += 1;
                    if rows.count > MAX_REQUEST_ROWS {
                        let why = format!("values has more than {MAX_REQUEST_ROWS} rows; {FEWER_ROWS_HINT}");
                        return Err(A::Error::custom(why));
                    }
                }
                Ok(rows)
            }
        }
        from.deserialize_seq(RequestRowsVisitor)
    }
}

/// Parses one row and returns its length.
struct RowVisitor<'a>(&'a mut Vec<f64>);

impl<'de> Visitor<'de> for RowVisitor<'_> {
    type Value = usize;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row of numbers")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<usize, A::Error> {
        let mut width = 0;
        while let Some(number) = seq.next_element::<f64>()? {
            self.0.push(number);
            width += 1;
            if self.0.len() > MAX_REQUEST_NUMBERS {
                return Err(A::Error::custom(format!("values has more than {MAX_REQUEST_NUMBERS} numbers")));
            }
        }
        Ok(width)
    }
}

impl<'de> DeserializeSeed<'de> for RowVisitor<'_> {
    type Value = usize;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_seq(self)
    }
}

/// System values: numbers, or texts, which are ignored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SystemValues(pub Vec<f64>);

impl<'de> Deserialize<'de> for SystemValues {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = |value: serde_json::Value| match value {
            serde_json::Value::Number(number) => Ok(number.as_f64().unwrap_or(0.0)),
            serde_json::Value::String(text) => {
                Ok(text.parse().ok().filter(|value: &f64| value.is_finite()).unwrap_or(0.0))
            }
            serde_json::Value::Null | serde_json::Value::Bool(_) => Ok(0.0),
            _ => Err("system_values holds a list or an object; want numbers or texts"),
        };
        from.deserialize_seq(BoundedListVisitor("system values", number)).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"metrics":["a","b"],"values":[[1,2],[3,4.5]],"output_type":"AbsPower","source":null,"system_features":["s"],"system_values":["Skylake"]}"#;

    #[test]
    fn rows_become_one_list() {
        let request = EstimateRequest::read(WHOLE.as_bytes()).unwrap();
        assert_eq!(
            (request.values.numbers.as_slice(), request.values.count),
            ([1.0, 2.0, 3.0, 4.5].as_slice(), 2)
        );
        assert_eq!((request.system_values.0, request.trainer_name), (vec![0.0], String::new()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, word) in [
            ("[3,4.5]", "[3]", "values[1]"),
            ("[[1,2],[3,4.5]]", "[[1],[3]]", "values[0]"),
            (r#""system_values":["Skylake"]"#, r#""system_values":[]"#, "system_values"),
            (r#""source":null,"#, "", "source"),
            (r#""source":null"#, r#""source":{}"#, "string"),
            ("4.5", "NaN", "expected"),
            ("4.5", "\"4.5\"", "f64"),
            ("4.5", "null", "f64"),
            (r#""metrics":["a","b"],"#, "", "metrics"),
            (r#""output_type""#, r#""extra":1,"output_type""#, "extra"),
            ("4.5", "1e999", "number"),
        ] {
            let error = EstimateRequest::read(WHOLE.replace(from, to).as_bytes()).unwrap_err();
            assert!(error.contains(word), "{to}: {error}");
        }
    }

    #[test]
    fn what_is_no_object_is_told_what_would_be_one() {
        let error = EstimateRequest::read(b"null").unwrap_err();
        assert!(error.contains("expected an object with metrics"), "{error}");
    }

    #[test]
    fn lists_without_end_are_refused_before_they_take_room() {
        let many = |text: &str| vec![text; 200_000].join(",");
        for (from, to, word) in [
            ("[[1,2],[3,4.5]]", format!("[{}]", many("[1,2]")), "more than 2048 rows"),
            ("[3,4.5]", format!("[{}]", [many("1"), many("1")].join(",")), "numbers"),
            (r#"["a","b"]"#, format!("[{}]", many("\"\"")), "more than 4096 names"),
            (r#"["Skylake"]"#, format!("[{}]", many("1")), "more than 4096 system values"),
        ] {
            let error = EstimateRequest::read(WHOLE.replace(from, &to).as_bytes()).unwrap_err();
            assert!(error.contains(word), "{word}: {error}");
        }
    }

    #[test]
    fn a_request_ends_with_its_brace() {
        assert!(is_whole(b"{} \n") && is_whole(b"}"));
        assert!(!is_whole(b"") && !is_whole(b"  ") && !is_whole(b"{\"a\":1"));
    }
}
