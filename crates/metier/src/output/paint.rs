//! Colours: by `--color`, `NO_COLOR`, `CLICOLOR_FORCE`, and only on a terminal by default.

use clap::ValueEnum;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    // On a terminal, unless the environment forbids it.
    Auto,
    Always,
    Never,
}

/// Whether to paint one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPaint(bool);

impl StreamPaint {
    #[cfg(test)]
    pub const PLAIN: Self = Self(false);

    /// The colours of a stream, by whether it is a terminal.
    pub fn new(when: ColorWhen, is_terminal: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let forced =
            std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self(match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto if set("NO_COLOR") => false,
            ColorWhen::Auto if forced => true,
            ColorWhen::Auto => is_terminal && !dumb,
        })
    }

    fn wrap_in_code(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    pub fn bold(self, text: &str) -> String {
        self.wrap_in_code("1", text)
    }
    pub fn dim(self, text: &str) -> String {
        self.wrap_in_code("2", text)
    }
    pub fn red(self, text: &str) -> String {
        self.wrap_in_code("31", text)
    }
    pub fn green(self, text: &str) -> String {
        self.wrap_in_code("32", text)
    }
    /// Text that deserves attention.
    pub fn yellow(self, text: &str) -> String {
        self.wrap_in_code("33", text)
    }
    /// Text to type or to follow.
    pub fn cyan(self, text: &str) -> String {
        self.wrap_in_code("36", text)
    }
}
