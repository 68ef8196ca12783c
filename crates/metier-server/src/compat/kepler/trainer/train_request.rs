//! The body of `POST /train`, parsed in one pass, since it may be hundreds of megabytes. Each error
//! names its field.

use std::fmt;

use metier_power::isolate::{BackgroundHints, PowerIsolator};
use metier_power::kepler_terms::{EnergySource, PowerTrainer, shorten};
use metier_power::response::KeplerResponse;
use metier_power::training::PipelinePlan;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// A request to train.
#[derive(Debug, Default)]
pub struct TrainRequest {
    pub name: String,
    /// Where the energy was read.
    pub source: Option<EnergySource>,
    /// Trainers, and power to subtract.
    pub trainer: TrainerOptions,
    /// The Prometheus response under load.
    pub response: Option<KeplerResponse>,
    /// Whether the series are those of virtual machines.
    pub vm: bool,
}

/// Trainers, and power to subtract.
#[derive(Debug, Default)]
pub struct TrainerOptions {
    /// Trainers of power with idle.
    pub abs_trainers: Vec<PowerTrainer>,
    /// Trainers of power without idle.
    pub dyn_trainers: Vec<PowerTrainer>,
    /// The Prometheus response of the idle machine.
    pub idle: Option<KeplerResponse>,
    /// How idle and background power are subtracted.
    pub isolator: PowerIsolator,
    /// The pipeline that the `trainer` isolator uses.
    pub abs_pipeline: Option<String>,
    /// Which containers are background.
    pub hints: BackgroundHints,
}

impl TrainRequest {
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let train: Self = serde_json::from_slice(body).map_err(|error| {
            let text = error.to_string();
            if error.is_syntax() || error.is_eof() { format!("body: is no JSON: {text}") } else { text }
        })?;
        let missing = |field: &str| Err(format!("{field}: is missing"));
        if train.name.is_empty() {
            return missing("name");
        }
        PipelinePlan::check_name(&train.name).map_err(|error| format!("name: {error}"))?;
        if train.source.is_none() {
            return missing("energy_source");
        }
        if train.response.is_none() {
            return missing("prom_response");
        }
        let how = &train.trainer;
        if how.abs_trainers.is_empty() && how.dyn_trainers.is_empty() {
            return Err(
                "trainer: abs_trainers and dyn_trainers are both empty; want at least one".to_string()
            );
        }
        match how.isolator {
            PowerIsolator::Profile if how.idle.is_none() => {
                Err("trainer.idle_prom_response: is missing, and ProfileBackgroundIsolator wants it"
                    .to_string())
            }
            PowerIsolator::Trainer if how.abs_pipeline.is_none() => {
                Err("trainer.isolator_args.abs_pipeline_name: is missing, and TrainIsolator wants it"
                    .to_string())
            }
            _ => Ok(train),
        }
    }
}

/// The value of a field; an error names the field.
fn read_field<'de, T: Deserialize<'de>, A: MapAccess<'de>>(map: &mut A, name: &str) -> Result<T, A::Error> {
    map.next_value().map_err(|error: A::Error| de::Error::custom(format!("{name}: {error}")))
}

fn unknown_field<E: de::Error>(name: &str, want: &str) -> E {
    E::custom(format!("{}: is no field; want {want}", shorten(name)))
}

impl<'de> Deserialize<'de> for TrainRequest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TrainRequestVisitor;
        impl<'de> Visitor<'de> for TrainRequestVisitor {
            type Value = TrainRequest;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with name, energy_source, trainer and prom_response")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TrainRequest, A::Error> {
                let mut train = TrainRequest::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "name" => train.name = read_field(&mut map, &name)?,
                        "energy_source" => {
                            let text: String = read_field(&mut map, &name)?;
                            let source = EnergySource::from_request(Some(&text));
                            let wrong = |error: metier_power::Error| {
                                de::Error::custom(format!("energy_source: {error}"))
                            };
                            train.source = Some(source.map_err(wrong)?);
                        }
                        "trainer" => train.trainer = read_field(&mut map, &name)?,
                        // The second spelling is that of the original's page.
                        "prom_response" | "prome_response" => {
                            train.response = Some(read_field(&mut map, &name)?);
                        }
                        "use_vm_metrics" => train.vm = read_field::<LenientBool, _>(&mut map, &name)?.0,
                        other => {
                            let want = "name, energy_source, trainer, prom_response or use_vm_metrics";
                            return Err(unknown_field(other, want));
                        }
                    }
                }
                Ok(train)
            }
        }
        from.deserialize_map(TrainRequestVisitor)
    }
}

impl<'de> Deserialize<'de> for TrainerOptions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TrainerOptionsVisitor;
        impl<'de> Visitor<'de> for TrainerOptionsVisitor {
            type Value = TrainerOptions;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with abs_trainers, dyn_trainers and isolator")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TrainerOptions, A::Error> {
                let mut how = TrainerOptions::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "abs_trainers" => {
                            how.abs_trainers = parse_trainers(&name, read_field(&mut map, &name)?)?
                        }
                        "dyn_trainers" => {
                            how.dyn_trainers = parse_trainers(&name, read_field(&mut map, &name)?)?
                        }
                        "idle_prom_response" => how.idle = read_field(&mut map, &name)?,
                        "isolator" => {
                            let text: String = read_field(&mut map, &name)?;
                            how.isolator = PowerIsolator::named(&text).ok_or_else(|| {
                                de::Error::custom(format!(
                                    "isolator: is {:?}; want MinIdleIsolator, NoneIsolator, ProfileBackgroundIsolator, TrainIsolator or JointIsolator",
                                    shorten(&text)
                                ))
                            })?;
                        }
                        "isolator_args" => parse_isolator_args(read_field(&mut map, &name)?, &mut how)?,
                        other => {
                            let want =
                                "abs_trainers, dyn_trainers, idle_prom_response, isolator or isolator_args";
                            return Err(unknown_field(other, want));
                        }
                    }
                }
                Ok(how)
            }
        }
        from.deserialize_map(TrainerOptionsVisitor)
    }
}

fn parse_trainers<E: de::Error>(name: &str, names: Vec<String>) -> Result<Vec<PowerTrainer>, E> {
    let mut list = Vec::new();
    for given in names {
        let Some(trainer) = PowerTrainer::named(&given) else {
            let all: Vec<&str> = PowerTrainer::KEPLER
                .iter()
                .chain([&PowerTrainer::Auto])
                .map(|trainer| trainer.name())
                .collect();
            let given = shorten(&given);
            return Err(E::custom(format!("{name}: {given:?} is no trainer; want {}", all.join(", "))));
        };
        if !list.contains(&trainer) {
            list.push(trainer);
        }
    }
    Ok(list)
}

fn parse_isolator_args<E: de::Error>(given: Option<Value>, how: &mut TrainerOptions) -> Result<(), E> {
    let wrong = |name: &str, want: &str| E::custom(format!("isolator_args.{name}: want {want}"));
    let object = match given {
        None => return Ok(()),
        Some(Value::Object(object)) => object,
        Some(_) => return Err(E::custom("isolator_args: want an object, which may be empty")),
    };
    for (name, value) in object {
        let texts = || match &value {
            Value::String(text) => Some(text.split(',').map(|part| part.trim().to_string()).collect()),
            Value::Array(list) => list.iter().map(|value| value.as_str().map(str::to_string)).collect(),
            _ => None,
        };
        match name.as_str() {
            "abs_pipeline_name" => match value.as_str().filter(|name| !name.is_empty()) {
                Some(name) => how.abs_pipeline = Some(name.to_string()),
                None => return Err(wrong(&name, "the name of a pipeline")),
            },
            "target_hints" => how.hints.target = texts().ok_or_else(|| wrong(&name, "a list of texts"))?,
            "bg_hints" => how.hints.background = texts().ok_or_else(|| wrong(&name, "a list of texts"))?,
            // The original passes its own idle data and profiles here; metier has separate fields
            // for them.
            other => {
                let other = format!("isolator_args.{other}");
                return Err(unknown_field(&other, "abs_pipeline_name, target_hints or bg_hints"));
            }
        }
    }
    Ok(())
}

/// A boolean, also as text.
struct LenientBool(bool);

impl<'de> Deserialize<'de> for LenientBool {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Value::deserialize(from)? {
            Value::Bool(yes) => Ok(Self(yes)),
            Value::Null => Ok(Self(false)),
            Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(Self(true)),
            Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(Self(false)),
            other => {
                Err(de::Error::custom(format!("is {}; want true or false", shorten(&other.to_string()))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({ "name": "one", "energy_source": "acpi", "prom_response": {}, "trainer": { "abs_trainers": ["SGDRegressorTrainer"], "dyn_trainers": [],
            "isolator": "MinIdleIsolator", "isolator_args": {}, "idle_prom_response": {} } })
    }

    #[test]
    fn both_spellings_of_the_response_are_read() {
        let read = |body: &Value| TrainRequest::read(body.to_string().as_bytes());
        let train = read(&good()).unwrap();
        assert_eq!(
            (train.source, train.vm, train.trainer.isolator),
            (Some(EnergySource::Acpi), false, PowerIsolator::Min)
        );
        let mut other = good();
        let response = other.as_object_mut().unwrap().remove("prom_response").unwrap();
        other["prome_response"] = response;
        other["use_vm_metrics"] = json!("TRUE");
        assert!(read(&other).unwrap().vm);
    }

    #[test]
    fn every_fault_names_its_field() {
        for (path, value, words) in [
            ("name", json!(7), &["name: "][..]),
            ("name", json!(""), &["name: is missing"]),
            ("name", json!("../x"), &["name: ", "\"../x\"", "letters"]),
            ("energy_source", json!("sun"), &["energy_source", "\"sun\"", "acpi"]),
            ("energy_source", Value::Null, &["energy_source: "]),
            ("prom_response", json!([]), &["prom_response: "]),
            ("prom_response", json!({ "m": [{ "metric": {} }] }), &["prom_response: ", "values"]),
            ("use_vm_metrics", json!("maybe"), &["use_vm_metrics: is \"maybe\"; want true or false"]),
            ("use_vm_metrics", json!(1), &["use_vm_metrics: is 1"]),
            ("threshold", json!(1), &["threshold: is no field"]),
            (
                "trainer/abs_trainers",
                json!(["MagicTrainer"]),
                &["trainer: abs_trainers: \"MagicTrainer\" is no trainer"],
            ),
            ("trainer/abs_trainers", json!("SGDRegressorTrainer"), &["trainer: abs_trainers: "]),
            ("trainer/abs_trainers", json!([]), &["both empty"]),
            ("trainer/isolator", json!("Magic"), &["trainer: isolator: is \"Magic\"", "MinIdleIsolator"]),
            ("trainer/isolator", json!("TrainIsolator"), &["abs_pipeline_name: is missing"]),
            ("trainer/isolator_args", json!([]), &["isolator_args: want an object"]),
            ("trainer/isolator_args", json!({ "x": 1 }), &["isolator_args.x: is no field"]),
            ("trainer/magic", json!(1), &["trainer: magic: is no field"]),
        ] {
            let mut body = good();
            match path.split_once('/') {
                Some((outer, inner)) => body[outer][inner] = value.clone(),
                None => body[path] = value.clone(),
            }
            let error = TrainRequest::read(body.to_string().as_bytes()).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{path} {value}: {error}");
        }
        for text in ["", "{", "[]", "{\"name\": NaN}"] {
            assert!(TrainRequest::read(text.as_bytes()).is_err(), "{text}");
        }
        let mut profile = good();
        profile["trainer"]["isolator"] = json!("ProfileBackgroundIsolator");
        profile["trainer"].as_object_mut().unwrap().remove("idle_prom_response");
        assert!(
            TrainRequest::read(profile.to_string().as_bytes())
                .unwrap_err()
                .contains("idle_prom_response: is missing")
        );
    }
}
