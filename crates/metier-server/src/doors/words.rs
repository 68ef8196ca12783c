//! A line taken apart into words as a shell would, and never given to one.
//!
//! Quotes and backslashes group and escape as in a POSIX shell. Everything that a shell would act on (`$`, backticks,
//! `;`, `|`, `&`, `<`, `>`, `*`, `?`, `~`, `#`) is plain text here.

/// Most words of one line.
pub const MOST_WORDS: usize = 10_000;

/// The words of a line; or why it has none, as what it is and what would be right.
pub fn split(line: &str) -> Result<Vec<String>, (&'static str, &'static str)> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\0' => return Err(("a text with a NUL", "no NUL")),
            '\'' => {
                let into = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some('\'') => break,
                        Some(c) => into.push(c),
                        None => return Err(("a text with an open '", "a closing ' too")),
                    }
                }
            }
            '"' => {
                let into = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some('"') => break,
                        Some('\\') => match rest.next() {
                            Some(c @ ('"' | '\\' | '$' | '`')) => into.push(c),
                            Some('\n') => {}
                            Some(c) => into.extend(['\\', c]),
                            None => return Err(("a text with an open \"", "a closing \" too")),
                        },
                        Some(c) => into.push(c),
                        None => return Err(("a text with an open \"", "a closing \" too")),
                    }
                }
            }
            '\\' => match rest.next() {
                Some('\n') => {}
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(("a text with a lone \\ at its end", "something after it, or \\\\")),
            },
            c => word.get_or_insert_default().push(c),
        }
        if words.len() >= MOST_WORDS {
            return Err(("a text of more than 10000 words", "fewer"));
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<String> {
        split(line).unwrap()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(of("  a  'b c' \"d e\"f\\ g ''  "), ["a", "b c", "d ef g", ""]);
        assert_eq!(of(r#"-e "A=\"x\" \$y" 'it''s' \"q"#), ["-e", "A=\"x\" $y", "its", "\"q"]);
        assert_eq!(of("a\\\nb \"c\\\nd\" \"\\n\""), ["ab", "cd", "\\n"]);
        assert!(of("").is_empty() && of(" \n\t").is_empty());
    }

    #[test]
    fn what_a_shell_would_act_on_is_plain_text() {
        assert_eq!(
            of("$(touch x) ; rm -rf ~ `id` > /etc/passwd & * #"),
            ["$(touch", "x)", ";", "rm", "-rf", "~", "`id`", ">", "/etc/passwd", "&", "*", "#"]
        );
    }

    #[test]
    fn what_is_open_is_refused() {
        for open in ["'a", "\"a", "a\\", "\"a\\", "\0"] {
            assert!(split(open).is_err(), "{open:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn quoted_words_come_back_as_they_were(words in proptest::collection::vec("[^\0]{0,12}", 0..6)) {
            let line: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
            assert_eq!(of(&line.join(" ")), words);
        }

        #[test]
        fn a_shell_agrees_where_nothing_is_special(line in "[a-z' \"\\\\]{0,24}") {
            let Ok(ours) = split(&line) else { return Ok(()) };
            let script = format!("for w in {line}\ndo printf '%s\\0' \"$w\"; done");
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            let theirs = String::from_utf8(output.stdout).unwrap();
            let theirs: Vec<&str> = theirs.split_terminator('\0').collect();
            assert_eq!(ours, theirs, "{line:?}");
        }
    }
}
