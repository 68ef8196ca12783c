//! Splits a byte stream into messages, independent of the sizes of the reads.
//!
//! Lines end at a newline. A JSON message ends where its object closes, so messages may be
//! separated by two newlines, one, or none. A message that never closes ends at a blank line, at a
//! newline within a string, or before a line that begins with `{`, so that a malformed message
//! affects no other. Messages beyond the size limit are skipped up to the next newline and counted.

/// How messages are delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFormat {
    /// One message per line.
    Lines,
    Json,
}

impl FrameFormat {
    pub fn max_message_bytes(self) -> usize {
        match self {
            Self::Lines => 4096,
            Self::Json => 64 * 1024,
        }
    }
}

/// Complete messages, stored contiguously.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageFrames {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// Messages beyond the size limit.
    pub too_long: u64,
}

impl MessageFrames {
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start as usize..*end as usize])
    }

    /// Number of messages, including those beyond the size limit.
    pub fn count(&self) -> u64 {
        self.ends.len() as u64 + self.too_long
    }

    /// Memory of the messages in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    fn push(&mut self, message: &[u8]) {
        let text = message.trim_ascii();
        if !text.is_empty() {
            self.bytes.extend_from_slice(text);
            self.ends.push(self.bytes.len() as u32);
        }
    }
}

#[derive(Debug)]
pub struct MessageFramer {
    form: FrameFormat,
    part: Vec<u8>,
    skipping: bool,
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The current line has only blanks so far.
    blank_line: bool,
    /// The first character does not open an object: the message is not JSON and ends with its line.
    foreign: bool,
}

impl MessageFramer {
    /// A framer at the start of a stream.
    pub fn new(form: FrameFormat) -> Self {
        Self {
            form,
            part: Vec::new(),
            skipping: false,
            depth: 0,
            in_string: false,
            escaped: false,
            blank_line: true,
            foreign: false,
        }
    }

    /// Consumes the next bytes and appends the messages that end in them to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut MessageFrames) {
        match self.form {
            FrameFormat::Lines => self.push_lines(bytes, out),
            FrameFormat::Json => bytes.iter().for_each(|byte| self.push_json_byte(*byte, out)),
        }
    }

    /// End of the stream: an incomplete message ends here.
    pub fn finish(&mut self, out: &mut MessageFrames) {
        if !self.skipping {
            out.push(&self.part);
        }
        *self = Self::new(self.form);
    }

    fn push_lines(&mut self, bytes: &[u8], out: &mut MessageFrames) {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let ends = pieces.peek().is_some();
            if !self.skipping && self.part.len() + piece.len() > self.form.max_message_bytes() {
                self.skipping = true;
                self.part.clear();
                out.too_long += 1;
            }
            if self.skipping {
                self.skipping = !ends;
            } else if !ends {
                self.part.extend_from_slice(piece);
            } else if self.part.is_empty() {
                out.push(piece);
            } else {
                self.part.extend_from_slice(piece);
                out.push(&self.part);
                self.part.clear();
            }
        }
    }

    fn push_json_byte(&mut self, byte: u8, out: &mut MessageFrames) {
        if self.skipping {
            self.skipping = byte != b'\n';
            return;
        }
        if self.part.is_empty() {
            match byte {
                b'{' => self.depth = 1,
                byte if byte.is_ascii_whitespace() || byte == 0 => return,
                _ => self.foreign = true,
            }
            self.part.push(byte);
            self.blank_line = false;
            return;
        }
        if byte == b'\n' {
            if self.foreign || self.in_string || self.blank_line {
                return self.emit_frame(out);
            }
            self.blank_line = true;
        } else if self.blank_line && byte == b'{' && !self.foreign {
            self.emit_frame(out);
            return self.push_json_byte(byte, out);
        } else if !byte.is_ascii_whitespace() {
            self.blank_line = false;
        }
        self.part.push(byte);
        if self.part.len() > self.form.max_message_bytes() {
            self.reset();
            out.too_long += 1;
            self.skipping = byte != b'\n';
            return;
        }
        match byte {
            _ if self.foreign => {}
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ if self.in_string => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.emit_frame(out);
                }
            }
            _ => {}
        }
    }

    fn emit_frame(&mut self, out: &mut MessageFrames) {
        out.push(&self.part);
        self.reset();
    }

    fn reset(&mut self) {
        self.part.clear();
        (self.depth, self.in_string, self.escaped) = (0, false, false);
        (self.blank_line, self.foreign) = (true, false);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(form: FrameFormat, pieces: &[&[u8]]) -> (Vec<String>, u64) {
        let (mut framer, mut frames) = (MessageFramer::new(form), MessageFrames::default());
        pieces.iter().for_each(|piece| framer.push(piece, &mut frames));
        framer.finish(&mut frames);
        (frames.iter().map(|m| String::from_utf8_lossy(m).into_owned()).collect(), frames.too_long)
    }

    #[test]
    fn messages_may_follow_each_other_with_two_newlines_one_or_none() {
        let (messages, _) =
            cut(FrameFormat::Json, &[b"{\"a\":1}\n\n{\"b\":{\"value\":2}}\n{\"c\":3}{\"d\":4}"]);
        assert_eq!(messages, ["{\"a\":1}", "{\"b\":{\"value\":2}}", "{\"c\":3}", "{\"d\":4}"]);
    }

    #[test]
    fn a_bad_message_costs_itself_only() {
        for bad in ["{\"a\":", "{\"a", "hello", "}", "]]", "{\"a\":{\"b\":[", "\0\0x", "{\"a\\"] {
            let text = format!("{bad}\n\n{{\"good\":1}}\n\n");
            let (messages, _) = cut(FrameFormat::Json, &[text.as_bytes()]);
            assert_eq!(messages.last().unwrap(), "{\"good\":1}", "{bad:?}: {messages:?}");
            assert_eq!(messages.len(), 2, "{bad:?}: {messages:?}");
        }
        let (messages, _) = cut(FrameFormat::Json, &[b"{\"a\":\n{\"good\":1}\n"]);
        assert_eq!(messages, ["{\"a\":", "{\"good\":1}"], "also with one newline");
    }

    #[test]
    fn a_message_that_is_too_long_is_counted_and_skipped() {
        for (form, fill) in [(FrameFormat::Lines, "x"), (FrameFormat::Json, "{\"a\": ")] {
            let long = format!("{}\nnext 1\n", fill.repeat(form.max_message_bytes() + 1));
            let (messages, too_long) = cut(form, &[long.as_bytes()]);
            assert_eq!((messages.as_slice(), too_long), (&["next 1".to_string()][..], 1));
        }
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_makes_no_difference(
            text in prop::collection::vec(prop::sample::select(b"{}[]\"\\\n :,a1\r\0".to_vec()), 0..300),
            cuts in prop::collection::vec(0usize..300, 0..20),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            for form in [FrameFormat::Lines, FrameFormat::Json] {
                prop_assert_eq!(cut(form, &pieces), cut(form, &[&text]));
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            for form in [FrameFormat::Lines, FrameFormat::Json] {
                cut(form, &[&bytes]);
            }
        }
    }
}
