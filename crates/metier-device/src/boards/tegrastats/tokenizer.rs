//! Tokenizer for `tegrastats` lines.
//!
//! Blanks separate tokens. A round bracket starts its own token even without a blank before it
//! (`252kB(lfb 252kB)`), and ends where it closes. A square bracket belongs to the surrounding word
//! (`@[305,305]`), including blanks inside it. An unclosed bracket, as in a truncated line, is an
//! ordinary character.

/// The tokens of a line.
pub(super) fn tokenize(text: &str) -> Vec<&str> {
    let mut tokens = Vec::with_capacity(64);
    let mut rest = text.trim_start_matches(is_blank);
    while !rest.is_empty() {
        let length = token_length(rest);
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start_matches(is_blank);
    }
    tokens
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b' || c == '\0'
}

/// Length of the token at the start of a text; at least 1 for a non-empty text.
fn token_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes[0] == b'('
        && let Some(end) = find_closing(bytes, 1, b'(', b')')
    {
        return end + 1;
    }
    let mut at = 1;
    let mut square = bytes[0] == b'[';
    loop {
        if square && let Some(end) = find_closing(bytes, at, b'[', b']') {
            at = end + 1;
        }
        match bytes.get(at) {
            None => return bytes.len(),
            Some(b'(') => return at,
            Some(byte) if is_blank(char::from(*byte)) => return at,
            Some(byte) => {
                square = *byte == b'[';
                at += 1;
            }
        }
    }
}

/// Position of the closing bracket, unless another one opens first.
fn find_closing(bytes: &[u8], from: usize, open: u8, close: u8) -> Option<usize> {
    let at = from + bytes.get(from..)?.iter().position(|byte| *byte == open || *byte == close)?;
    (bytes[at] == close).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_hold_together_and_stand_apart() {
        assert_eq!(tokenize("IRAM 0/252kB(lfb 252kB) x"), ["IRAM", "0/252kB", "(lfb 252kB)", "x"]);
        assert_eq!(tokenize(" CPU [1%@2, off]@3\tA@[4,5] "), ["CPU", "[1%@2, off]@3", "A@[4,5]"]);
    }

    #[test]
    fn a_bracket_without_an_end_takes_nothing_with_it() {
        assert_eq!(tokenize("CPU [1%@2,3 GR3D 0%@[7] ("), ["CPU", "[1%@2,3", "GR3D", "0%@[7]", "("]);
        assert_eq!(tokenize("(lfb 7x4 b(c d)"), ["(lfb", "7x4", "b", "(c d)"]);
        assert_eq!(tokenize("a]b)c [["), ["a]b)c", "[["]);
        assert!(tokenize(" \t ").is_empty());
    }
}
