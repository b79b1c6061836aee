//! Rust text, split into code and comments, so that a rule about code is not broken by a string or a comment.
//!
//! This is not a parser. It knows only what hides text from the compiler: comments (also nested),
//! strings (also raw, byte and C strings), character literals, and how those differ from lifetimes.

/// The two parts of a Rust text. Both have the lines and columns of the original, in bytes; text of
/// the other part is blank.
#[derive(Debug, PartialEq, Eq)]
pub struct Split {
    /// The code, without text inside quotes.
    pub code: String,
    /// The comments, with their slashes.
    pub comments: String,
}

/// Splits `text`, which may be any text, not only Rust.
pub fn split(text: &str) -> Split {
    let bytes = text.as_bytes();
    let mut code = blank(bytes);
    let mut comments = code.clone();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if let Some(length) = comment(rest) {
            comments[at..at + length].copy_from_slice(&rest[..length]);
            at += length;
        } else if let Some(length) = literal(bytes, at) {
            at += length;
        } else {
            code[at] = bytes[at];
            at += 1;
        }
    }
    Split { code: utf8(code), comments: utf8(comments) }
}

/// Whether `line` has `word` with no letter, digit or underscore on either side.
pub fn has_word(line: &str, word: &str) -> bool {
    let stands_alone = |at: usize| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    };
    !word.is_empty() && line.match_indices(word).any(|(at, _)| stands_alone(at))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn blank(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }).collect()
}

/// Every copied piece begins and ends beside an ASCII byte, so no character is split.
fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The length of the comment at the start of `rest`.
fn comment(rest: &[u8]) -> Option<usize> {
    if rest.starts_with(b"//") {
        return Some(rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with(b"/*") {
        return None;
    }
    let (mut depth, mut at) = (1, 2);
    while depth > 0 && at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += 1;
        }
    }
    Some(at)
}

/// The length of the string or character literal that begins at `at`, with its quotes and prefix.
fn literal(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    match rest.first()? {
        b'"' => Some(1 + until_quote(&rest[1..], b'"')),
        b'\'' => character(rest),
        b'r' | b'b' | b'c' if !at.checked_sub(1).is_some_and(|before| is_word_byte(bytes[before])) => {
            let prefix = rest.iter().take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
            if prefix > 2 || rest[prefix - 1] != b'r' {
                return None; // b"…" and c"…" are met again at their quote
            }
            let hashes = rest[prefix..].iter().take_while(|&&byte| byte == b'#').count();
            let body = prefix + hashes;
            (rest.get(body) == Some(&b'"')).then(|| body + 1 + until_raw_end(&rest[body + 1..], hashes))
        }
        _ => None,
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The number of bytes up to and including the closing `quote`.
fn until_quote(body: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < body.len() {
        match body[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    body.len()
}

fn until_raw_end(body: &[u8], hashes: usize) -> usize {
    let mut at = 0;
    while at < body.len() {
        if body[at] == b'"'
            && body[at + 1..].iter().take(hashes).filter(|&&byte| byte == b'#').count() == hashes
        {
            return at + 1 + hashes;
        }
        at += 1;
    }
    body.len()
}

/// The length of a character literal; `None` for a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return Some(1 + until_quote(&rest[1..], b'\''));
    }
    let width = match rest.get(1)? {
        0x00..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn code_of(text: &str, code: &str) {
        let split = split(text);
        let words: Vec<&str> = split.code.split_whitespace().collect();
        assert_eq!(words.join(" "), code, "{text}");
    }

    #[test]
    fn comments_are_not_code() {
        code_of("a // b\nc", "a c");
        code_of("a /* b /* c */ d\n*/ e", "a e");
        code_of("a /* never closed", "a");
    }

    #[test]
    fn string_contents_are_neither_code_nor_comment() {
        code_of(r#"a("b \" // c", d)"#, "a( , d)");
        code_of(r###"a(r#"b " c"#, d)"###, "a( , d)");
        code_of(r##"a(br"\", cr#"x"#, b"y", c"z")"##, "a( , , b , c )");
        code_of("a(\"// b\nc\") // d", "a( )");
        code_of("\"never closed", "");
    }

    #[test]
    fn characters_are_literals_and_lifetimes_are_code() {
        code_of("f('\"', '\\'', 'é', b'x') // c", "f( , , , b )");
        code_of("fn f<'a>(x: &'a str) -> &'static str {}", "fn f<'a>(x: &'a str) -> &'static str {}");
        code_of("var\"x\" r#type number\"y\"", "var r#type number");
    }

    #[test]
    fn code_and_comments_keep_lines_and_columns() {
        let text = "let é = 'é'; // é\n/* x\n */ let b = \"é\nc\";\n";
        let split = split(text);
        assert_eq!(split.code.len(), text.len());
        assert_eq!(split.comments.len(), text.len());
        assert_eq!(split.comments.lines().next().map(str::trim), Some("// é"));
        assert_eq!(split.code.lines().count(), text.lines().count());
    }

    #[test]
    fn word_matches_only_as_whole_identifier() {
        assert!(has_word("let x = unsafe { y };", "unsafe"));
        assert!(!has_word("#![allow(unsafe_code)]", "unsafe"));
        assert!(has_word("use serde_json::Value;", "serde_json"));
        assert!(!has_word("use serde_json::Value;", "serde"));
    }
}
