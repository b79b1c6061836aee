//! The words of an inline command, with Redis' quoting.

/// The words of a line; `None` if a quote is not closed, or not followed by a space.
pub(crate) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        while let [first, tail @ ..] = rest {
            if !is_space(*first) {
                break;
            }
            rest = tail;
        }
        if rest.is_empty() {
            return Some(words);
        }
        words.push(next_word(&mut rest)?);
    }
}

/// White space in the C locale.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Removes one word from the front.
fn next_word(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut word = Vec::new();
    loop {
        match **rest {
            [] | [0, ..] => {
                // A zero byte ends the line, as in Redis.
                *rest = &[];
                return Some(word);
            }
            [space, ..] if is_space(space) => return Some(word),
            [b'"', ref tail @ ..] => {
                *rest = tail;
                double_quoted(rest, &mut word)?;
                return ends(rest).then_some(word);
            }
            [b'\'', ref tail @ ..] => {
                *rest = tail;
                single_quoted(rest, &mut word)?;
                return ends(rest).then_some(word);
            }
            [byte, ref tail @ ..] => {
                word.push(byte);
                *rest = tail;
            }
        }
    }
}

/// Whether a closing quote may stand here.
fn ends(rest: &[u8]) -> bool {
    rest.first().is_none_or(|&next| is_space(next) || next == 0)
}

fn double_quoted(rest: &mut &[u8], word: &mut Vec<u8>) -> Option<()> {
    loop {
        let (byte, tail) = match **rest {
            [b'"', ref tail @ ..] => {
                *rest = tail;
                return Some(());
            }
            [b'\\', b'x', high, low, ref tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (digit(high) << 4 | digit(low), tail)
            }
            [b'\\', escaped, ref tail @ ..] => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => other,
                };
                (byte, tail)
            }
            [byte, ref tail @ ..] if byte != 0 => (byte, tail),
            _ => return None,
        };
        word.push(byte);
        *rest = tail;
    }
}

fn single_quoted(rest: &mut &[u8], word: &mut Vec<u8>) -> Option<()> {
    loop {
        let (byte, tail) = match **rest {
            [b'\'', ref tail @ ..] => {
                *rest = tail;
                return Some(());
            }
            [b'\\', b'\'', ref tail @ ..] => (b'\'', tail),
            [byte, ref tail @ ..] if byte != 0 => (byte, tail),
            _ => return None,
        };
        word.push(byte);
        *rest = tail;
    }
}

fn digit(hexadecimal: u8) -> u8 {
    (hexadecimal as char).to_digit(16).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(line: &str) -> Option<Vec<String>> {
        split(line.as_bytes())
            .map(|words| words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    }

    #[test]
    fn words_are_split_and_unquoted_as_redis_does() {
        let cases: [(&str, &[&str]); 9] = [
            ("", &[]),
            ("  \t ", &[]),
            ("PING", &["PING"]),
            (" SET  a\tb ", &["SET", "a", "b"]),
            (r#"SET a "b c""#, &["SET", "a", "b c"]),
            (r#"SET a "\x41\n\"\q\xZZ""#, &["SET", "a", "A\n\"qxZZ"]),
            (r"SET a 'it\'s \n'", &["SET", "a", r"it's \n"]),
            (r#"SET a """#, &["SET", "a", ""]),
            (r#"SET a x"y z""#, &["SET", "a", "xy z"]),
        ];
        for (line, expected) in cases {
            assert_eq!(
                parse_words(line).as_deref(),
                Some(&expected.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()[..]),
                "{line}"
            );
        }
        for wrong in [r#"SET a "b"#, "SET a 'b", r#"SET a "b"c"#, "SET 'a'b", r#"SET a "b\"#] {
            assert_eq!(parse_words(wrong), None, "{wrong}");
        }
    }
}
