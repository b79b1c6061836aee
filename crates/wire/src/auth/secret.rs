//! The cluster's secret: text in a file, and the keys that are made of it.

use std::fmt;

use hmac::Mac;

use super::Token;
use super::guess::{GUESS_BITS_MIN, guess_bits};
use super::mac::{MacKey, hex, keyed};
use crate::limits::{SECRET_BYTES_MAX, SECRET_BYTES_MIN};

/// What the nodes of a cluster know and others prove that they know. It shows itself nowhere: not in logs, not in errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret(MacKey);

/// Why a text is no secret. It says nothing of the text but its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretError {
    /// It could be guessed.
    TooShort {
        /// Bytes it has, without white space around it.
        length: usize,
    },
    /// It is made of few different characters, repeated pieces or words.
    Guessable,
    /// It is something else.
    TooLong {
        /// Bytes it has.
        length: usize,
    },
}

impl Secret {
    /// The secret that is this text, without white space around it.
    ///
    /// # Errors
    /// It is too short, or too long.
    pub fn from_text(text: &[u8]) -> Result<Secret, SecretError> {
        let trimmed = text.trim_ascii();
        match trimmed.len() {
            length if length < SECRET_BYTES_MIN => Err(SecretError::TooShort { length }),
            length if length > SECRET_BYTES_MAX => Err(SecretError::TooLong { length }),
            _ => {
                let mut mac = keyed(b"zerohop secret 1");
                mac.update(trimmed);
                Ok(Secret(MacKey::new(mac.finalize().into_bytes().into())))
            }
        }
    }

    /// The same, of what a person may have made up.
    ///
    /// # Errors
    /// It could be guessed: too short, or of few different characters, repeated pieces or words; or it is too long.
    pub fn from_chosen(text: &[u8]) -> Result<Secret, SecretError> {
        let secret = Secret::from_text(text)?;
        if guess_bits(text.trim_ascii()) < GUESS_BITS_MIN { Err(SecretError::Guessable) } else { Ok(secret) }
    }

    /// The text of a new secret, made of 32 random bytes: 64 hexadecimal digits and the end of the line.
    #[must_use]
    pub fn new_text(random: [u8; 32]) -> String {
        hex(&random) + "\n"
    }

    /// What an HTTP client shows in place of a proof, which HTTP has none of: 64 hexadecimal digits. From it nobody finds
    /// the secret, and it opens nothing but the manager's HTTP.
    #[must_use]
    pub fn bearer(&self) -> String {
        hex(self.0.derive(b"http 1").bytes())
    }

    /// Whether `shown` is the [`Secret::bearer`]; takes the same time wherever they differ.
    #[must_use]
    pub fn is_bearer(&self, shown: &[u8]) -> bool {
        let bearer = self.bearer();
        bearer.len() == shown.len()
            && bearer.bytes().zip(shown).fold(0, |differs, (one, two)| differs | (one ^ two)) == 0
    }

    /// The token of this number.
    #[must_use]
    pub fn token(&self, id: u64) -> Token {
        let purpose = [&b"token 1"[..], &id.to_le_bytes()].concat();
        Token { id, key: self.0.derive(&purpose) }
    }

    /// The key under which both sides of a connection prove that they know it.
    pub(super) fn connect_key(&self) -> MacKey {
        self.0.derive(b"connect 1")
    }
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretError::TooShort { length } => write!(
                f,
                "the secret has {length} bytes and needs {SECRET_BYTES_MIN}, as a shorter one might be guessed: make one \
                 with `zerohop secret new`"
            ),
            SecretError::Guessable => f.write_str(
                "the secret repeats itself or is made of words, and might be guessed: make one with `zerohop secret new`, \
                 or with `openssl rand -hex 32`",
            ),
            SecretError::TooLong { length } => write!(
                f,
                "the file has {length} bytes and a secret at most {SECRET_BYTES_MAX}: is it another file?"
            ),
        }
    }
}

impl std::error::Error for SecretError {}
