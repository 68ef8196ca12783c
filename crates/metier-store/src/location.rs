//! Location of a store: a file or a PostgreSQL server.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;

/// Location of a store. Its text and `Debug` forms never show a password.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreLocation {
    Sqlite(PathBuf),
    /// A PostgreSQL database, as a URL.
    Postgres(String),
}

impl FromStr for StoreLocation {
    type Err = Error;

    /// Parses a URL that starts with `postgres://` or `postgresql://`, else the path of a file.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |want: &str| Err(Error::BadLocation { got: hide_password(text), want: want.to_string() });
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return match text.parse::<postgres::Config>() {
                Ok(_) => Ok(Self::Postgres(text.to_string())),
                Err(error) => wrong(&format!(
                    "{}; want postgres://USER:PASSWORD@HOST:PORT/DATABASE",
                    innermost_cause(&error)
                )),
            };
        }
        let path = text.strip_prefix("sqlite://").unwrap_or(text);
        match path {
            "" => wrong("it is empty; want a file path or postgres://USER@HOST/DATABASE"),
            _ if path.contains("://") => {
                wrong("unknown kind of URL; want a file path or postgres://USER@HOST/DATABASE")
            }
            _ if path.contains('\0') => wrong("a path has no NUL character"),
            _ => Ok(Self::Sqlite(PathBuf::from(path))),
        }
    }
}

/// The innermost error, which has the useful message.
fn innermost_cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The URL with its password masked, both before the `@` and as a parameter.
fn hide_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_string() };
    let (rest, parameters) = rest.split_once('?').map_or((rest, None), |(r, p)| (r, Some(p)));
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(a, p)| (a, Some(p)));
    let mut text = format!("{scheme}://");
    match authority.rsplit_once('@') {
        Some((credentials, at)) => {
            let user = credentials.split(':').next().unwrap_or_default();
            text.push_str(user);
            if credentials.contains(':') {
                text.push_str(":***");
            }
            text.push('@');
            text.push_str(at);
        }
        None => text.push_str(authority),
    }
    if let Some(path) = path {
        text.push('/');
        text.push_str(path);
    }
    if let Some(parameters) = parameters {
        let texts: Vec<&str> = parameters
            .split('&')
            .map(|p| if p.to_ascii_lowercase().starts_with("password") { "password=***" } else { p })
            .collect();
        text.push('?');
        text.push_str(&texts.join("&"));
    }
    text
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => f.write_str(&hide_password(url)),
        }
    }
}

impl fmt::Debug for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "postgres://ann:s3cret@db.example:5432/metier?sslmode=prefer",
            "postgresql://ann:s3c@ret@db.example/metier",
            "postgres://ann@db.example/metier?password=s3cret",
            "postgres://ann:s3cret@db.example",
        ] {
            let text = format!("{0} {0:?}", StoreLocation::Postgres(url.to_string()));
            assert!(!text.contains("s3c") && !text.contains("ret@"), "{text}");
            assert!(text.contains("ann") && text.contains("db.example"), "{text}");
        }
    }

    #[test]
    fn a_path_is_a_file_and_a_url_is_a_server() {
        assert_eq!("a/b.db".parse::<StoreLocation>().unwrap(), StoreLocation::Sqlite("a/b.db".into()));
        assert!(matches!("postgres://u@h/d".parse::<StoreLocation>().unwrap(), StoreLocation::Postgres(_)));
        for bad in ["", "mysql://u@h/d", "postgres://u:topsecret@h:notaport/d"] {
            let error = bad.parse::<StoreLocation>().unwrap_err().to_string();
            assert!(error.contains("want") && !error.contains("topsecret"), "{error}");
        }
    }
}
