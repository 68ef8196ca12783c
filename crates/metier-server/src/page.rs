//! The page: files that Node built into `web/dist`, embedded here; without them, a small built-in
//! page.
//!
//! Files under `assets/` carry a digest in their name and may be cached for ever. All others are
//! revalidated, with 304 while they are unchanged.

use std::borrow::Cow;
use std::fmt::Write as _;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::http::{ApiRoute, HandlerResponse};

#[derive(rust_embed::Embed)]
#[folder = "../../web/dist/"]
struct PageAssets;

/// A file of the page with the digest of its content.
struct EmbeddedFile {
    content: Cow<'static, [u8]>,
    digest: [u8; 32],
}

/// Source of the files; tests supply their own.
type EmbeddedFileLookup = fn(&str) -> Option<EmbeddedFile>;

fn find_embedded_file(path: &str) -> Option<EmbeddedFile> {
    PageAssets::get(path).map(|file| EmbeddedFile { content: file.data, digest: file.metadata.sha256_hash() })
}

/// The page itself, or the built-in page that explains how to build it.
pub fn serve_index<S>(routes: &[ApiRoute<S>], headers: &HeaderMap) -> HandlerResponse {
    let page = reply_with_file(find_embedded_file, "/index.html", headers);
    page.unwrap_or_else(|| HandlerResponse::new("text/html; charset=utf-8", route_list_page(routes)))
}

/// A file of the page.
pub fn serve_page_file(path: &str, headers: &HeaderMap) -> Option<HandlerResponse> {
    reply_with_file(find_embedded_file, path, headers)
}

fn reply_with_file(files: EmbeddedFileLookup, path: &str, headers: &HeaderMap) -> Option<HandlerResponse> {
    let name = path.strip_prefix('/')?;
    let file = files(name)?;
    let tag: String = file.digest[..16].iter().fold(String::from("\""), |mut tag, byte| {
        let _ = write!(tag, "{byte:02x}");
        tag
    }) + "\"";
    let is_kept = headers.get_all(header::IF_NONE_MATCH).iter().any(|known| {
        let known = known.to_str().unwrap_or_default();
        known.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
    });
    let mut reply = match is_kept {
        true => HandlerResponse {
            status: StatusCode::NOT_MODIFIED,
            headers: HeaderMap::new(),
            body: Default::default(),
        },
        // Not copied: unread answers would hold the copies.
        false => match file.content {
            Cow::Borrowed(bytes) => HandlerResponse::new(media_type(name), bytes),
            Cow::Owned(bytes) => HandlerResponse::new(media_type(name), bytes),
        },
    };
    let keep = match name.starts_with("assets/") {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    reply.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        reply.headers.insert(header::ETAG, tag);
    }
    Some(reply)
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, end)| end) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn route_list_page<S>(routes: &[ApiRoute<S>]) -> String {
    let mut list = String::new();
    for route in routes.iter().filter(|route| route.path != "/") {
        // Paths and summaries are constants of this crate, without characters that HTML would
        // interpret.
        let path = match route.path.contains('{') {
            true => format!("<code>{}</code>", route.path),
            false => format!("<a href=\"{0}\"><code>{0}</code></a>", route.path),
        };
        let _ = write!(list, "<li>{path}<span>{}</span></li>", route.summary);
    }
    include_str!("without_page.html").replace("<!-- routes -->", &list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    fn fixture(path: &str) -> Option<EmbeddedFile> {
        let content: &[u8] = match path {
            "index.html" => b"<!doctype html>",
            "assets/index-1a2b3c.js" => b"let x",
            _ => return None,
        };
        Some(EmbeddedFile { content: content.into(), digest: [content.len() as u8; 32] })
    }

    #[test]
    fn hashed_files_are_kept_for_ever_and_others_asked_for_again() {
        let none = HeaderMap::new();
        let script = reply_with_file(fixture, "/assets/index-1a2b3c.js", &none).unwrap();
        assert!(script.headers[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        assert_eq!(script.headers[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        let index = reply_with_file(fixture, "/index.html", &none).unwrap();
        assert_eq!(index.headers[header::CACHE_CONTROL], "no-cache");
        assert_eq!(&index.body[..], b"<!doctype html>");
    }

    #[test]
    fn a_client_that_has_the_file_is_told_so() {
        let tag =
            reply_with_file(fixture, "/index.html", &HeaderMap::new()).unwrap().headers[header::ETAG].clone();
        let text = tag.to_str().unwrap().to_string();
        for known in [text.clone(), format!("W/{text}"), format!("\"other\", {text}"), "*".to_string()] {
            let value = HeaderValue::from_str(&known).unwrap();
            let reply = reply_with_file(
                fixture,
                "/index.html",
                &HeaderMap::from_iter([(header::IF_NONE_MATCH, value)]),
            );
            let reply = reply.unwrap();
            assert_eq!(reply.status, 304, "{known}");
            assert!(reply.body.is_empty());
            assert_eq!(reply.headers[header::ETAG], tag);
        }
        let other = HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static("\"x\""))]);
        assert_eq!(reply_with_file(fixture, "/index.html", &other).unwrap().status, 200);
    }

    #[test]
    fn what_is_not_there_is_nowhere() {
        for path in ["/nothing.js", "/../Cargo.toml", "//index.html", "", "index.html", "/assets/"] {
            assert!(reply_with_file(fixture, path, &HeaderMap::new()).is_none(), "{path}");
            assert!(reply_with_file(find_embedded_file, path, &HeaderMap::new()).is_none(), "{path}");
        }
    }

    #[test]
    fn without_node_the_page_lists_the_api_and_says_how_to_get_the_rest() {
        let page = route_list_page(ROUTES);
        assert!(page.contains("href=\"/openapi.json\"") && page.contains("Node") && page.contains("make"));
        for route in ROUTES.iter().filter(|route| route.path != "/") {
            assert!(page.contains(route.path), "{}", route.path);
        }
        assert!(!page.contains("<script"));
    }
}
