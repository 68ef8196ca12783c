//! Mutations of inputs.

use metier_types::random::SplitMix64;

/// Largest input.
const MAX_BYTES: usize = 64 << 10;
/// Bytes and texts that formats treat in their own way.
const TOKENS: [&[u8]; 26] = [
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e309",
    b"NaN",
    b"18446744073709551616",
    b"\"\"",
    b"{}",
    b"[]",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b"\n",
    b"\r\n",
    b"\0",
    b":",
    b",",
    b"=",
    b"'",
    b"\xff",
    b"\\u0000",
    b"--",
];
const ODD_BYTES: [u8; 9] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'\n', b'0', b'-'];

/// A changed copy of an input; `other` is one to take a piece from.
pub fn mutate(input: &[u8], other: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 << random.next_below(4) {
        mutate_once(&mut bytes, other, random);
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

fn mutate_once(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    let at = random.next_below(bytes.len() + 1);
    let Some(byte) = bytes.get(at).copied() else {
        bytes.extend_from_slice(TOKENS[random.next_below(TOKENS.len())]);
        return;
    };
    let end = at + random.next_below((bytes.len() - at).min(64)) + 1;
    match random.next_below(10) {
        0 => bytes[at] = byte ^ (1 << random.next_below(8)),
        1 => bytes[at] = random.next_u64() as u8,
        2 => bytes[at] = ODD_BYTES[random.next_below(ODD_BYTES.len())],
        3 => bytes[at] = byte.wrapping_add(random.next_below(33) as u8).wrapping_sub(16),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let piece = bytes[at..end].to_vec();
            let times = 1 + random.next_below(4);
            bytes.splice(at..at, piece.repeat(times));
        }
        6 | 7 => {
            let token = TOKENS[random.next_below(TOKENS.len())];
            let replaced = if random.next_below(2) == 0 { at } else { end };
            bytes.splice(at..replaced, token.iter().copied());
        }
        8 if !other.is_empty() => {
            let from = random.next_below(other.len());
            let to = (from + 1 + random.next_below(256)).min(other.len());
            bytes.splice(at..end, other[from..to].iter().copied());
        }
        _ => {
            // A number of the text is replaced by another.
            let digits = bytes[at..].iter().position(u8::is_ascii_digit).map(|first| at + first);
            if let Some(first) = digits {
                let length = bytes[first..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = random.next_u64() >> random.next_below(64);
                bytes.splice(first..first + length, number.to_string().into_bytes());
            }
        }
    }
}
