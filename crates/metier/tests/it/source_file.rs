//! Reads Rust source files by their tokens: imports, and the part that is not tests.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::CharIndices;

/// A word or a punctuation mark, with its line. `::` is one mark.
struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// A file of a crate as its module path and its tokens.
pub struct SourceFile<'a> {
    pub path: Vec<String>,
    tokens: Vec<Token<'a>>,
}

impl<'a> SourceFile<'a> {
    pub fn new(path: Vec<String>, text: &'a str) -> Self {
        Self { path, tokens: tokenize(text) }
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn starts_with(&self, at: usize, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(offset, word)| self.text(at + offset) == *word)
    }

    /// Behind the bracket that closes the one here.
    fn skip_brackets(&self, mut at: usize) -> usize {
        let mut depth = 0;
        while at < self.tokens.len() {
            match self.text(at) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        at
    }

    /// Where the item of a `#[cfg(test)]` attribute begins, if there is such an attribute here.
    fn test_item(&self, at: usize) -> Option<usize> {
        let is_test = self.starts_with(at, &["#", "[", "cfg", "(", "test", ")", "]"])
            || self.starts_with(at, &["#", "[", "cfg", "(", "all", "(", "test"]);
        let mut item = is_test.then(|| self.skip_brackets(at + 1))?;
        while self.text(item) == "#" {
            item = self.skip_brackets(item + 1);
        }
        Some(item)
    }

    /// Behind the item that begins here: its `;`, or its braces.
    fn skip_item(&self, mut at: usize) -> usize {
        let is_use = (at..at + 6).take_while(|at| self.text(*at) != ";").any(|at| self.text(at) == "use");
        while at < self.tokens.len() {
            match self.text(at) {
                ";" => return at + 1,
                "{" if !is_use => return self.skip_brackets(at),
                "{" | "(" | "[" => at = self.skip_brackets(at),
                _ => at += 1,
            }
        }
        at
    }
}

/// The tokens of a file outside `#[cfg(test)]` items, each with its line.
pub fn product_tokens<'a>(file: &SourceFile<'a>) -> Vec<(&'a str, usize)> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(token) = file.tokens.get(at) {
        match file.test_item(at) {
            Some(item) => at = file.skip_item(item),
            None => {
                tokens.push((token.text, token.line));
                at += 1;
            }
        }
    }
    tokens
}

/// The module path of a file: `a/b.rs` and `a/b/mod.rs` are both `a`, `b`; the crate's root is
/// empty.
pub fn module_path(file: &Path) -> Vec<String> {
    let mut path: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_str().unwrap().to_string()).collect();
    if path.last().is_some_and(|name| name == "mod") || path == ["lib"] || path == ["main"] {
        path.pop();
    }
    path
}

/// The Rust files below a folder, as paths relative to `src`, with their texts, in the order of
/// their paths.
pub fn rust_files(src: &Path) -> Vec<(PathBuf, String)> {
    fn add(src: &Path, folder: &Path, files: &mut Vec<(PathBuf, String)>) {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                add(src, &path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.strip_prefix(src).unwrap().to_path_buf(), text));
            }
        }
    }
    let mut files = Vec::new();
    add(src, src, &mut files);
    files
}

/// Modules in files of their own that only tests have: `#[cfg(test)] mod NAME;`.
fn test_modules(file: &SourceFile) -> Vec<Vec<String>> {
    let items = (0..file.tokens.len()).filter_map(|at| file.test_item(at));
    let modules = items.filter(|at| file.text(*at) == "mod" && file.text(at + 2) == ";");
    modules.map(|at| [&file.path[..], &[file.text(at + 1).to_string()]].concat()).collect()
}

/// Tells the files that only tests have from those of the product.
pub fn is_product<'a>(files: &[SourceFile<'a>]) -> impl Fn(&SourceFile<'a>) -> bool + use<'a> {
    let tests: BTreeSet<Vec<String>> = files.iter().flat_map(test_modules).collect();
    move |file| {
        let path = &file.path;
        !path.iter().any(|name| name == "tests") && !(1..=path.len()).any(|end| tests.contains(&path[..end]))
    }
}

/// The names below the crate's root that the product's part of a file names, each with its line.
pub fn imports(file: &SourceFile) -> Vec<(String, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    // Where each open brace belongs to an inline module, and how many do.
    let (mut braces, mut depth) = (Vec::new(), file.path.len());
    while at < file.tokens.len() {
        if let Some(item) = file.test_item(at) {
            at = file.skip_item(item);
            continue;
        }
        match file.text(at) {
            "{" => {
                let is_module = at >= 2 && file.text(at - 2) == "mod";
                depth += usize::from(is_module);
                braces.push(is_module);
            }
            "}" => depth -= usize::from(braces.pop() == Some(true)),
            "crate" if file.text(at + 1) == "::" => add_names(file, at + 2, &mut found),
            "super" if at == 0 || file.text(at - 1) != "::" => {
                let supers = (0..).take_while(|n| file.starts_with(at + 2 * n, &["super", "::"])).count();
                if supers == depth {
                    add_names(file, at + 2 * supers, &mut found);
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The name here, or the first name of each member of the group here.
fn add_names(file: &SourceFile, at: usize, found: &mut Vec<(String, usize)>) {
    let mut add = |at: usize| found.extend(file.tokens.get(at).map(|t| (t.text.to_string(), t.line)));
    if file.text(at) != "{" {
        return add(at);
    }
    let end = file.skip_brackets(at);
    let mut at = at + 1;
    while at + 1 < end {
        add(at);
        while at + 1 < end && file.text(at) != "," {
            at = if file.text(at) == "{" { file.skip_brackets(at) } else { at + 1 };
        }
        at += 1;
    }
}

/// Words and marks of a text, without comments, strings, characters and numbers.
fn tokenize(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut line, mut counted) = (1, 0);
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        let rest = &text[start..];
        line += text[counted..start].matches('\n').count();
        counted = start;
        let word = rest.len() - rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if c == '\'' {
            character(rest)
        } else if c == '"' {
            string(rest)
        } else if let Some(length) = raw_string(rest, word) {
            length
        } else if word > 0 {
            tokens.push(Token { text: &rest[..word], line });
            word
        } else if rest.starts_with("::") {
            tokens.push(Token { text: "::", line });
            2
        } else {
            if !c.is_whitespace() {
                tokens.push(Token { text: &rest[..c.len_utf8()], line });
            }
            c.len_utf8()
        };
        skip_to(&mut chars, start + length);
    }
    tokens
}

fn skip_to(chars: &mut Peekable<CharIndices>, end: usize) {
    while chars.next_if(|(at, _)| *at < end).is_some() {}
}

/// Length of a block comment, with those inside it.
fn block_comment(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        match here {
            [b'/', b'*', ..] => depth += 1,
            [b'*', b'/', ..] => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of a character; of a lifetime, only its quote.
fn character(rest: &str) -> usize {
    let inner = &rest[1..];
    if inner.starts_with('\\') {
        return 3 + inner[2..].find('\'').map_or(0, |end| end + 1);
    }
    let width = inner.chars().next().map_or(0, char::len_utf8);
    if inner[width..].starts_with('\'') { width + 2 } else { 1 }
}

fn string(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Length of a raw string, which begins with a word of this length.
fn raw_string(rest: &str, word: usize) -> Option<usize> {
    let prefix = ["r", "br", "cr"].contains(&&rest[..word]);
    let hashes = rest[word..].len() - rest[word..].trim_start_matches('#').len();
    let open = word + hashes;
    if !prefix || !rest[open..].starts_with('"') {
        return None;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    Some(rest[open + 1..].find(&close).map_or(rest.len(), |end| open + 1 + end + close.len()))
}
