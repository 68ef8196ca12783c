//! Compresses responses for clients on other machines.
//!
//! Series are long columns of similar numbers: gzip at its fastest makes them several times
//! smaller. On loopback the network costs nothing, and the CPU time may belong to the measured
//! program. So nothing is compressed there.

use std::io::Write as _;

use axum::http::{HeaderMap, HeaderValue, header};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::http::HandlerResponse;
use crate::http::config::HttpLimits;
use crate::http::gate::PeerAddress;

/// Whether to compress responses to this client.
pub fn accepts_gzip(limits: &HttpLimits, peer: Option<&PeerAddress>, headers: &HeaderMap) -> bool {
    let is_near = peer.is_none_or(|peer| peer.0.ip().to_canonical().is_loopback());
    (limits.compress_on_loopback || !is_near)
        && headers
            .get_all(header::ACCEPT_ENCODING)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|coding| {
                matches!(coding.split_once(';').unwrap_or((coding, "")),
                (name, weight) if name.trim().eq_ignore_ascii_case("gzip") && !is_zero_weight(weight))
            })
}

/// Whether a weight such as `q=0.0` excludes an encoding.
fn is_zero_weight(weight: &str) -> bool {
    weight
        .trim()
        .strip_prefix("q=")
        .is_some_and(|number| number.trim().parse::<f32>().is_ok_and(|q| q <= 0.0))
}

/// Compresses a response that is large enough. Runs in a blocking lane.
pub fn compress_response(mut reply: HandlerResponse, from_bytes: usize) -> HandlerResponse {
    if reply.body.len() < from_bytes {
        return reply;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(reply.body.len() / 3), Compression::fast());
    if let Ok(small) = encoder.write_all(&reply.body).and_then(|()| encoder.finish()) {
        reply.body = small.into();
        reply.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        reply.headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    reply
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn only_those_who_accept_it_and_are_elsewhere_get_it_compressed() {
        let limits = HttpLimits::default();
        let far = PeerAddress("192.0.2.7:5000".parse().unwrap());
        let accept = |text: &'static str| {
            HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))])
        };
        assert!(accepts_gzip(&limits, Some(&far), &accept("br, gzip;q=0.8")));
        assert!(accepts_gzip(&limits, Some(&far), &accept("GZIP")));
        for refused in ["br", "gzip;q=0", "gzip;q=0.0", "xgzip", ""] {
            assert!(!accepts_gzip(&limits, Some(&far), &accept(refused)), "{refused}");
        }
        for near in ["127.0.0.1:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            assert!(
                !accepts_gzip(&limits, Some(&PeerAddress(near.parse().unwrap())), &accept("gzip")),
                "{near}"
            );
        }
    }

    #[test]
    fn what_was_compressed_reads_back() {
        let text = "[1,2,3,4]".repeat(10_000);
        let reply = compress_response(HandlerResponse::new("application/json", text.clone()), 1000);
        assert!(reply.body.len() * 10 < text.len());
        let mut back = String::new();
        flate2::read::GzDecoder::new(&reply.body[..]).read_to_string(&mut back).unwrap();
        assert_eq!(back, text);
        let small = compress_response(HandlerResponse::new("application/json", "[]"), 1000);
        assert!(!small.headers.contains_key(header::CONTENT_ENCODING));
    }
}
