//! The separators of an ordered keyspace, as an argument and as output.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde::{Serialize, Serializer};
use zerohop_placement::Separators;

use crate::common::display::JsonKey;
use crate::common::ending::CommandError;
use crate::common::names;

/// So many are printed in a line of text.
const SHOWN_MAX: usize = 4;

/// A separator in JSON: an object with the key as `scan` prints it.
#[derive(Debug)]
pub(super) struct SeparatorOutput(pub(super) Vec<u8>);

impl AsRef<[u8]> for SeparatorOutput {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Serialize for SeparatorOutput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        JsonKey(&self.0).serialize(serializer)
    }
}

/// Where a keyspace is divided, in words.
pub(crate) fn divided_at(separators: &[impl AsRef<[u8]>]) -> String {
    let shown: Vec<String> =
        separators.iter().take(SHOWN_MAX).map(|one| names::quoted(one.as_ref())).collect();
    let rest = separators.len().saturating_sub(SHOWN_MAX);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("divided at {}{more}", shown.join(", "))
}

/// The separators of an option: each occurrence has one or more, with commas between them.
pub(crate) fn read_keys(option: &str, arguments: Vec<OsString>) -> Result<Vec<Vec<u8>>, CommandError> {
    let mut keys = Vec::new();
    for argument in arguments {
        keys.extend(keys_of(&argument.into_vec()).map_err(CommandError::Usage)?);
    }
    match Separators::new(&keys) {
        Ok(_) => Ok(keys),
        Err(error) => Err(CommandError::Usage(format!("{option}: {error}"))),
    }
}

/// The keys in a text. `\\`, `\,`, `\n`, `\t` and `\xNN` stand for a byte.
fn keys_of(mut text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut keys = vec![Vec::new()];
    while let [first, after @ ..] = text {
        let (byte, rest) = match (first, after) {
            (b',', _) => {
                keys.push(Vec::new());
                text = after;
                continue;
            }
            (b'\\', [b'x', high, low, rest @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let byte = digit(high).zip(digit(low)).map(|(high, low)| (high * 16 + low) as u8);
                (byte.ok_or("--split-at: behind \\x stand two hexadecimal digits")?, rest)
            }
            (b'\\', [b'n', rest @ ..]) => (b'\n', rest),
            (b'\\', [b't', rest @ ..]) => (b'\t', rest),
            (b'\\', [escaped @ (b'\\' | b','), rest @ ..]) => (*escaped, rest),
            (b'\\', _) => {
                return Err("--split-at: a backslash stands before \\, a comma, n, t or xNN".to_owned());
            }
            (byte, rest) => (*byte, rest),
        };
        if let Some(last) = keys.last_mut() {
            last.push(byte);
        }
        text = rest;
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Vec<Vec<u8>>, String> {
        let arguments = arguments.iter().map(OsString::from).collect();
        read_keys("--split-at", arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_divided_by_commas_and_may_have_any_bytes() {
        assert_eq!(read(&["b,m"]).unwrap(), [b"b", b"m"]);
        assert_eq!(read(&["b", "m,x"]).unwrap(), [b"b", b"m", b"x"], "several options");
        assert_eq!(read(&[r"a\,b\\,\x00\xff"]).unwrap_err().matches("is below").count(), 1);
        assert_eq!(read(&[r"\x00\xff,\n,a\,b\\"]).unwrap(), [&b"\0\xff"[..], b"\n", b"a,b\\"]);
        for (bad, word) in [
            ("b,", "separator 2 is empty"),
            ("", "separator 1 is empty"),
            ("b,a", "is below"),
            ("b,b", "named twice"),
            (r"\q", "a backslash stands before"),
            (r"\x0g", "two hexadecimal digits"),
            (r"a\", "a backslash stands before"),
        ] {
            let message = read(&[bad]).unwrap_err();
            assert!(message.contains(word), "{bad}: {message}");
        }
    }

    #[test]
    fn few_separators_are_named_in_words() {
        let of = |count: u8| -> Vec<[u8; 1]> { (b'a'..b'a' + count).map(|key| [key]).collect() };
        assert_eq!(divided_at(&of(1)), "divided at \"a\"");
        assert!(divided_at(&of(4)).ends_with("\"c\", \"d\""));
        assert!(divided_at(&of(7)).ends_with("\"d\" and 3 more"));
    }
}
