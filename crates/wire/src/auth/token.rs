//! Tokens: a number, and a key that is made of it and the secret. Nothing of a token need be kept anywhere to know it again.

use std::fmt;

use super::mac::{MacKey, hex};

/// What a token's text begins with.
const PREFIX: &str = "zht1-";

/// Bytes of a token's text.
pub const TOKEN_TEXT_BYTES: usize = PREFIX.len() + 16 + 64;

/// What somebody is given who is to know no secret. It shows itself nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub(super) id: u64,
    pub(super) key: MacKey,
}

/// A text that is no token. It says nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAToken;

impl Token {
    /// Its number, which is no secret.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its text: `zht1-`, the number as 16 hexadecimal digits, the key as 64.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{PREFIX}{:016x}{}", self.id, hex(self.key.bytes()))
    }

    /// Reads what [`Token::text`] wrote, with white space around it.
    ///
    /// # Errors
    /// It is something else.
    pub fn from_text(text: &[u8]) -> Result<Token, NotAToken> {
        let digits = text.trim_ascii().strip_prefix(PREFIX.as_bytes()).ok_or(NotAToken)?;
        if digits.len() != 80 {
            return Err(NotAToken);
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

fn digit(digit: u8) -> Result<u8, NotAToken> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NotAToken),
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:016x}, not shown)", self.id)
    }
}

impl fmt::Display for NotAToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "it is no token, which is a line that begins with zht1-: make one with `zerohop token new`",
        )
    }
}

impl std::error::Error for NotAToken {}
