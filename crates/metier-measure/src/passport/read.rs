//! Reads a passport that somebody else wrote. Nothing is believed: its size, its schema, every field's kind, and whether
//! the figures can be those of a machine. Everything that is wrong is told at once, by field.

use std::fmt;

use metier_types::schema::Versioned as _;
use metier_types::{DeviceId, Passport};
use serde_json::Value;

use super::shape;

/// Larger files are refused: the largest honest one has some ten thousand bytes.
pub const LARGEST: u64 = 4 << 20;

/// The most entries of one list.
const MOST_ENTRIES: usize = 4096;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Dotted, for example `compute[2].threads`.
    pub field: String,
    /// What was given; `None` where nothing was.
    pub got: Option<String>,
    /// What would be right.
    pub want: String,
}

impl Fault {
    /// More are not told.
    pub const MOST: usize = 50;

    /// One, with what was given cut to a readable length.
    pub fn new(field: impl Into<String>, got: Option<&Value>, want: impl Into<String>) -> Self {
        let cut = |value: &Value| {
            let text = value.to_string();
            let mut cut: String = text.chars().take(60).collect();
            if cut.len() < text.len() {
                cut.push('…');
            }
            cut
        };
        Self { field: field.into(), got: got.map(cut), want: want.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.got {
            Some(got) => write!(f, "{} is {got}; want {}", self.field, self.want),
            None => write!(f, "{} is missing; want {}", self.field, self.want),
        }
    }
}

/// The passport in a file, or all that is wrong with it; never an empty list.
pub fn read(bytes: &[u8]) -> Result<Passport, Vec<Fault>> {
    let one = |field: &str, got: Option<String>, want: &str| {
        Err(vec![Fault { field: field.into(), got, want: want.into() }])
    };
    if bytes.len() as u64 > LARGEST {
        return one("the file", Some(format!("{} bytes", bytes.len())), "at most 4 MiB");
    }
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => return one("the file", Some(format!("not JSON ({error})")), "a passport in JSON"),
    };
    if value.get("schema").and_then(Value::as_str) != Some(Passport::SCHEMA) {
        let got = value.get("schema");
        return Err(vec![Fault::new("schema", got, format!("\"{}\"", Passport::SCHEMA))]);
    }
    let mut faults = Vec::new();
    let schemas = metier_types::schema::all();
    if let Some((_, schema)) = schemas.iter().find(|(name, _)| *name == Passport::SCHEMA) {
        shape::compare(&value, schema.as_value(), &mut faults);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let passport: Passport = match serde_json::from_value(value) {
        Ok(passport) => passport,
        Err(error) => return one("the document", Some(error.to_string()), "a passport"),
    };
    let faults = check(&passport);
    if faults.is_empty() { Ok(passport) } else { Err(faults) }
}

/// Figures that no machine has, and names that cannot be used.
pub fn check(passport: &Passport) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut want = |field: String, is: bool, got: String, want: &str| {
        if !is && faults.len() < Fault::MOST {
            faults.push(Fault { field, got: Some(got), want: want.into() });
        }
    };
    want(
        "id".into(),
        passport.id.parse::<DeviceId>().is_ok(),
        format!("{:?}", passport.id),
        "1 to 200 printable characters without '/' at either end",
    );
    let name = passport.name.trim();
    want(
        "name".into(),
        !name.is_empty() && name.chars().count() <= 200 && !name.chars().any(char::is_control),
        format!("{:?}", passport.name),
        "1 to 200 characters",
    );
    for (field, entries) in [
        ("aliases", passport.aliases.len()),
        ("compute", passport.compute.len()),
        ("accelerators", passport.accelerators.len()),
        ("bandwidth", passport.bandwidth.len()),
        ("latency", passport.latency.len()),
        ("sources", passport.sources.len()),
        ("notes", passport.notes.len()),
    ] {
        want(field.into(), entries <= MOST_ENTRIES, format!("{entries} entries"), "at most 4096 entries");
    }
    let positive = "a number above 0 that a machine can have";
    let rate = |rate: f64| rate.is_finite() && rate > 0.0 && rate < 1e21;
    let time = |seconds: f64| seconds.is_finite() && seconds > 0.0 && seconds < 1e5;
    for (i, one) in passport.compute.iter().enumerate() {
        let got = one.multiply_adds_per_second;
        want(format!("compute[{i}].multiply_adds_per_second"), rate(got), got.to_string(), positive);
        want(format!("compute[{i}].threads"), one.threads > 0, "0".into(), "at least 1");
    }
    for (i, one) in passport.accelerators.iter().enumerate() {
        let got = one.multiply_adds_per_second;
        want(format!("accelerators[{i}].multiply_adds_per_second"), rate(got), got.to_string(), positive);
    }
    for (i, one) in passport.bandwidth.iter().enumerate() {
        want(
            format!("bandwidth[{i}].bytes_per_second"),
            rate(one.bytes_per_second),
            one.bytes_per_second.to_string(),
            positive,
        );
        want(format!("bandwidth[{i}].threads"), one.threads > 0, "0".into(), "at least 1");
    }
    for (i, one) in passport.latency.iter().enumerate() {
        want(
            format!("latency[{i}].seconds"),
            time(one.seconds.get()),
            one.seconds.get().to_string(),
            positive,
        );
    }
    let storage = passport.storage.as_ref();
    for (field, value, is) in [
        (
            "storage.read_bytes_per_second",
            storage.and_then(|storage| storage.read_bytes_per_second),
            rate as fn(f64) -> bool,
        ),
        ("storage.write_bytes_per_second", storage.and_then(|storage| storage.write_bytes_per_second), rate),
        ("storage.sync_seconds", storage.and_then(|storage| storage.sync_seconds).map(|it| it.get()), time),
        ("spawn_seconds", passport.spawn_seconds.map(|it| it.get()), time),
        ("throttling.kept_ratio", passport.throttling.as_ref().map(|it| it.kept_ratio.get()), |it| {
            it > 0.0 && it < 100.0
        }),
    ] {
        if let Some(value) = value {
            want(field.into(), is(value), value.to_string(), positive);
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::shipped;
    use super::*;

    fn faults(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut value = serde_json::to_value(&shipped()[0]).unwrap();
        change(&mut value);
        let read = read(value.to_string().as_bytes());
        read.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_shipped_passport_is_read_as_it_is_and_so_is_one_with_fields_of_a_later_version() {
        for passport in shipped() {
            let text = serde_json::to_string(passport).unwrap();
            assert_eq!(read(text.as_bytes()).unwrap(), *passport);
        }
        assert_eq!(faults(|value| value["later"] = json!({ "deep": [1] })), Vec::<String>::new());
    }

    #[test]
    fn all_faults_are_told_at_once_by_field() {
        let told = faults(|value| {
            value["origin"] = json!("guessed");
            value["compute"][1]["threads"] = json!(-3);
            value["compute"][0]["multiply_adds_per_second"] = json!("fast");
            value["device"]["cpu"]["threads"] = json!(1.5);
            value["missing"]["storage"] = json!(7);
            value["spawn_seconds"] = json!(true);
            value["storage"] = json!([]);
            value["device"].as_object_mut().unwrap().remove("name");
            value.as_object_mut().unwrap().remove("made");
        });
        for (field, got) in [
            ("origin", "\"guessed\"; want one of measured, specified"),
            ("compute[1].threads", "-3"),
            ("compute[0].multiply_adds_per_second", "\"fast\"; want number"),
            ("device.cpu.threads", "1.5; want integer"),
            ("missing.storage", "7; want string"),
            ("spawn_seconds", "true; want number"),
            ("storage", "[]; want object"),
            ("device.name", "missing; want string"),
            ("made", "missing; want string"),
        ] {
            assert!(
                told.iter().any(|line| line.starts_with(&format!("{field} is {got}"))),
                "{field}: {told:#?}"
            );
        }
        assert_eq!(told.len(), 9, "{told:#?}");
    }

    #[test]
    fn figures_that_no_machine_has_are_refused() {
        let told = faults(|value| {
            value["compute"][0]["multiply_adds_per_second"] = json!(-1.0);
            value["compute"][2]["threads"] = json!(0);
            value["bandwidth"][0]["bytes_per_second"] = json!(1e30);
            value["latency"] = json!([{ "working_set_bytes": 64, "seconds": 0.0 }]);
            value["spawn_seconds"] = json!(1e9);
            value["name"] = json!("");
            value["id"] = json!("a\nb");
        });
        assert_eq!(told.len(), 7, "{told:#?}");
        assert!(told.iter().any(|line| line.starts_with("latency[0].seconds is 0")), "{told:#?}");
    }

    #[test]
    fn other_schemas_and_other_files_are_refused() {
        let told = faults(|value| value["schema"] = json!("metier.device/1"));
        assert_eq!(told, ["schema is \"metier.device/1\"; want \"metier.passport/1\""]);
        let told = faults(|value| value["schema"] = json!("metier.passport/2"));
        assert_eq!(told, ["schema is \"metier.passport/2\"; want \"metier.passport/1\""]);
        assert_eq!(read(b"[]").unwrap_err()[0].to_string(), "schema is missing; want \"metier.passport/1\"");
        for bytes in [&b""[..], b"{", b"\xff\xfe", &b"[".repeat(100_000)] {
            assert!(read(bytes).unwrap_err()[0].to_string().starts_with("the file is not JSON"));
        }
        assert!(read(&vec![b' '; LARGEST as usize + 1]).unwrap_err()[0].to_string().contains("4 MiB"));
        let many = faults(|value| value["aliases"] = json!(vec![1; 1000]));
        assert_eq!(many.len(), Fault::MOST);
    }
}
