//! One HTTP GET over plain TCP, bounded in time and size. It suffices for a metrics page.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Size limit of a response's head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
pub const MAX_BODY_BYTES: usize = 16 << 20;

/// The URL of a page: `http://host[:port]/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    /// Name or address, without brackets.
    pub host: String,
    /// Port; 80 by default.
    pub port: u16,
    pub path: String,
}

impl HttpUrl {
    /// Parses a URL. The error describes what is expected.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const WANT: &str = "an address such as http://localhost:8000/metrics";
        let rest = text.strip_prefix("http://").ok_or(WANT)?;
        if rest.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(WANT);
        }
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => v6.split_once(']').ok_or(WANT)?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| WANT)?,
            None if port.is_empty() => 80,
            None => return Err(WANT),
        };
        if host.is_empty() || host.contains('@') {
            return Err(WANT);
        }
        let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
        Ok(Self { host: host.to_string(), port, path })
    }

    /// Whether it means the requesting machine or network namespace.
    pub fn is_local(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

#[derive(Debug)]
pub struct HttpPage {
    /// The `Content-Type`.
    pub media_type: String,
    pub body: Vec<u8>,
}

/// Fetches a page, or returns the reason why not.
pub fn fetch_page(url: &HttpUrl, accept: &str) -> Result<HttpPage, String> {
    let until = Instant::now() + REQUEST_TIMEOUT;
    let plain = |error: io::Error| error.to_string();
    let mut stream = connect(url, until).map_err(plain)?;
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    // HTTP/1.0 has no chunked encoding and no persistent connection.
    let request = format!(
        "GET {} HTTP/1.0\r\nHost: {host}:{}\r\nAccept: {accept}\r\nUser-Agent: metier\r\nConnection: close\r\n\r\n",
        url.path, url.port
    );
    set_deadline(&stream, until).and_then(|()| stream.write_all(request.as_bytes())).map_err(plain)?;
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    let head = loop {
        if let Some(end) = find_bytes(&bytes, b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > MAX_HEAD_BYTES {
            return Err("the head of its answer is larger than 64 KiB".into());
        }
        match read_until(&mut stream, &mut piece, until).map_err(plain)? {
            0 => return Err("it closed the connection before it answered".into()),
            got => bytes.extend_from_slice(&piece[..got]),
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let code = status.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    if !status.starts_with("HTTP/1.") || code != Some(200) {
        let shown: String = status.chars().take(60).collect();
        return Err(format!("it answered {shown:?}; want 200"));
    }
    let header = |name: &str| {
        text.split("\r\n").skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_string())
        })
    };
    let length = header("content-length").and_then(|length| length.parse::<usize>().ok());
    let is_chunked = header("transfer-encoding").is_some_and(|e| e.eq_ignore_ascii_case("chunked"));
    let media_type = header("content-type").unwrap_or_default();
    let mut body = bytes.split_off(head + 4);
    while length.is_none_or(|length| body.len() < length) {
        if body.len() > MAX_BODY_BYTES {
            return Err("its page is larger than 16 MiB".into());
        }
        match read_until(&mut stream, &mut piece, until).map_err(plain)? {
            0 if length.is_some() => return Err("its page was cut off".into()),
            0 => break,
            got => body.extend_from_slice(&piece[..got]),
        }
        if is_chunked && body.ends_with(b"\r\n0\r\n\r\n") {
            break;
        }
    }
    if is_chunked {
        body = decode_chunks(&body).ok_or("its chunked encoding is invalid")?;
    }
    Ok(HttpPage { media_type, body })
}

fn connect(url: &HttpUrl, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its host name has no address");
    for address in (url.host.as_str(), url.port).to_socket_addrs()?.take(8) {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left.min(Duration::from_secs(1))) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn set_deadline(stream: &TcpStream, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it took longer than 3 s"));
    }
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))
}

fn read_until(stream: &mut TcpStream, piece: &mut [u8], until: Instant) -> io::Result<usize> {
    loop {
        set_deadline(stream, until)?;
        match stream.read(piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it took longer than 3 s"));
            }
            other => return other,
        }
    }
}

fn find_bytes(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn decode_chunks(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = find_bytes(bytes, b"\r\n")?;
        let size = std::str::from_utf8(&bytes[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        bytes = &bytes[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(..size)?);
        bytes = bytes.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_is_read_or_refused() {
        let url = |text| HttpUrl::parse(text).map(|url| (url.host, url.port, url.path));
        assert_eq!(url("http://localhost:8000/metrics"), Ok(("localhost".into(), 8000, "/metrics".into())));
        assert_eq!(url("http://[::1]:9?x=1"), Ok(("::1".into(), 9, "/?x=1".into())));
        assert_eq!(url("http://a"), Ok(("a".into(), 80, "/".into())));
        for bad in [
            "",
            "https://a",
            "http://",
            "http://a:x/",
            "http://a b/",
            "http://u@a/",
            "http://[::1",
            "http://[::1]x",
        ] {
            assert!(HttpUrl::parse(bad).is_err(), "{bad}");
        }
        assert!(HttpUrl::parse("http://127.0.0.1/").unwrap().is_local());
        assert!(!HttpUrl::parse("http://10.0.0.1/").unwrap().is_local());
    }

    fn answer(text: &'static [u8]) -> Result<HttpPage, String> {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut got = [0; 1024];
            let _ = stream.read(&mut got).unwrap();
            stream.write_all(text).unwrap();
        });
        let page = fetch_page(&HttpUrl::parse(&format!("http://127.0.0.1:{port}/")).unwrap(), "text/plain");
        thread.join().unwrap();
        page
    }

    #[test]
    fn a_page_comes_with_a_length_in_chunks_or_to_the_end() {
        let body = |text| answer(text).map(|page| page.body);
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1\n"), Ok(b"a 1\n".to_vec()));
        assert_eq!(body(b"HTTP/1.0 200 OK\r\n\r\na 1\n"), Ok(b"a 1\n".to_vec()));
        let chunks =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na \r\n2;x\r\n1\n\r\n0\r\n\r\n";
        assert_eq!(body(chunks), Ok(b"a 1\n".to_vec()));
    }

    #[test]
    fn what_is_no_page_is_an_error_in_words() {
        assert!(answer(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().contains("404"));
        assert!(answer(b"").unwrap_err().contains("closed"));
        assert!(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na").unwrap_err().contains("cut off"));
        assert!(answer(b"SSH-2.0-x\r\n\r\n").is_err());
    }
}
