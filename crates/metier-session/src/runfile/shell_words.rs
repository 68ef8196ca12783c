//! Splits a command line into words like a shell. No shell runs it.
//!
//! Quotes and backslashes group and escape as in a POSIX shell. Other shell syntax (`$`, backticks,
//! `;`, `|`, `&`, `<`, `>`, `*`, `?`, `~`, `#`) is plain text here.

/// The words of a text; `None` for an unclosed quote or a trailing backslash.
pub fn split_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
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
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            '\n' => {}
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => match rest.next()? {
                '\n' => {}
                c => word.get_or_insert_default().push(c),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::split_words;

    fn read(text: &str) -> Vec<String> {
        split_words(text).unwrap()
    }

    #[test]
    fn words_are_those_of_a_shell_and_nothing_is_expanded() {
        assert_eq!(read(" a  'b c' \"d \\\" $E\" f\\ g ''"), ["a", "b c", "d \" $E", "f g", ""]);
        assert_eq!(read("sh -c 'echo $HOME; ls *'"), ["sh", "-c", "echo $HOME; ls *"]);
        assert_eq!(read("a\\\nb \"c\\\nd\" \"\\n\\$x\""), ["ab", "cd", "\\n$x"]);
        assert!(read("").is_empty());
        let open = ["'open", "\"open", "end\\", "\"end\\"];
        open.iter().for_each(|open| assert_eq!(split_words(open), None, "{open}"));
    }

    #[test]
    fn what_a_shell_would_act_on_is_plain_text() {
        let hostile = ["$(touch", "x)", ";", "rm", "-rf", "~", "`id`", ">", "/etc/passwd", "&", "*", "#"];
        assert_eq!(read(&hostile.join(" ")), hostile);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn quoted_words_come_back_as_they_were(given in proptest::collection::vec("[^\\x00]{0,12}", 0..6)) {
            let line: Vec<String> =
                given.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
            assert_eq!(read(&line.join(" ")), given);
        }

        #[test]
        fn a_shell_agrees_where_nothing_is_special(line in "[a-z' \"\\\\]{0,24}") {
            let Some(ours) = split_words(&line) else { return Ok(()) };
            let script = format!("for w in {line}\ndo printf '%s\\0' \"$w\"; done");
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            let theirs = String::from_utf8(output.stdout).unwrap();
            assert_eq!(ours, theirs.split_terminator('\0').collect::<Vec<_>>(), "{line:?}");
        }
    }
}
