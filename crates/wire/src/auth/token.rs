//! Tokens: a number, and a key that is derived from the number and the secret. The cluster need not store a token to verify it.

use std::fmt;

use super::mac::{MacKey, hex};

/// Prefix of a token's text.
const PREFIX: &str = "zht1-";

/// Length of a token's text in bytes.
pub const TOKEN_TEXT_BYTES: usize = PREFIX.len() + 16 + 64;

/// Length of the secret access key for S3 in hexadecimal digits.
const S3_SECRET_DIGITS: usize = 40;

/// A credential for clients that must not know the secret. It is never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub(super) id: u64,
    pub(super) key: MacKey,
}

/// The error for a text that is not a token. It shows nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidToken;

impl Token {
    /// Its number, which is not secret.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its text: `zht1-`, the number as 16 hexadecimal digits, the key as 64.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{PREFIX}{:016x}{}", self.id, hex(self.key.bytes()))
    }

    /// The secret access key with which a client of S3 signs: 40 hexadecimal digits. The token cannot be computed from it, so that it gives access
    /// only to gateways.
    #[must_use]
    pub fn s3_secret(&self) -> String {
        let mut digits = hex(self.key.derive(b"s3 1").bytes());
        digits.truncate(S3_SECRET_DIGITS);
        digits
    }

    /// Decodes the output of [`Token::text`], with or without surrounding white space.
    ///
    /// # Errors
    /// The text is not a token.
    pub fn from_text(text: &[u8]) -> Result<Token, InvalidToken> {
        let digits = text.trim_ascii().strip_prefix(PREFIX.as_bytes()).ok_or(InvalidToken)?;
        if digits.len() != 80 {
            return Err(InvalidToken);
        }
        let mut bytes = [0; 40];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        let (mut id, mut key) = ([0; 8], [0; 32]);
        id.copy_from_slice(&bytes[..8]);
        key.copy_from_slice(&bytes[8..]);
        Ok(Token { id: u64::from_be_bytes(id), key: MacKey::new(key) })
    }
}

fn digit(digit: u8) -> Result<u8, InvalidToken> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(InvalidToken),
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:016x}, not shown)", self.id)
    }
}

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "it is no token, which is a line that begins with zht1-: make one with `zerohop token new`",
        )
    }
}

impl std::error::Error for InvalidToken {}
