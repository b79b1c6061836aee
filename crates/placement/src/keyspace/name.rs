//! Names of keyspaces: they appear in commands, file names, metrics and addresses, so they need no quoting anywhere.

use std::fmt;
use std::str::FromStr;

use zerohop_wire::escaped::shown;

use crate::limits::KEYSPACE_NAME_BYTES_MAX;

/// A name of 1 to 63 ASCII letters, digits, `.`, `_` and `-`, of which the first is a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyspaceName(Box<str>);

impl KeyspaceName {
    /// Checks the name.
    pub fn new(name: &str) -> Result<KeyspaceName, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > KEYSPACE_NAME_BYTES_MAX {
            return Err(NameError::TooLong { bytes: name.len() });
        }
        let allowed =
            |at: usize, c: char| c.is_ascii_alphanumeric() || (at > 0 && matches!(c, '.' | '_' | '-'));
        match name.char_indices().find(|(at, c)| !allowed(*at, *c)) {
            Some((at, character)) => Err(NameError::Character { at, character }),
            None => Ok(KeyspaceName(name.into())),
        }
    }

    /// The name of the keyspace that always exists.
    pub fn default_keyspace() -> KeyspaceName {
        KeyspaceName("default".into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for KeyspaceName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<KeyspaceName, NameError> {
        KeyspaceName::new(name)
    }
}

/// The reason why a name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name is empty.
    Empty,
    /// The name is too long.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A character that is not permitted, or not as the first.
    Character {
        /// Its byte offset.
        at: usize,
        /// The character.
        character: char,
    },
}

impl NameError {
    /// The error in words about the name of this kind of object, such as `token`.
    #[must_use]
    pub fn about(&self, kind: &str) -> String {
        let what = match self {
            Self::Empty => format!("a {kind}'s name is empty"),
            Self::TooLong { bytes } => format!("a {kind}'s name has {bytes} bytes"),
            Self::Character { at, character } => {
                format!(
                    "a {kind}'s name has '{}' at byte {at}",
                    shown(character.encode_utf8(&mut [0; 4]).as_bytes())
                )
            }
        };
        format!(
            "{what}: use 1 to {KEYSPACE_NAME_BYTES_MAX} ASCII letters, digits, '.', '_' and '-', a letter or digit first"
        )
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.about("keyspace"))
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_need_no_quoting_are_accepted() {
        for good in ["a", "default", "Job-17.out_2", "0", &"x".repeat(63)] {
            assert_eq!(KeyspaceName::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn invalid_names_are_refused_with_position() {
        assert_eq!(KeyspaceName::new(""), Err(NameError::Empty));
        assert_eq!(KeyspaceName::new(&"x".repeat(64)), Err(NameError::TooLong { bytes: 64 }));
        for (bad, at, character) in [
            ("..", 0, '.'),
            ("-k", 0, '-'),
            ("a/b", 1, '/'),
            ("a b", 1, ' '),
            ("aé", 1, 'é'),
            ("a\0", 1, '\0'),
        ] {
            assert_eq!(KeyspaceName::new(bad), Err(NameError::Character { at, character }), "{bad:?}");
        }
        let error = KeyspaceName::new("a b").unwrap_err();
        assert!(error.to_string().starts_with("a keyspace's name has ' ' at byte 1: use 1 to 63"), "{error}");
        assert!(error.about("token").starts_with("a token's name has ' ' at byte 1: use 1 to 63"), "{error}");
    }
}
