//! Files of a run, as they were stored. They are always sent as downloads, so that a browser never
//! shows or runs them.

use axum::http::{HeaderValue, StatusCode, header};
use metier_types::RunId;

use crate::app_state::SharedAppState;
use crate::http::parameter::{ParameterForm, RouteParameter};
use crate::http::problem::{FieldError, ProblemDetails};
use crate::http::{HandlerRequest, HandlerResponse};
use crate::storage;

/// Larger files are not served, since a response is held in memory.
const MAX_DOWNLOAD_BYTES: u64 = 128 << 20;
/// Longest file name that is suggested to the browser.
const MAX_NAME_CHARS: usize = 120;

/// The run, and the name of its file.
pub const PARAMETERS: &[RouteParameter] = &[
    RouteParameter::path("id", ParameterForm::Run, "The run."),
    RouteParameter::path("name", ParameterForm::Text(1000), "The file's name within the run."),
];

pub fn get_artefact(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let id: RunId = call.arguments.required("id")?;
    let name = call.arguments.text("name").unwrap_or_default();
    let store = app.storage.store()?;
    let run = super::load_run(&store, id)?;
    let Some(file) = run.artefacts.iter().find(|file| file.name == name) else {
        let known: Vec<&str> = run.artefacts.iter().take(20).map(|file| file.name.as_str()).collect();
        let want = if known.is_empty() {
            "it has no files".to_string()
        } else {
            format!("one of {}", known.join(", "))
        };
        let detail = format!("run {id} has no file of that name");
        let error = FieldError::new("name", name, want);
        return Err(ProblemDetails::new(StatusCode::NOT_FOUND, detail).with_errors(vec![error]));
    };
    let size = file.size_bytes.get();
    if size > MAX_DOWNLOAD_BYTES {
        let detail = format!(
            "the file has {size} bytes; this API gives out at most {MAX_DOWNLOAD_BYTES}, `metier show {} --artefact` any size",
            id.short()
        );
        return Err(ProblemDetails::new(StatusCode::INSUFFICIENT_STORAGE, detail));
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    store.read_artefact(&file.digest, &mut content).map_err(storage::store_problem)?;
    // Whatever its name, the file must not become a page of this origin.
    let mut reply = HandlerResponse::new("application/octet-stream", content);
    if let Ok(value) = HeaderValue::from_str(&content_disposition(name)) {
        reply.headers.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(reply)
}

/// RFC 6266: a plain name for old clients, the exact one for others. Neither can contain a path, a
/// quote or a line end.
fn content_disposition(name: &str) -> String {
    let last: String =
        name.rsplit(['/', '\\']).next().unwrap_or_default().chars().take(MAX_NAME_CHARS).collect();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String = last.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let plain = plain.trim_start_matches('.');
    let plain = if plain.is_empty() { "file" } else { plain };
    let mut encoded = String::new();
    for byte in last.trim_start_matches('.').bytes() {
        match is_plain(char::from(byte)) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    match encoded.is_empty() || encoded == plain {
        true => format!("attachment; filename=\"{plain}\""),
        false => format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_header_or_the_folder_of_downloads() {
        for (name, want) in [
            ("stacks.folded", "attachment; filename=\"stacks.folded\""),
            ("out/trace.nvvp", "attachment; filename=\"trace.nvvp\""),
            ("../../.bashrc", "attachment; filename=\"bashrc\""),
            ("a\"b\r\nX: y", "attachment; filename=\"a_b__X__y\"; filename*=UTF-8''a%22b%0D%0AX%3A%20y"),
            ("größe.txt", "attachment; filename=\"gr__e.txt\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.txt"),
            ("", "attachment; filename=\"file\""),
            ("..", "attachment; filename=\"file\""),
        ] {
            assert_eq!(content_disposition(name), want, "{name:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_name_makes_a_header(name in "\\PC{0,200}") {
            proptest::prop_assert!(HeaderValue::from_str(&content_disposition(&name)).is_ok());
        }
    }
}
