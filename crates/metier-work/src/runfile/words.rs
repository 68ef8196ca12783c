//! A command in one text, taken apart as a shell would, without anything else that a shell does.

/// Words between blanks; `'…'` keeps everything, `"…"` everything but `\"` and `\\`, a backslash the next character.
/// `None` if a quote is left open.
pub fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => match rest.next()? {
                            c @ ('"' | '\\') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_those_of_a_shell_and_nothing_is_expanded() {
        let read = |text| words(text).unwrap();
        assert_eq!(read(" a  'b c' \"d \\\" $E\" f\\ g ''"), ["a", "b c", "d \" $E", "f g", ""]);
        assert_eq!(read("sh -c 'echo $HOME; ls *'"), ["sh", "-c", "echo $HOME; ls *"]);
        assert!(read("").is_empty());
        assert_eq!((words("'open"), words("\"open"), words("end\\")), (None, None, None));
    }
}
