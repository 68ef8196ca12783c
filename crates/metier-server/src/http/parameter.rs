//! Parameters of routes: declared once, then checked, read and documented from that declaration.
//!
//! An undeclared or repeated name is refused. All faults of a request are reported at once. An
//! empty value (`?text=`) counts as absent, so that a form can be sent as it is.

use std::fmt;
use std::str::FromStr;

use axum::http::StatusCode;
use metier_types::{BatchId, DeviceId, RunId, SessionId, UtcTimestamp, WorkloadId};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::http::problem::{FieldError, ProblemDetails};

/// Most ids in one list.
const MAX_IDS: usize = 64;
const MAX_QUERY_BYTES: usize = 16 << 10;

/// Location of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterLocation {
    /// In the path, always required.
    Path,
    /// In the query.
    Query,
}

/// Format of a parameter.
#[derive(Debug, Clone, Copy)]
pub enum ParameterForm {
    /// Any text of at most this many characters.
    Text(usize),
    /// A whole number within bounds, with its default.
    Whole { least: i64, most: i64, otherwise: Option<i64> },
    /// `true` or `false`.
    Flag { otherwise: bool },
    /// A moment, RFC 3339.
    Time,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The id of a run.
    Run,
    /// The id of a batch.
    Batch,
    /// The id of a device.
    Device,
    /// The id of a workload.
    Workload,
    /// The id of a session.
    Session,
    /// The name of a job.
    Job,
    /// Ids of runs or batches with commas between them.
    RunsOrBatches,
}

/// One parameter of a route.
#[derive(Debug, Clone, Copy)]
pub struct RouteParameter {
    pub name: &'static str,
    pub place: ParameterLocation,
    /// Whether it is required.
    pub is_needed: bool,
    /// Its format.
    pub form: ParameterForm,
    pub about: &'static str,
}

impl RouteParameter {
    pub const fn path(name: &'static str, form: ParameterForm, about: &'static str) -> Self {
        Self { name, place: ParameterLocation::Path, is_needed: true, form, about }
    }

    /// An optional query parameter.
    pub const fn query(name: &'static str, form: ParameterForm, about: &'static str) -> Self {
        Self { name, place: ParameterLocation::Query, is_needed: false, form, about }
    }

    /// A required query parameter.
    pub const fn required_query(name: &'static str, form: ParameterForm, about: &'static str) -> Self {
        Self { name, place: ParameterLocation::Query, is_needed: true, form, about }
    }

    fn check(&self, text: &str) -> Result<(), FieldError> {
        if self.form.accepts(text) {
            Ok(())
        } else {
            Err(FieldError::new(self.name, text, self.form.to_string()))
        }
    }
}

impl ParameterForm {
    pub(crate) fn accepts(&self, text: &str) -> bool {
        match self {
            Self::Text(longest) => text.chars().count() <= *longest,
            Self::Whole { least, most, .. } => {
                text.parse::<i64>().is_ok_and(|number| (*least..=*most).contains(&number))
            }
            Self::Flag { .. } => matches!(text, "true" | "false"),
            Self::Time => text.parse::<UtcTimestamp>().is_ok(),
            Self::OneOf(words) => words.contains(&text),
            Self::Run => text.parse::<RunId>().is_ok(),
            Self::Batch => text.parse::<BatchId>().is_ok(),
            Self::Device => text.parse::<DeviceId>().is_ok(),
            Self::Workload => text.parse::<WorkloadId>().is_ok(),
            Self::Session => text.parse::<SessionId>().is_ok(),
            Self::Job => {
                (1..=100).contains(&text.len())
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
                    && !text.starts_with('.')
            }
            Self::RunsOrBatches => {
                text.split(',').count() <= MAX_IDS && text.split(',').all(|id| id.parse::<RunId>().is_ok())
            }
        }
    }

    /// Its JSON Schema, for the OpenAPI document.
    pub fn schema(&self) -> Value {
        const UUID: &str = "^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$";
        match self {
            Self::Text(longest) => json!({"type": "string", "maxLength": longest}),
            Self::Whole { least, most, otherwise } => {
                let mut schema = json!({"type": "integer", "minimum": least, "maximum": most});
                if let Some(number) = otherwise {
                    schema["default"] = json!(number);
                }
                schema
            }
            Self::Flag { otherwise } => json!({"type": "boolean", "default": otherwise}),
            Self::Time => json!({"type": "string", "format": "date-time"}),
            Self::OneOf(words) => json!({"type": "string", "enum": words}),
            Self::Job => json!({"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$"}),
            Self::Run | Self::Batch | Self::Session => json!({"type": "string", "pattern": UUID}),
            Self::Device | Self::Workload => json!({"type": "string", "minLength": 1, "maxLength": 200}),
            Self::RunsOrBatches => json!({"type": "string", "pattern": "^[0-9a-fA-F-]+(,[0-9a-fA-F-]+)*$"}),
        }
    }
}

impl fmt::Display for ParameterForm {
    /// The expected value, as the end of "want …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(longest) => write!(f, "a text of at most {longest} characters"),
            Self::Whole { least, most, .. } if *most == i64::MAX => write!(f, "a whole number from {least}"),
            Self::Whole { least, most, .. } => write!(f, "a whole number from {least} to {most}"),
            Self::Flag { .. } => f.write_str("true or false"),
            Self::Time => f.write_str("a moment such as 2026-01-31T12:00:00Z"),
            Self::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Self::Run => f.write_str("a run id, a UUID such as 0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b2f"),
            Self::Batch => f.write_str("a batch id, a UUID such as 0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b2f"),
            Self::Session => f.write_str("a session id, a UUID such as 0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b2f"),
            Self::Job => f.write_str("1 to 100 letters, digits, '-', '_' or '.'"),
            Self::Device => f.write_str("a device id of 1 to 200 printable characters"),
            Self::Workload => f.write_str("a workload id of 1 to 200 printable characters"),
            Self::RunsOrBatches => {
                write!(f, "1 to {MAX_IDS} ids of runs or batches (UUIDs) with commas between them")
            }
        }
    }
}

/// The checked parameters of one request.
#[derive(Debug)]
pub struct RequestArguments {
    declared: &'static [RouteParameter],
    given: Vec<(&'static str, String)>,
}

impl RequestArguments {
    /// Checks a request's parameters against those of its route.
    pub fn read<'a>(
        declared: &'static [RouteParameter],
        path: impl Iterator<Item = (&'a str, &'a str)>,
        query: &str,
    ) -> Result<Self, ProblemDetails> {
        if query.len() > MAX_QUERY_BYTES {
            let detail = format!("the query has {} bytes; want at most {MAX_QUERY_BYTES}", query.len());
            return Err(ProblemDetails::new(StatusCode::URI_TOO_LONG, detail));
        }
        let mut given: Vec<(&'static str, String)> = Vec::new();
        let mut errors = Vec::new();
        let mut take = |place: ParameterLocation, name: &str, text: &str| {
            let Some(parameter) = declared.iter().find(|p| p.place == place && p.name == name) else {
                errors.push(unknown_parameter(declared, name));
                return;
            };
            if text.is_empty() && place == ParameterLocation::Query {
                return;
            }
            if given.iter().any(|(known, _)| *known == parameter.name) {
                errors.push(FieldError::new(name, text, "each parameter once"));
                return;
            }
            match parameter.check(text) {
                Ok(()) => given.push((parameter.name, text.to_string())),
                Err(error) => errors.push(error),
            }
        };
        for (name, text) in path {
            take(ParameterLocation::Path, name, text);
        }
        for (name, text) in form_urlencoded::parse(query.as_bytes()) {
            take(ParameterLocation::Query, &name, &text);
        }
        for needed in declared.iter().filter(|p| p.is_needed) {
            let is_there = given.iter().any(|(name, _)| *name == needed.name)
                || errors.iter().any(|error| error.field == needed.name);
            if !is_there {
                errors.push(FieldError::absent(needed.name, needed.form.to_string()));
            }
        }
        // The response is bounded, so only the first errors are reported.
        errors.truncate(20);
        match errors.is_empty() {
            true => Ok(Self { declared, given }),
            false => Err(ProblemDetails::fields(StatusCode::BAD_REQUEST, errors)),
        }
    }

    /// The text of a parameter.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }

    /// A whole number, or its declared default.
    pub fn integer(&self, name: &str) -> Option<i64> {
        let declared = self.declared.iter().find(|p| p.name == name).and_then(|p| match p.form {
            ParameterForm::Whole { otherwise, .. } => otherwise,
            _ => None,
        });
        self.text(name).and_then(|text| text.parse().ok()).or(declared)
    }

    /// A flag, or its declared default.
    pub fn flag(&self, name: &str) -> bool {
        let declared = self
            .declared
            .iter()
            .any(|p| p.name == name && matches!(p.form, ParameterForm::Flag { otherwise: true }));
        self.text(name).map_or(declared, |text| text == "true")
    }

    /// A parameter, parsed as `T`.
    pub fn parsed<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<Option<T>, ProblemDetails> {
        let parse = |text: &str| {
            text.parse().map_err(|e: T::Err| ProblemDetails::bad_field(name, text, e.to_string()))
        };
        self.text(name).map(parse).transpose()
    }

    /// A required parameter, parsed as `T`.
    pub fn required<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<T, ProblemDetails> {
        let absent = || FieldError::absent(name, "a value");
        self.parsed(name)?.ok_or_else(|| ProblemDetails::fields(StatusCode::BAD_REQUEST, vec![absent()]))
    }

    /// A word of an enumeration, by its JSON name.
    pub fn enum_value<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ProblemDetails> {
        let read = |text: &str| {
            serde_json::from_value(Value::String(text.to_string()))
                .map_err(|error| ProblemDetails::bad_field(name, text, error.to_string()))
        };
        self.text(name).map(read).transpose()
    }
}

fn unknown_parameter(declared: &[RouteParameter], name: &str) -> FieldError {
    let names: Vec<&str> =
        declared.iter().filter(|p| p.place == ParameterLocation::Query).map(|p| p.name).collect();
    let want = match names.is_empty() {
        true => "no parameters".to_string(),
        false => format!("only {}", names.join(", ")),
    };
    FieldError::new(name, "an unknown parameter", want)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[RouteParameter] = &[
        RouteParameter::path("id", ParameterForm::Run, "a run"),
        RouteParameter::query(
            "limit",
            ParameterForm::Whole { least: 1, most: 1000, otherwise: Some(50) },
            "how many",
        ),
        RouteParameter::query("warmup", ParameterForm::Flag { otherwise: true }, "whether"),
        RouteParameter::required_query("a", ParameterForm::RunsOrBatches, "a side"),
    ];
    const ID: &str = "0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b2f";

    fn read(id: &str, query: &str) -> Result<RequestArguments, ProblemDetails> {
        RequestArguments::read(DECLARED, [("id", id)].into_iter(), query)
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let problem = read("x", "limit=0&color=red&warmup=yes").unwrap_err();
        let fields: Vec<&str> = problem.errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["id", "limit", "color", "warmup", "a"]);
        assert_eq!(problem.status, 400);
    }

    #[test]
    fn an_empty_value_is_none_and_the_default_stands() {
        let arguments = read(ID, &format!("limit=&warmup=&a={ID},{ID}")).unwrap();
        assert_eq!(arguments.integer("limit"), Some(50));
        assert!(arguments.flag("warmup"));
        assert_eq!(arguments.text("limit"), None);
        assert!(read(ID, "a=").is_err());
    }

    #[test]
    fn a_parameter_given_twice_is_refused() {
        let problem = read(ID, &format!("limit=1&limit=2&a={ID}")).unwrap_err();
        assert_eq!(problem.errors[0].want, "each parameter once");
    }

    #[test]
    fn values_are_decoded() {
        const TEXT: &[RouteParameter] = &[RouteParameter::query("text", ParameterForm::Text(5), "words")];
        let arguments = RequestArguments::read(TEXT, std::iter::empty(), "text=a%20b%2Bc").unwrap();
        assert_eq!(arguments.text("text"), Some("a b+c"));
        assert!(RequestArguments::read(TEXT, std::iter::empty(), "text=123456").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_query_makes_it_panic_and_each_error_is_the_clients(
            query in "(limit|warmup|a|id|x|%[0-9a-f]{2}|[&=,;+%]|\\PC){0,40}",
            id in "\\PC{0,40}",
        ) {
            match read(&id, &query) {
                Ok(arguments) => assert!((1..=1000).contains(&arguments.integer("limit").unwrap())),
                Err(problem) => assert!(problem.status == 400 && !problem.errors.is_empty()),
            }
        }
    }
}
