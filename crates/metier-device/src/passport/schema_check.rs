//! Compares a JSON document with the JSON Schema of its type and reports all differences. It covers
//! the part of JSON Schema that schemars generates for metier's types. Anything else passes here
//! and fails in deserialisation.

use serde_json::{Map, Value};

use super::passport_reader::PassportFault;

/// Largest nesting depth; metier's documents are less deep.
const MAX_DEPTH: u32 = 32;

/// Adds a fault for each value that violates the schema.
pub fn compare_with_schema(value: &Value, schema: &Value, faults: &mut Vec<PassportFault>) {
    let definitions = schema.get("$defs").and_then(Value::as_object);
    SchemaCheck { definitions, faults }.compare_value("", value, schema, 0);
}

struct SchemaCheck<'a> {
    definitions: Option<&'a Map<String, Value>>,
    faults: &'a mut Vec<PassportFault>,
}

impl<'a> SchemaCheck<'a> {
    fn compare_value(&mut self, path: &str, value: &Value, schema: &'a Value, depth: u32) {
        if depth > MAX_DEPTH || self.faults.len() >= PassportFault::MAX_FAULTS {
            return;
        }
        let schema = self.resolve_reference(schema);
        if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
            let is_null = |current: &&Value| current.get("type").is_some_and(|kind| kind == "null");
            let may_be_null = any.iter().any(|value| is_null(&value));
            if let Some(other) =
                any.iter().find(|value| !is_null(value)).filter(|_| !(value.is_null() && may_be_null))
            {
                self.compare_value(path, value, other, depth + 1);
            }
            return;
        }
        if let Some(words) = allowed_words(schema) {
            if !value.as_str().is_some_and(|text| words.contains(&text)) {
                self.add_fault(path, Some(value), &format!("one of {}", words.join(", ")));
            }
            return;
        }
        let kinds = allowed_types(schema);
        if !kinds.is_empty() && !kinds.iter().any(|kind| is_json_type(value, kind)) {
            return self.add_fault(path, Some(value), &kinds.join(" or "));
        }
        let least = schema.get("minimum").and_then(Value::as_f64);
        if let (Some(least), Some(number)) = (least, value.as_f64())
            && number < least
        {
            self.add_fault(path, Some(value), &format!("at least {least}"));
        }
        match value {
            Value::Object(fields) => self.compare_fields(path, fields, schema, depth),
            Value::Array(items) => {
                let Some(value) = schema.get("items") else { return };
                for (i, item) in items.iter().enumerate() {
                    self.compare_value(&format!("{path}[{i}]"), item, value, depth + 1);
                }
            }
            _ => (),
        }
    }

    fn compare_fields(&mut self, path: &str, fields: &Map<String, Value>, schema: &'a Value, depth: u32) {
        let below = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        for name in
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
        {
            if !fields.contains_key(name) {
                let kind = schema
                    .pointer(&format!("/properties/{name}"))
                    .map(|field| describe_expected(self.resolve_reference(field)));
                self.add_fault(&below(name), None, &kind.unwrap_or_default());
            }
        }
        let known = schema.get("properties").and_then(Value::as_object);
        let rest = schema.get("additionalProperties").filter(|rest| rest.is_object());
        for (name, value) in fields {
            if let Some(schema) = known.and_then(|known| known.get(name)).or(rest) {
                self.compare_value(&below(name), value, schema, depth + 1);
            }
        }
    }

    fn resolve_reference(&self, schema: &'a Value) -> &'a Value {
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|link| link.strip_prefix("#/$defs/"));
        name.and_then(|name| self.definitions?.get(name)).unwrap_or(schema)
    }

    fn add_fault(&mut self, path: &str, got: Option<&Value>, want: &str) {
        let field = if path.is_empty() { "the document" } else { path };
        self.faults.push(PassportFault::new(field, got, want));
    }
}

/// The allowed strings, if the schema is an enumeration.
fn allowed_words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(word) = schema.get("const").and_then(Value::as_str) {
        return Some(vec![word]);
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words.iter().map(Value::as_str).collect();
    }
    let values = schema.get("oneOf").and_then(Value::as_array)?;
    values.iter().map(|value| value.get("const").and_then(Value::as_str)).collect()
}

fn allowed_types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn describe_expected(schema: &Value) -> String {
    let text = match allowed_words(schema) {
        Some(words) => format!("one of {}", words.join(", ")),
        None => allowed_types(schema).join(" or "),
    };
    if text.is_empty() { "a value".into() } else { text }
}

fn is_json_type(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}
