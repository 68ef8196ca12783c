//! Replies without the values of environment variables, which may be secrets. The queue runs the
//! file of the store, with the values.

use metier_types::SessionRecord;
use serde_json::Value;

use crate::docker_flags;

/// The parameter of the Jenkins-compatible interface with flags of `docker run`.
pub const DOCKER_FLAGS_FIELD: &str = "app_docker_args";
/// Stands for a value.
const REDACTED: &str = "REDACTED";

/// Replaces the values of environment variables in a session's run file and in the parameters of
/// its request.
pub fn redact_session(session: &mut SessionRecord) {
    redact_environment(&mut session.file);
    let parameters = session.asker.extra.get_mut("parameters");
    if let Some(Value::String(flags)) = parameters.and_then(|all| all.get_mut(DOCKER_FLAGS_FIELD)) {
        *flags = docker_flags::redact_docker_flags(flags, REDACTED);
    }
}

/// Replaces the values of every `environment` table: that of the run, and those of its probes,
/// companions and neighbours.
fn redact_environment(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::Object(variables) if name == "environment" => {
                        variables.values_mut().for_each(|text| *text = REDACTED.into());
                    }
                    _ => redact_environment(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_environment),
        _ => {}
    }
}
