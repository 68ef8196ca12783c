//! Exit codes, and their mapping from errors.

/// The exit codes, for the manual.
pub const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "all went well"),
    ("1", "it failed"),
    ("2", "usage: a flag, argument, environment variable or settings file is wrong"),
    ("3", "place: no device can take it"),
    ("4", "partial: done as far as this host allows"),
    ("5", "compare --fail-above or runs --trend --fail-on-change found a regression"),
    ("124", "run: the time limit ended the command"),
    ("125", "run: metier itself failed"),
    ("126", "run: the command cannot be executed"),
    ("127", "run: the command was not found"),
    ("128 + n", "run: signal n ended the command"),
    ("130", "interrupted"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CliExitCode(u8);

impl CliExitCode {
    pub const OK: Self = Self(0);
    pub const FAILED: Self = Self(1);
    /// The command line or the configuration is invalid.
    pub const USAGE: Self = Self(2);
    /// No device fits.
    pub const INFEASIBLE: Self = Self(3);
    /// Done in part.
    pub const PARTIAL: Self = Self(4);
    /// A comparison or trend found a regression.
    pub const REGRESSION: Self = Self(5);
    /// `run` itself failed.
    pub const OWN_FAILURE: Self = Self(125);

    /// An exit code of another program; only its lowest byte reaches a parent.
    pub const fn from_raw(code: i32) -> Self {
        Self((code & 0xff) as u8)
    }

    pub const fn get(self) -> u8 {
        self.0
    }
}

/// An invalid command line or configuration: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// A usage error as an `anyhow` one.
pub fn usage_error(text: impl Into<String>) -> anyhow::Error {
    UsageError(text.into()).into()
}

/// The reader of stdout closed it: not an error, but the end.
#[derive(Debug, thiserror::Error)]
#[error("stdout was closed by its reader")]
pub struct ClosedPipe;

/// The whole chain of causes as one line: what happened and why, then the fix.
///
/// Each error of the chain may end with its advice, after a semicolon. The advice of an outer error
/// still comes last, after the causes. A cause that an outer error includes is not repeated.
pub fn error_line(error: &anyhow::Error) -> String {
    let mut what = String::new();
    let mut advice = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        let (part, rest) = text.split_once("; ").unwrap_or((&text, ""));
        if what.is_empty() {
            what = part.to_string();
        } else if !what.contains(part) {
            what = format!("{what}: {part}");
        }
        if !rest.is_empty() && !advice.contains(rest) {
            advice = format!("{advice}; {rest}");
        }
    }
    format!("{what}{advice}").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The exit code of an error.
pub fn exit_code_of(error: &anyhow::Error) -> CliExitCode {
    if error.is::<ClosedPipe>() {
        CliExitCode::OK
    } else if error.is::<UsageError>() {
        CliExitCode::USAGE
    } else if let Some(metier_store::Error::BadLocation { .. }) = error.downcast_ref() {
        CliExitCode::USAGE
    } else {
        CliExitCode::FAILED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_chain_of_causes_is_one_line_without_repetition() {
        let inner = std::io::Error::other("disk\non fire");
        let error = Err::<(), _>(inner).context("cannot write x").context("export").unwrap_err();
        assert_eq!(error_line(&error), "export: cannot write x: disk on fire");
        let error = anyhow::anyhow!("inner").context("outer: inner");
        assert_eq!(error_line(&error), "outer: inner");
        let advised = anyhow::anyhow!("no such file").context("cannot read x; name another");
        assert_eq!(error_line(&advised), "cannot read x: no such file; name another");
    }

    #[test]
    fn errors_have_the_codes_of_the_table() {
        assert_eq!(exit_code_of(&usage_error("x")), CliExitCode::USAGE);
        assert_eq!(exit_code_of(&usage_error("x").context("while")), CliExitCode::USAGE);
        assert_eq!(exit_code_of(&ClosedPipe.into()), CliExitCode::OK);
        assert_eq!(exit_code_of(&anyhow::anyhow!("x")), CliExitCode::FAILED);
        assert_eq!(CliExitCode::from_raw(256 + 3).get(), 3);
    }
}
