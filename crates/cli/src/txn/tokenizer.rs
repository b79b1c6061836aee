//! Splits lines of a transaction into words, as shells do: blanks separate them, quotes join them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The words of a line; an empty line has none, and a `#` at the beginning of a word starts a
/// comment. Within double quotes `\"`, `\\`, `\n`, `\t` and `\xNN` stand for a byte; within single
/// quotes every byte stands for itself.
pub(super) fn split_words(line: &[u8]) -> Result<Vec<OsString>, String> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        match rest {
            [] | [b'#', ..] => return Ok(words),
            _ => {
                let (word, after) = next_word(rest)?;
                words.push(OsString::from_vec(word));
                rest = after;
            }
        }
    }
}

fn next_word(line: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let mut word = Vec::new();
    let mut rest = line;
    while let [first, after @ ..] = rest {
        match first {
            b'\'' => {
                let end = after.iter().position(|byte| *byte == b'\'').ok_or("a quote is not closed")?;
                word.extend_from_slice(&after[..end]);
                rest = &after[end + 1..];
            }
            b'"' => rest = quoted(after, &mut word)?,
            byte if byte.is_ascii_whitespace() => break,
            byte => {
                word.push(*byte);
                rest = after;
            }
        }
    }
    Ok((word, rest))
}

/// Parses the rest of a word in double quotes; returns what is behind it.
fn quoted<'l>(mut rest: &'l [u8], word: &mut Vec<u8>) -> Result<&'l [u8], String> {
    loop {
        rest = match rest {
            [] => return Err("a quote is not closed".to_owned()),
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..] => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let byte = digit(high).zip(digit(low)).map(|(high, low)| (high * 16 + low) as u8);
                word.push(byte.ok_or("behind \\x stand two hexadecimal digits")?);
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'"' | b'\\' => *escaped,
                    _ => return Err("a backslash stands before \", \\, n, t or xNN".to_owned()),
                });
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Vec<Vec<u8>>, String> {
        Ok(split_words(line.as_bytes())?.into_iter().map(OsString::into_vec).collect())
    }

    #[test]
    fn quoted_words_may_contain_blanks_and_escaped_bytes() {
        let words = of(r#"  insert "a \"key\"" 'a \value' x"y z"'!'  # and so on"#).unwrap();
        assert_eq!(words, [&b"insert"[..], b"a \"key\"", b"a \\value", b"xy z!"]);
        assert_eq!(of(r#""\x00\xff\n\t\\" """#).unwrap(), [&b"\x00\xff\n\t\\"[..], b""]);
        assert_eq!(of("# nothing").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(of("a#b").unwrap(), [b"a#b"]);
        for bad in ["\"open", "'open", r#""\q""#, r#""\x0g""#, r#""\"#] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
