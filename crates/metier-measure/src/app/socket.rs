//! The Waggle live socket: `{"<metric>": {"value": v, "timestamp": t}}` behind two newlines, on a
//! unix stream.
//!
//! Existing applications work unchanged. Extensions of that wire: several metrics in one object, a
//! bare number instead of the inner object, `"kind"` beside the value (`duration`, `rate`, `value`,
//! `count`, or the class's `timer`, `number`), lines of the line protocol, and datagrams to a
//! second socket for senders that must never block.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use metier_linux::socket_file::SocketFile;
use metier_types::{StageKind, StageSource};
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::line_protocol::{self, plausible_time_ns};
use super::message::{AppMessage, MessageNumber, infer_kind, parse_kind_word};

/// Maximum length of a path in a socket address.
const MAX_ADDRESS_BYTES: usize = 107;
/// Expected form of a message.
const WANTED_MESSAGE: &str = r#"{"<metric>": {"value": <number>, "timestamp": <seconds>}}"#;

/// Parses one message and emits its readings, all or none. The error describes what is expected.
pub fn parse_messages<'a>(
    text: &'a [u8],
    read_ns: i64,
    take: impl FnMut(AppMessage<'a>),
) -> Result<(), &'static str> {
    if !text.starts_with(b"{") {
        return line_protocol::parse_line(text, read_ns).map(|line| line.into_iter().for_each(take));
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    let readings = reader.deserialize_map(ReadingsVisitor).map_err(|_| WANTED_MESSAGE)?;
    reader.end().map_err(|_| WANTED_MESSAGE)?;
    let messages: Vec<AppMessage<'a>> = readings
        .into_iter()
        .map(|(name, reading)| reading.into_message(name, read_ns))
        .collect::<Result<_, _>>()?;
    messages.into_iter().for_each(take);
    Ok(())
}

struct SocketReading<'a> {
    value: f64,
    timestamp: Option<f64>,
    kind: Option<Cow<'a, str>>,
}

impl<'a> SocketReading<'a> {
    fn into_message(self, name: Cow<'a, str>, read_ns: i64) -> Result<AppMessage<'a>, &'static str> {
        let (kind, scale) = match self.kind.as_deref().map(parse_kind_word) {
            Some(Some(known)) => known,
            Some(None) => return Err("kind duration, rate, value, count or a unit of time"),
            None => infer_kind(&name),
        };
        let value = self.value * scale;
        Ok(AppMessage {
            name,
            labels: Cow::Borrowed(""),
            kind,
            source: StageSource::Socket,
            number: if kind == StageKind::Counter {
                MessageNumber::Increment(value)
            } else {
                MessageNumber::Observation(value)
            },
            at_ns: Some(plausible_time_ns(self.timestamp, read_ns)),
        })
    }
}

/// A string that is borrowed if it has no escapes.
struct TextSeed;

impl<'de> Visitor<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_string()))
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

/// The outer object: readings by metric.
struct ReadingsVisitor;

impl<'de> Visitor<'de> for ReadingsVisitor {
    type Value = Vec<(Cow<'de, str>, SocketReading<'de>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut readings = Vec::with_capacity(1);
        while let Some(name) = map.next_key_seed(TextSeed)? {
            readings.push((name, map.next_value_seed(ReadingSeed)?));
        }
        if readings.is_empty() { Err(A::Error::custom("no metric")) } else { Ok(readings) }
    }
}

/// One reading: a number, or an object with `value`.
struct ReadingSeed;

impl<'de> serde::de::DeserializeSeed<'de> for ReadingSeed {
    type Value = SocketReading<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ReadingSeed {
    type Value = SocketReading<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or an object with a value")
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(SocketReading { value, timestamp: None, kind: None })
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut value, mut timestamp, mut kind) = (None, None, None);
        while let Some(key) = map.next_key_seed(TextSeed)? {
            match key.as_ref() {
                "value" => value = Some(map.next_value::<f64>()?),
                "timestamp" => timestamp = map.next_value::<Option<f64>>()?,
                "kind" => kind = Some(map.next_value_seed(TextSeed)?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let value = value.ok_or_else(|| A::Error::custom("no value"))?;
        Ok(SocketReading { value, timestamp, kind })
    }
}

/// The stream and the datagram socket at a path.
#[derive(Debug)]
pub struct AppSockets {
    pub stream: UnixListener,
    /// Receives messages without a connection.
    pub datagrams: Option<UnixDatagram>,
    /// Their files, to remove at the end.
    pub files: Vec<SocketFile>,
}

/// The path of the datagram socket beside that of the stream socket.
pub fn datagram_path(stream: &Path) -> PathBuf {
    stream.with_extension("dgram")
}

impl AppSockets {
    /// Binds both sockets. A stale socket file is replaced; a socket with a listener is an error.
    pub fn bind(path: &Path) -> io::Result<Self> {
        remove_stale_socket(path)?;
        let stream = with_short_path(path, |short| UnixListener::bind(short))?;
        stream.set_nonblocking(true)?;
        allow_all_users(path)?;
        let mut files = vec![SocketFile::new(path)?];
        let beside = datagram_path(path);
        let datagrams = remove_stale_socket(&beside)
            .and_then(|()| with_short_path(&beside, |short| UnixDatagram::bind(short)))
            .ok();
        if let Some(socket) = &datagrams {
            super::descriptor::enable_peer_credentials(socket.as_fd())?;
            socket.set_nonblocking(true)?;
            allow_all_users(&beside)?;
            files.push(SocketFile::new(&beside)?);
        }
        Ok(Self { stream, datagrams, files })
    }
}

/// Lets every user with access to the folder connect; senders are then authorised by their
/// credentials.
fn allow_all_users(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))
}

/// Removes a socket file without a listener.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let in_use = || io::Error::new(io::ErrorKind::AddrInUse, "the path is already in use");
    if !found.file_type().is_socket() {
        return Err(in_use());
    }
    match with_short_path(path, |short| UnixStream::connect(short)) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Err(in_use()),
    }
}

/// Calls `call` with a path that fits into an address: a long path is replaced by one through a
/// descriptor of its folder.
fn with_short_path<T>(path: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= MAX_ADDRESS_BYTES {
        return call(path);
    }
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name");
    let folder = std::fs::File::open(path.parent().ok_or_else(wrong)?)?;
    let name = path.file_name().ok_or_else(wrong)?;
    call(&Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type ParsedReading = (String, StageKind, MessageNumber, Option<i64>);

    fn all(text: &str) -> Result<Vec<ParsedReading>, &'static str> {
        let mut found = Vec::new();
        parse_messages(text.as_bytes(), 1_700_000_000_000_000_000, |m| {
            found.push((m.name.into_owned(), m.kind, m.number, m.at_ns));
        })
        .map(|()| found)
    }

    #[test]
    fn the_waggle_wire_is_understood_unchanged() {
        let found = all(r#"{"inference_time": {"value": 0.0125, "timestamp": 1699999999.5}}"#).unwrap();
        let want = (
            "inference_time".to_string(),
            StageKind::Duration,
            MessageNumber::Observation(0.0125),
            Some(1_699_999_999_500_000_000),
        );
        assert_eq!(found, [want]);
        let found = all(r#"{"RAM_usage": {"value": 123456789, "timestamp": 1}, "fps": 29.5}"#).unwrap();
        assert_eq!(found[0].1, StageKind::Value);
        assert_eq!((found[1].1, found[1].2), (StageKind::Rate, MessageNumber::Observation(29.5)));
    }

    #[test]
    fn an_application_may_say_the_kind() {
        assert_eq!(all(r#"{"x": {"value": 5, "kind": "timer"}}"#).unwrap()[0].1, StageKind::Duration);
        assert_eq!(
            all(r#"{"x": {"value": 5, "kind": "ms"}}"#).unwrap()[0].2,
            MessageNumber::Observation(0.005)
        );
        assert_eq!(
            all(r#"{"x": {"value": 5, "kind": "count"}}"#).unwrap()[0].2,
            MessageNumber::Increment(5.0)
        );
        assert!(all(r#"{"x": {"value": 5, "kind": "colour"}}"#).is_err());
    }

    #[test]
    fn what_is_not_a_message_is_refused() {
        for bad in [
            "{}",
            r#"{"a": {}}"#,
            r#"{"a": {"value": "5"}}"#,
            r#"{"a": {"value": null}}"#,
            r#"{"a": NaN}"#,
            r#"{"a": 1} x"#,
            r#"{"a": {"value": 1}"#,
            "hello",
        ] {
            assert!(all(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..300), open: bool) {
            let mut bytes = bytes;
            if open {
                bytes.insert(0, b'{');
            }
            let _ = parse_messages(&bytes, 0, |_| ());
        }
    }

    #[test]
    fn a_long_path_binds_a_stale_file_is_taken_over_and_a_used_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a".repeat(100)).join("b".repeat(60));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("live_metrics.sock");
        let held = AppSockets::bind(&path).unwrap();
        assert_eq!(AppSockets::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(held);
        assert!(path.exists(), "a stale socket file");
        let bound = AppSockets::bind(&path).unwrap();
        bound.files.iter().for_each(SocketFile::remove);
        assert!(!path.exists() && !datagram_path(&path).exists(), "nothing stays");
    }
}
