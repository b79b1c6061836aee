//! The cluster's secret: text in a file, and the keys that are derived from it.

use std::fmt;

use hmac::Mac;

use super::Token;
use super::mac::{MacKey, hex, keyed};
use super::secret_strength::{GUESS_BITS_MIN, guess_bits};
use crate::limits::{SECRET_BYTES_MAX, SECRET_BYTES_MIN};

/// The secret that the nodes of a cluster know and that clients prove to know. It never appears in logs or errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret(MacKey);

/// The reason why a text is not a valid secret. It shows nothing of the text except its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretError {
    /// It is too short and could be guessed.
    TooShort {
        /// Its length in bytes, without surrounding white space.
        length: usize,
    },
    /// It has few different characters, or consists of repetitions or words.
    Guessable,
    /// It is too long to be a secret.
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
}

impl Secret {
    /// Creates a secret from this text, without surrounding white space.
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

    /// Same as [`Secret::from_text`], for a text that a person may have invented.
    ///
    /// # Errors
    /// The text is too easy to guess: it is short, has few different characters, or consists of repetitions or words. Or it is too long.
    pub fn from_chosen(text: &[u8]) -> Result<Secret, SecretError> {
        let secret = Secret::from_text(text)?;
        if guess_bits(text.trim_ascii()) < GUESS_BITS_MIN { Err(SecretError::Guessable) } else { Ok(secret) }
    }

    /// The text of a new secret from 32 random bytes: 64 hexadecimal digits and a newline.
    #[must_use]
    pub fn new_text(random: [u8; 32]) -> String {
        hex(&random) + "\n"
    }

    /// The bearer token for HTTP, which has no such proofs: 64 hexadecimal digits. The secret cannot be computed from it, and it gives access only
    /// to the manager's HTTP.
    #[must_use]
    pub fn bearer(&self) -> String {
        hex(self.0.derive(b"http 1").bytes())
    }

    /// Whether `shown` is the [`Secret::bearer`]; the comparison takes constant time.
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

    /// The key with which both sides of a connection prove that they know the secret.
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
