//! Reader for passports from untrusted files. It validates size, schema, every field's type, and
//! whether the figures are plausible for a machine. All faults are reported at once, by field.

use std::fmt;

use metier_types::schema::VersionedRecord as _;
use metier_types::{DeviceId, Passport};
use serde_json::Value;

use super::schema_check;

/// Largest accepted file; the largest known passport has about ten thousand bytes.
pub const MAX_PASSPORT_BYTES: u64 = 4 << 20;

/// Largest number of entries in one list.
const MAX_ENTRIES: usize = 4096;

/// Largest number of hardware threads, as in predictions.
const MAX_THREADS: f64 = 4096.0;
const THREADS_RANGE: &str = "1 to 4096";
/// Rule for ids: flags take comma-separated device lists, in which `here` and `all` are keywords.
const ID_RULE: &str = "an id without a comma, other than here and all, which are keywords of flags";

/// One fault in a passport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassportFault {
    /// Path of the field, for example `compute[2].threads`.
    pub field: String,
    /// The given value; `None` if missing.
    pub got: Option<String>,
    /// Description of valid values.
    pub want: String,
}

impl PassportFault {
    /// Largest number of reported faults.
    pub const MAX_FAULTS: usize = 50;

    /// Creates a fault; the given value is cut to 60 characters.
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

impl fmt::Display for PassportFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.got {
            Some(got) => write!(f, "{} is {got}; want {}", self.field, self.want),
            None => write!(f, "{} is missing; want {}", self.field, self.want),
        }
    }
}

/// Parses a passport, or returns a non-empty list of faults.
pub fn parse_passport(bytes: &[u8]) -> Result<Passport, Vec<PassportFault>> {
    let one = |field: &str, got: Option<String>, want: &str| {
        Err(vec![PassportFault { field: field.into(), got, want: want.into() }])
    };
    if bytes.len() as u64 > MAX_PASSPORT_BYTES {
        return one("the file", Some(format!("{} bytes", bytes.len())), "at most 4 MiB");
    }
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => return one("the file", Some(format!("not JSON ({error})")), "a passport in JSON"),
    };
    if value.get("schema").and_then(Value::as_str) != Some(Passport::SCHEMA) {
        let got = value.get("schema");
        return Err(vec![PassportFault::new("schema", got, format!("\"{}\"", Passport::SCHEMA))]);
    }
    let mut faults = Vec::new();
    let schemas = metier_types::schema::record_schemas();
    if let Some((_, schema)) = schemas.iter().find(|(name, _)| *name == Passport::SCHEMA) {
        schema_check::compare_with_schema(&value, schema.as_value(), &mut faults);
    }
    for fault in check_figures(&value) {
        let is_told = faults.iter().any(|passport_fault| passport_fault.field == fault.field);
        if !is_told && faults.len() < PassportFault::MAX_FAULTS {
            faults.push(fault);
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    match serde_json::from_value(value) {
        Ok(passport) => Ok(passport),
        Err(error) => one("the document", Some(error.to_string()), "a passport"),
    }
}

/// Implausible figures and unusable names. Values of a wrong type are left to the schema check.
fn check_figures(passport: &Value) -> Vec<PassportFault> {
    let mut faults = Vec::new();
    let mut want = |field: &str, is: bool, got: Option<&Value>, want: &str| {
        if !is && faults.len() < PassportFault::MAX_FAULTS {
            faults.push(PassportFault::new(field, got, want));
        }
    };
    let list = |name: &str| passport.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let id = passport.get("id");
    if let Some(text) = id.and_then(Value::as_str) {
        // The id also serves as a file name and in addresses.
        let is = text.parse::<DeviceId>().is_ok() && !text.contains(['/', '\\']) && !text.starts_with('.');
        want("id", is, id, "1 to 200 printable characters without '/', and no '.' at the start");
        want("id", !is || !(text.contains(',') || matches!(text, "here" | "all")), id, ID_RULE);
        let own = passport.pointer("/device/id");
        let is_own = !is || own.and_then(Value::as_str).is_none_or(|own| own == text);
        want("device.id", is_own, own, &format!("{text:?}, which is the passport's id"));
    }
    if let Some(name) = passport.get("name").and_then(Value::as_str).map(str::trim) {
        let is = !name.is_empty() && name.chars().count() <= 200 && !name.chars().any(char::is_control);
        want("name", is, passport.get("name"), "1 to 200 characters");
    }
    for field in ["aliases", "compute", "accelerators", "bandwidth", "latency", "sources", "notes"] {
        let entries = list(field).len();
        let got = Value::from(format!("{entries} entries"));
        want(field, entries <= MAX_ENTRIES, Some(&got), "at most 4096 entries");
    }
    let has_figures = ["compute", "accelerators", "bandwidth"].iter().any(|name| !list(name).is_empty());
    let is_list = passport.get("compute").is_none_or(Value::is_array);
    want(
        "compute",
        has_figures || !is_list,
        None,
        "at least one figure, there, in accelerators or in bandwidth",
    );
    let positive = "a number above 0 that a machine can have";
    let rate = |rate: f64| rate.is_finite() && rate > 0.0 && rate < 1e21;
    let time = |seconds: f64| seconds.is_finite() && seconds > 0.0 && seconds < 1e5;
    let threads = |threads: f64| (1.0..=MAX_THREADS).contains(&threads);
    let mut number = |field: String, got: Option<&Value>, is: &dyn Fn(f64) -> bool, text: &str| {
        if let Some(value) = got.and_then(Value::as_f64) {
            want(&field, is(value), got, text);
        }
    };
    for (name, field, is) in [
        ("compute", "multiply_adds_per_second", &rate as &dyn Fn(f64) -> bool),
        ("compute", "threads", &threads),
        ("accelerators", "multiply_adds_per_second", &rate),
        ("bandwidth", "bytes_per_second", &rate),
        ("bandwidth", "threads", &threads),
        ("latency", "seconds", &time),
    ] {
        let name_text = if field == "threads" { THREADS_RANGE } else { positive };
        for (i, value) in list(name).iter().enumerate() {
            number(format!("{name}[{i}].{field}"), value.get(field), is, name_text);
        }
    }
    number(
        "device.cpu.threads".to_string(),
        passport.pointer("/device/cpu/threads"),
        &threads,
        THREADS_RANGE,
    );
    let ratio_above_zero = |ratio: f64| ratio > 0.0 && ratio < 100.0;
    for (field, is) in [
        ("storage.read_bytes_per_second", &rate as &dyn Fn(f64) -> bool),
        ("storage.write_bytes_per_second", &rate),
        ("storage.sync_seconds", &time),
        ("spawn_seconds", &time),
        ("throttling.kept_ratio", &ratio_above_zero),
    ] {
        let got = passport.pointer(&format!("/{}", field.replace('.', "/")));
        number(field.to_string(), got, is, positive);
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::shipped_passports;
    use super::*;

    fn faults(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut value = serde_json::to_value(&shipped_passports()[0]).unwrap();
        change(&mut value);
        let read = parse_passport(value.to_string().as_bytes());
        read.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_shipped_passport_is_read_as_it_is_and_so_is_one_with_fields_of_a_later_version() {
        for passport in shipped_passports() {
            let text = serde_json::to_string(passport).unwrap();
            assert_eq!(parse_passport(text.as_bytes()).unwrap(), *passport);
        }
        assert_eq!(faults(|value| value["later"] = json!({ "deep": [1] })), Vec::<String>::new());
    }

    #[test]
    fn all_faults_are_told_at_once_by_field() {
        let texts = faults(|value| {
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
                texts.iter().any(|line| line.starts_with(&format!("{field} is {got}"))),
                "{field}: {texts:#?}"
            );
        }
        assert_eq!(texts.len(), 9, "{texts:#?}");
    }

    #[test]
    fn figures_that_no_machine_has_are_refused() {
        let texts = faults(|value| {
            value["compute"][0]["multiply_adds_per_second"] = json!(-1.0);
            value["compute"][2]["threads"] = json!(0);
            value["bandwidth"][0]["bytes_per_second"] = json!(1e30);
            value["latency"] = json!([{ "working_set_bytes": 64, "seconds": 0.0 }]);
            value["spawn_seconds"] = json!(1e9);
            value["name"] = json!("");
            value["id"] = json!("a\nb");
        });
        assert_eq!(texts.len(), 7, "{texts:#?}");
        assert!(texts.iter().any(|line| line.starts_with("latency[0].seconds is 0")), "{texts:#?}");
    }

    #[test]
    fn a_passport_is_of_its_own_device_has_a_plain_name_and_some_figure() {
        let texts = faults(|value| value["device"]["id"] = json!("another-device"));
        assert!(
            texts.len() == 1 && texts[0].starts_with("device.id is \"another-device\"; want"),
            "{texts:#?}"
        );
        for id in ["../../etc", "a/b", ".hidden"] {
            let name_texts = faults(|value| {
                (value["id"], value["device"]["id"]) = (json!(id), json!(id));
            });
            assert!(
                name_texts.iter().any(|line| line.starts_with(&format!("id is {id:?}"))),
                "{name_texts:#?}"
            );
        }
        let name_texts = faults(|value| {
            for name in ["compute", "accelerators", "bandwidth"] {
                value[name] = json!([]);
            }
        });
        assert_eq!(name_texts.len(), 1, "{name_texts:#?}");
        assert!(name_texts[0].starts_with("compute is missing; want at least one figure"), "{name_texts:#?}");
    }

    #[test]
    fn ids_that_no_flag_can_mean_and_threads_that_no_machine_has_are_refused() {
        for id in ["here", "all", "a,b"] {
            let texts = faults(|value| (value["id"], value["device"]["id"]) = (json!(id), json!(id)));
            assert_eq!(texts, [format!("id is {id:?}; want {ID_RULE}")]);
        }
        for threads in [0, 4097] {
            let texts = faults(|value| value["device"]["cpu"]["threads"] = json!(threads));
            assert_eq!(texts, [format!("device.cpu.threads is {threads}; want 1 to 4096")]);
        }
    }

    #[test]
    fn figures_are_looked_at_also_where_a_field_is_of_the_wrong_kind() {
        let texts = faults(|value| {
            value["origin"] = json!("guessed");
            value["spawn_seconds"] = json!(-1);
        });
        assert_eq!(texts.len(), 2, "{texts:#?}");
    }

    #[test]
    fn other_schemas_and_other_files_are_refused() {
        let texts = faults(|value| value["schema"] = json!("metier.device/1"));
        assert_eq!(texts, ["schema is \"metier.device/1\"; want \"metier.passport/1\""]);
        let name_texts = faults(|value| value["schema"] = json!("metier.passport/2"));
        assert_eq!(name_texts, ["schema is \"metier.passport/2\"; want \"metier.passport/1\""]);
        assert_eq!(
            parse_passport(b"[]").unwrap_err()[0].to_string(),
            "schema is missing; want \"metier.passport/1\""
        );
        for bytes in [&b""[..], b"{", b"\xff\xfe", &b"[".repeat(100_000)] {
            assert!(parse_passport(bytes).unwrap_err()[0].to_string().starts_with("the file is not JSON"));
        }
        assert!(
            parse_passport(&vec![b' '; MAX_PASSPORT_BYTES as usize + 1]).unwrap_err()[0]
                .to_string()
                .contains("4 MiB")
        );
        let many = faults(|value| value["aliases"] = json!(vec![1; 1000]));
        assert_eq!(many.len(), PassportFault::MAX_FAULTS);
    }
}
