//! The OpenAPI 3.1 document, made from the route table and the JSON Schemas of the records.
//!
//! OpenAPI 3.1 accepts JSON Schema 2020-12 unchanged, which the record types generate. So there is
//! no second description of them.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::http::access_control::{RouteAccess, route_access};
use crate::http::credentials::{ApiDialect, api_dialect};
use crate::http::parameter::{ParameterLocation, RouteParameter};
use crate::http::problem::{PROBLEM_JSON, ProblemDetails};
use crate::http::{ApiRoute, RequestContent, ResponseContent};

/// The document of a server with these routes.
pub fn build_document<S>(routes: &[ApiRoute<S>]) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|s| s.definitions_path = "/components/schemas".into())
        .into_generator();
    let problem = generator.subschema_for::<ProblemDetails>().to_value();
    let mut paths = Map::new();
    for route in routes {
        let good = match route.answer {
            ResponseContent::Json(schema) => {
                json!({"application/json": {"schema": schema(&mut generator).to_value()}})
            }
            ResponseContent::Text(media_type) => json!({media_type: {"schema": {"type": "string"}}}),
        };
        let sent = match route.sent {
            RequestContent::Nothing => None,
            RequestContent::Document(types, schema) => {
                let schema = schema(&mut generator).to_value();
                let content: Map<String, Value> =
                    types.iter().map(|kind| (kind.to_string(), json!({"schema": schema}))).collect();
                Some(json!({"content": content}))
            }
            RequestContent::Bytes(kind) => {
                Some(json!({"content": {kind: {"schema": {"type": "string", "format": "binary"}}}}))
            }
        };
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
        item[route.verb.openapi_name()] = operation_object(route, good, sent, &problem);
    }
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "metier",
            "summary": "Time, memory and energy of workloads.",
            "description": "Reads the store of measured runs, and queues further ones. Every answer is one versioned record whose `schema` \
                field names it; within a major version fields are only added. HEAD works wherever GET does.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "Needed if the server was started with a token, and unless the request \
                    comes over loopback from the user that runs the server.",
            }, "jenkins": {
                "type": "http",
                "scheme": "basic",
                "description": "As with an API token of Jenkins: any name, and the token as the password.",
            }},
        },
    })
}

fn operation_object<S>(route: &ApiRoute<S>, good: Value, sent: Option<Value>, problem: &Value) -> Value {
    let mut responses = Map::new();
    let good = match route.good {
        204 => json!({"description": "Done."}),
        202 => json!({"description": "It waits in the queue.", "content": good}),
        201 if api_dialect(route.path) == ApiDialect::Jenkins => {
            json!({"description": "It waits in the queue; `Location` is its address.", "content": good})
        }
        _ => json!({"description": "The requested content.", "content": good}),
    };
    responses.insert(route.good.to_string(), good);
    let needs_token = route_access(route.path) != RouteAccess::Open;
    let shared: &[u16] = if needs_token { &[400, 401] } else { &[400] };
    for status in shared.iter().chain(route.also) {
        let response = match status {
            202 => json!({"description": "Its end was requested; its record shows when it has ended."}),
            304 => json!({"description": "The client's copy is still valid."}),
            _ => {
                json!({"description": status_description(*status), "content": {PROBLEM_JSON: {"schema": problem}}})
            }
        };
        responses.insert(status.to_string(), response);
    }
    let mut operation = json!({
        "operationId": route.operation,
        "summary": route.summary,
        "parameters": route.parameters.iter().map(parameter_object).collect::<Vec<_>>(),
        "responses": responses,
    });
    if let Some(sent) = sent {
        operation["requestBody"] = sent;
    }
    if api_dialect(route.path) == ApiDialect::Jenkins {
        operation["security"] = json!([{}, {"token": []}, {"jenkins": []}]);
    } else if needs_token {
        // The empty alternative: over loopback the server's own user needs no token unless one was
        // set.
        operation["security"] = json!([{}, {"token": []}]);
    }
    operation
}

fn parameter_object(parameter: &RouteParameter) -> Value {
    json!({
        "name": parameter.name,
        "in": match parameter.place { ParameterLocation::Path => "path", ParameterLocation::Query => "query" },
        "required": parameter.is_needed,
        "description": parameter.about,
        "schema": parameter.form.schema(),
    })
}

fn status_description(status: u16) -> &'static str {
    match status {
        400 => "A parameter is unknown or invalid; `errors` names it and the expected value.",
        401 => "The token is needed and was not sent, or is wrong.",
        403 => "The request came from a page of another site.",
        404 => "It is not in the store.",
        409 => "It is over already.",
        413 => "The body is too large.",
        415 => "The body has an unsupported media type.",
        422 => "It cannot be done; `errors` or `detail` say why.",
        429 => "Too many wait already, or arrive too fast; `Retry-After` gives the time of the next try.",
        _ => {
            "The store, or another service behind the route, does not respond now; `detail` gives the reason."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn every_reference_in_the_document_leads_somewhere() {
        fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(fields) => {
                    for (name, field) in fields {
                        match (name.as_str(), field) {
                            ("$ref", Value::String(target)) => found.push(target),
                            _ => walk(field, found),
                        }
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
                _ => {}
            }
        }
        let document = build_document(ROUTES);
        let mut references = Vec::new();
        walk(&document, &mut references);
        assert!(references.len() > 10);
        for reference in references {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn operations_have_names_of_their_own_and_declare_their_path_parameters() {
        let mut names: Vec<&str> = ROUTES.iter().map(|route| route.operation).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROUTES.len());
        for route in ROUTES {
            let declared = route.parameters.iter().filter(|p| p.place == ParameterLocation::Path);
            let in_path: Vec<&str> =
                route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            assert_eq!(declared.map(|p| p.name).collect::<Vec<_>>(), in_path, "{}", route.path);
        }
    }
}
