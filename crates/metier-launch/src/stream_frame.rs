//! Frames on the stream between the measuring program and the launcher in a pod: a letter, a length
//! of four bytes (little-endian) and that many bytes, at most [`MAX_FRAME_BYTES`].

use std::io::{self, Read, Write};

/// Largest content of a frame.
pub const MAX_FRAME_BYTES: usize = 64 * 1024;

/// Writes a frame; the content must not be longer than [`MAX_FRAME_BYTES`].
pub fn write_frame(out: &mut impl Write, kind: u8, content: &[u8]) -> io::Result<()> {
    let mut head = [kind, 0, 0, 0, 0];
    head[1..].copy_from_slice(&(content.len() as u32).to_le_bytes());
    out.write_all(&head)?;
    out.write_all(content)
}

/// Reads a frame into the buffer and returns its letter.
pub fn read_frame(input: &mut impl Read, content: &mut Vec<u8>) -> io::Result<u8> {
    let mut head = [0; 5];
    input.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::other("a frame that is too long"));
    }
    content.resize(length, 0);
    input.read_exact(content)?;
    Ok(head[0])
}
