//! Foreign bytes in sentences and tables: names, paths and arguments, as text that neither controls a terminal nor breaks a line.
//!
//! Control characters (C0, DEL, C1), bidirectional marks, the line and paragraph separators and bytes that are not UTF-8 are written as
//! escapes, byte by byte: `\n`, `\t`, `\xNN`. A backslash is doubled. `printf '%b'` and the double quotes of `zerohop txn` read all of this.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A name inside a sentence or a table.
#[must_use]
pub fn shown(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.contains(|one| one == '\\' || is_unsafe(one)) => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(name)),
    }
}

/// The same in double quotes; a double quote inside is escaped too.
#[must_use]
pub fn quoted(name: &[u8]) -> String {
    format!("\"{}\"", shown(name).replace('"', "\\\""))
}

/// The path of a file or folder inside a sentence.
#[must_use]
pub fn shown_path(path: &Path) -> Cow<'_, str> {
    shown(path.as_os_str().as_bytes())
}

/// Whether the character may control a terminal, or end a line.
#[must_use]
pub fn is_unsafe(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The bytes with all escapes.
#[must_use]
pub fn escaped(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len() + 16);
    for chunk in name.utf8_chunks() {
        for one in chunk.valid().chars() {
            match one {
                '\\' => out.push_str("\\\\"),
                one if is_unsafe(one) => escape(&mut out, one),
                one => out.push(one),
            }
        }
        chunk.invalid().iter().for_each(|byte| hex(&mut out, *byte));
    }
    out
}

/// Appends the escape of a character.
pub fn escape(out: &mut String, one: char) {
    match one {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        one => one.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| hex(out, byte)),
    }
}

fn hex(out: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_bytes_are_displayed_escaped() {
        for (name, text) in [
            (&b"plain name"[..], "plain name"),
            ("größe 大".as_bytes(), "größe 大"),
            (b"two\nlines\tand\r", "two\\nlines\\tand\\x0d"),
            (b"\x1b[2J\x7f", "\\x1b[2J\\x7f"),
            ("c1\u{9b}31m".as_bytes(), "c1\\xc2\\x9b31m"),
            ("bidi\u{202e}txt\u{2028}".as_bytes(), "bidi\\xe2\\x80\\xaetxt\\xe2\\x80\\xa8"),
            (b"latin \xe9", "latin \\xe9"),
            (b"C:\\new", "C:\\\\new"),
        ] {
            assert_eq!(shown(name), text);
            assert_eq!(quoted(name), format!("\"{text}\""));
        }
        assert_eq!(quoted(b"say \"x\""), "\"say \\\"x\\\"\"");
        assert_eq!(shown_path(Path::new("/tmp/a\nb")), "/tmp/a\\nb");
    }
}
