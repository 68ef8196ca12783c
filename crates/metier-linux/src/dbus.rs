//! A minimal D-Bus client for two calls: it connects to a bus, authenticates, sends Hello, and
//! starts or stops a systemd unit.
//!
//! The maintained crates for this bring an async runtime and some forty dependencies. The launcher
//! has none and needs the second call as bytes ([`stop_unit_messages`]). Wire format: D-Bus
//! specification, "Message Protocol"; little-endian, protocol version 1.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR_REPLY: u8 = 3;
/// Largest accepted message; the expected replies are small.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Destination, object path and interface of the bus itself, and of systemd.
const BUS_DESTINATION: [&str; 3] = ["org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus"];
const MANAGER_DESTINATION: [&str; 3] =
    ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"];

/// Value of a unit property.
#[derive(Debug, Clone, Copy)]
pub enum UnitProperty<'a> {
    Text(&'a str),
    Flag(bool),
    /// A list of one process id.
    Process(u32),
}

/// A connection to a message bus.
pub struct BusConnection {
    stream: UnixStream,
    serial: u32,
}

impl BusConnection {
    /// Connects as the effective user.
    pub fn open(socket: &Path, limit: Duration) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        stream.write_all(auth_line().as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") && line.len() < 512 {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        if !line.starts_with(b"OK ") {
            return Err(io::Error::other(format!(
                "the bus refused the connection: {}",
                String::from_utf8_lossy(&line).trim()
            )));
        }
        stream.write_all(b"BEGIN\r\n")?;
        let mut connection = Self { stream, serial: 0 };
        let [to, path, interface] = BUS_DESTINATION;
        connection.call(to, path, interface, "Hello", "", &[])?;
        Ok(connection)
    }

    /// Calls `StartTransientUnit(name, "fail", properties, [])` of the service manager.
    pub fn start_unit(&mut self, name: &str, properties: &[(&str, UnitProperty<'_>)]) -> io::Result<()> {
        self.call_manager("StartTransientUnit", "ssa(sv)a(sa(sv))", &unit_body(name, properties))
    }

    /// Calls `StopUnit(name, "replace")`, which also cancels a pending start.
    pub fn stop_unit(&mut self, name: &str) -> io::Result<()> {
        self.call_manager("StopUnit", "ss", &stop_body(name))
    }

    fn call_manager(&mut self, member: &str, signature: &str, body: &[u8]) -> io::Result<()> {
        let [to, path, interface] = MANAGER_DESTINATION;
        self.call(to, path, interface, member, signature, body)
    }

    fn call(
        &mut self,
        to: &str,
        path: &str,
        interface: &str,
        member: &str,
        signature: &str,
        body: &[u8],
    ) -> io::Result<()> {
        self.serial += 1;
        let message = method_call(self.serial, to, path, interface, member, signature, body);
        self.stream.write_all(&message)?;
        loop {
            let (kind, reply_to, text) = self.receive()?;
            match (kind, reply_to == self.serial) {
                (METHOD_RETURN, true) => return Ok(()),
                (ERROR_REPLY, true) => return Err(io::Error::other(text)),
                // Ignore signals and other messages.
                _ => {}
            }
        }
    }

    /// Type, reply serial and (for errors) the text of the next message.
    fn receive(&mut self) -> io::Result<(u8, u32, String)> {
        let mut head = [0u8; 16];
        self.stream.read_exact(&mut head)?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        let (body_length, fields_length) = (word(4), word(12));
        if head[0] != b'l' || body_length > MAX_MESSAGE_BYTES || fields_length > MAX_MESSAGE_BYTES {
            return Err(io::Error::other("the bus sent an unreadable message"));
        }
        let mut fields = vec![0; fields_length.next_multiple_of(8)];
        self.stream.read_exact(&mut fields)?;
        let mut body = vec![0; body_length];
        self.stream.read_exact(&mut body)?;
        Ok((
            head[1],
            reply_serial(&fields[..fields_length]).unwrap_or(0),
            first_string(&body).unwrap_or_default(),
        ))
    }
}

/// All bytes that a client which cannot read replies sends to stop a unit: authentication, Hello
/// and the call. A bus accepts them in one piece; sd-bus itself also pipelines them. The client
/// must stay connected until the unit is gone, because systemd asks the bus for the caller's
/// identity.
pub fn stop_unit_messages(name: &str) -> Vec<u8> {
    let mut all = format!("{}BEGIN\r\n", auth_line()).into_bytes();
    let ([to, path, interface], [bus, at, of]) = (MANAGER_DESTINATION, BUS_DESTINATION);
    all.extend(method_call(1, bus, at, of, "Hello", "", &[]));
    all.extend(method_call(2, to, path, interface, "StopUnit", "ss", &stop_body(name)));
    all
}

/// The authentication line with the effective user id, which the bus checks against the socket's
/// credentials.
fn auth_line() -> String {
    // SAFETY: takes no argument and cannot fail.
    let uid = unsafe { libc::geteuid() }.to_string();
    let hex: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("\0AUTH EXTERNAL {hex}\r\n")
}

fn method_call(
    serial: u32,
    to: &str,
    path: &str,
    interface: &str,
    member: &str,
    signature: &str,
    body: &[u8],
) -> Vec<u8> {
    let mut fields = Vec::new();
    for (code, kind, value) in [(1, b'o', path), (2, b's', interface), (3, b's', member), (6, b's', to)] {
        pad_to(&mut fields, 8);
        fields.extend([code, 1, kind, 0]);
        push_string(&mut fields, value);
    }
    if !signature.is_empty() {
        pad_to(&mut fields, 8);
        fields.extend([8, 1, b'g', 0, signature.len() as u8]);
        fields.extend(signature.bytes());
        fields.push(0);
    }
    let mut message = vec![b'l', METHOD_CALL, 0, 1];
    message.extend((body.len() as u32).to_le_bytes());
    message.extend(serial.to_le_bytes());
    message.extend((fields.len() as u32).to_le_bytes());
    message.extend(fields);
    pad_to(&mut message, 8);
    message.extend(body);
    message
}

fn stop_body(name: &str) -> Vec<u8> {
    let mut body = Vec::new();
    push_string(&mut body, name);
    push_string(&mut body, "replace");
    body
}

fn unit_body(name: &str, properties: &[(&str, UnitProperty<'_>)]) -> Vec<u8> {
    let mut body = Vec::new();
    push_string(&mut body, name);
    push_string(&mut body, "fail");
    // An array's length excludes the padding in front of its first element.
    let length_at = start_array(&mut body, 8);
    let first = body.len();
    for (key, value) in properties {
        pad_to(&mut body, 8);
        push_string(&mut body, key);
        match value {
            UnitProperty::Text(text) => {
                body.extend([1, b's', 0]);
                push_string(&mut body, text);
            }
            UnitProperty::Flag(flag) => {
                body.extend([1, b'b', 0]);
                push_u32(&mut body, u32::from(*flag));
            }
            UnitProperty::Process(pid) => {
                body.extend([2, b'a', b'u', 0]);
                push_u32(&mut body, 4);
                push_u32(&mut body, *pid);
            }
        }
    }
    let length = (body.len() - first) as u32;
    body[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    start_array(&mut body, 8);
    body
}

fn start_array(out: &mut Vec<u8>, alignment: usize) -> usize {
    push_u32(out, 0);
    let at = out.len() - 4;
    pad_to(out, alignment);
    at
}

fn pad_to(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

fn push_u32(out: &mut Vec<u8>, value: u32) {
    pad_to(out, 4);
    out.extend(value.to_le_bytes());
}

fn push_string(out: &mut Vec<u8>, text: &str) {
    push_u32(out, text.len() as u32);
    out.extend(text.bytes());
    out.push(0);
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

/// The reply serial (field 5) among header fields; each is a struct of a code and a variant,
/// aligned to 8.
fn reply_serial(fields: &[u8]) -> Option<u32> {
    let mut at = 0;
    while at + 4 <= fields.len() {
        let (code, kind) = (fields[at], *fields.get(at + 2)?);
        let value = at + 4;
        if fields.get(at + 1) != Some(&1) {
            return None;
        }
        let end = match kind {
            b'u' if code == 5 => return u32_at(fields, value),
            b'u' => value + 4,
            b's' | b'o' => value + 4 + u32_at(fields, value)? as usize + 1,
            b'g' => value + 1 + *fields.get(value)? as usize + 1,
            _ => return None,
        };
        at = end.next_multiple_of(8);
    }
    None
}

fn first_string(body: &[u8]) -> Option<String> {
    let length = u32_at(body, 0)? as usize;
    Some(String::from_utf8_lossy(body.get(4..4 + length)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back_field_by_field() {
        let message = method_call(7, "a.b", "/a/b", "a.b.C", "Do", "s", b"\x02\0\0\0hi\0");
        assert_eq!(&message[..4], b"l\x01\0\x01");
        assert_eq!(u32_at(&message, 4), Some(7), "body length");
        assert_eq!(u32_at(&message, 8), Some(7), "serial");
        let fields = u32_at(&message, 12).unwrap() as usize;
        assert_eq!(message.len(), (16 + fields).next_multiple_of(8) + 7);
        assert_eq!(reply_serial(&message[16..16 + fields]), None);
        assert_eq!(first_string(b"\x02\0\0\0hi\0").as_deref(), Some("hi"));
    }

    #[test]
    fn the_reply_serial_is_found_among_other_fields() {
        let mut fields = vec![6, 1, b's', 0];
        push_string(&mut fields, ":1.5");
        pad_to(&mut fields, 8);
        fields.extend([5, 1, b'u', 0]);
        push_u32(&mut fields, 42);
        assert_eq!(reply_serial(&fields), Some(42));
        for cut in 0..fields.len() {
            let _ = reply_serial(&fields[..cut]);
        }
    }

    #[test]
    fn what_stops_a_unit_is_said_in_one_piece() {
        let all = stop_unit_messages("metier_1_2_abcdefgh.slice");
        let begins = all.windows(7).position(|bytes| bytes == b"BEGIN\r\n").unwrap() + 7;
        assert!(all.starts_with(b"\0AUTH EXTERNAL "));
        let mut at = begins;
        let mut bodies = Vec::new();
        while at < all.len() {
            let (body, fields) = (u32_at(&all, at + 4).unwrap() as usize, u32_at(&all, at + 12).unwrap());
            let from = at + (16 + fields as usize).next_multiple_of(8);
            bodies.push(&all[from..from + body]);
            at = from + body;
        }
        assert_eq!(at, all.len(), "nothing is cut off");
        assert_eq!(bodies.len(), 2);
        assert_eq!(first_string(bodies[1]).as_deref(), Some("metier_1_2_abcdefgh.slice"));
    }

    #[test]
    fn the_array_length_leaves_out_the_padding_before_it() {
        let body = unit_body(
            "x.scope",
            &[("Delegate", UnitProperty::Flag(true)), ("PIDs", UnitProperty::Process(9))],
        );
        // "x.scope" ends at 12, "fail" at 21; the length word stands at 24, elements from 32.
        let length = u32_at(&body, 24).unwrap() as usize;
        assert_eq!(u32_at(&body, 32 + length - 4), Some(9), "the array ends with the process id");
        let rest = &body[(32 + length).next_multiple_of(4)..];
        assert!(rest.len() >= 4 && rest.iter().all(|byte| *byte == 0), "an empty array follows");
    }
}
