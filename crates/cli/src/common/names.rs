//! Names that may contain any bytes, as text that neither controls a terminal nor breaks a line.
//!
//! [`zerohop_wire::escaped`] has the escapes.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
pub(crate) use zerohop_wire::escaped::quoted;
use zerohop_wire::escaped::{escape, escaped, is_unsafe, shown, shown_path};

/// How names are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// On a terminal: everything but plain text is escaped, also a backslash and bytes that are not
    /// UTF-8.
    Terminal,
    /// For programs: unchanged, unless the name has a character that is escaped; a line never
    /// breaks inside a name.
    Line,
    /// Unchanged: a zero byte ends the name.
    Raw,
}

/// A name in this style.
pub(crate) fn display_name(name: &[u8], style: Style) -> Cow<'_, [u8]> {
    let is_escaped = match style {
        Style::Terminal => name.contains(&b'\\') || std::str::from_utf8(name).map_or(true, has_unsafe),
        Style::Line => name.utf8_chunks().any(|chunk| {
            has_unsafe(chunk.valid()) || chunk.invalid().iter().any(|byte| (0x80..0xa0).contains(byte))
        }),
        Style::Raw => false,
    };
    if is_escaped { Cow::Owned(escaped(name).into_bytes()) } else { Cow::Borrowed(name) }
}

/// A name inside a sentence or a table.
pub(crate) fn text(name: &[u8]) -> String {
    shown(name).into_owned()
}

/// The part of a key or name that an error repeats, as the client's errors do.
pub(crate) fn first_bytes(name: &[u8]) -> &[u8] {
    &name[..name.len().min(64)]
}

/// The same in quotes, inside a sentence.
pub(crate) fn beginning(name: &[u8]) -> String {
    quoted(first_bytes(name))
}

/// The path of a file or folder inside a sentence.
pub(crate) fn path(path: &Path) -> String {
    shown_path(path).into_owned()
}

/// The path of a file or folder, or another argument, inside a command that a user copies: in quotes where the shell needs them.
pub(crate) fn in_shell(path: &Path) -> String {
    let text = self::path(path);
    match text.chars().all(|one| one.is_ascii_alphanumeric() || "/._-+:@%=,".contains(one)) {
        true if !text.is_empty() => text,
        _ => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The command line of this process, as a user repeats it.
pub(crate) fn this_command() -> String {
    command_in_shell(std::env::args_os().skip(1))
}

fn command_in_shell(arguments: impl IntoIterator<Item = OsString>) -> String {
    arguments.into_iter().fold("zerohop".to_owned(), |command, argument| {
        format!("{command} {}", in_shell(Path::new(&argument)))
    })
}

/// Escapes what clap's error repeats of the arguments. The names of arguments are plain.
pub(crate) fn escape_arguments(error: &mut clap::Error) {
    let repeated: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(argument) if shown(argument.as_bytes()) != *argument => {
                Some((kind, text(argument.as_bytes())))
            }
            _ => None,
        })
        .collect();
    for (kind, argument) in repeated {
        error.insert(kind, ContextValue::String(argument));
        // A tip repeats the argument as it is.
        error.remove(ContextKind::Suggested);
    }
}

/// Text of the program itself: lines and tabs stay, and any other character that would control a
/// terminal is escaped. Parts of such text come from servers, files or arguments.
pub(crate) fn screened(text: &str) -> Cow<'_, str> {
    let is_escaped = |one: char| is_unsafe(one) && one != '\n' && one != '\t';
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for one in text.chars() {
        if is_escaped(one) { escape(&mut out, one) } else { out.push(one) }
    }
    Cow::Owned(out)
}

/// The same JSON text, with unsafe characters as JSON escapes; all of them are inside strings.
pub(crate) fn json(text: String) -> String {
    if !text.contains(is_unsafe) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for one in text.chars() {
        if is_unsafe(one) {
            // No such character is above 16 bits.
            let _ = write!(out, "\\u{:04x}", u32::from(one));
        } else {
            out.push(one);
        }
    }
    out
}

fn has_unsafe(text: &str) -> bool {
    text.contains(is_unsafe)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, with their forms for a terminal and for a pipe.
    const CASES: [(&[u8], &[u8], &[u8]); 14] = [
        (b"plain name", b"plain name", b"plain name"),
        ("größe 大".as_bytes(), "größe 大".as_bytes(), "größe 大".as_bytes()),
        (b"two\nlines", b"two\\nlines", b"two\\nlines"),
        (b"a\tb", b"a\\tb", b"a\\tb"),
        (b"\x1b]0;title\x07", b"\\x1b]0;title\\x07", b"\\x1b]0;title\\x07"),
        (b"zero\0del\x7f\r", b"zero\\x00del\\x7f\\x0d", b"zero\\x00del\\x7f\\x0d"),
        ("c1\u{9b}31m".as_bytes(), b"c1\\xc2\\x9b31m", b"c1\\xc2\\x9b31m"),
        ("bidi\u{202e}txt".as_bytes(), b"bidi\\xe2\\x80\\xaetxt", b"bidi\\xe2\\x80\\xaetxt"),
        (
            "\u{2066}\u{61c}\u{200f}".as_bytes(),
            b"\\xe2\\x81\\xa6\\xd8\\x9c\\xe2\\x80\\x8f",
            b"\\xe2\\x81\\xa6\\xd8\\x9c\\xe2\\x80\\x8f",
        ),
        ("p\u{2029}".as_bytes(), b"p\\xe2\\x80\\xa9", b"p\\xe2\\x80\\xa9"),
        // A byte that is a C1 control character in 8-bit terminals.
        (b"raw\x9b1m", b"raw\\x9b1m", b"raw\\x9b1m"),
        (b"latin \xe9", b"latin \\xe9", b"latin \xe9"),
        (b"C:\\new", b"C:\\\\new", b"C:\\new"),
        (b"C:\\new\n\xe9", b"C:\\\\new\\n\\xe9", b"C:\\\\new\\n\\xe9"),
    ];

    #[test]
    fn names_neither_rule_a_terminal_nor_break_a_line() {
        for (name, on_terminal, in_pipe) in CASES {
            let of = |style| display_name(name, style).into_owned();
            assert_eq!(of(Style::Terminal), on_terminal, "{name:?}");
            assert_eq!(of(Style::Line), in_pipe, "{name:?}");
            assert_eq!(of(Style::Raw), name);
        }
    }

    #[test]
    fn command_is_repeated_with_all_its_arguments() {
        let arguments = ["restore", "a b", "--as", "it's", "", "--replicas=2"].map(OsString::from);
        let command = command_in_shell(arguments);
        assert_eq!(command, "zerohop restore 'a b' --as 'it'\\''s' '' --replicas=2");
    }

    #[test]
    fn screened_text_keeps_lines_and_json_keeps_its_value() {
        assert_eq!(screened("a\tb\nc \u{1b}[2J\u{85}"), "a\tb\nc \\x1b[2J\\xc2\\x85");
        assert_eq!(screened("C:\\ größe"), "C:\\ größe");
        let name = "a\u{7f}\u{9b}\u{202e}b\n";
        let text = json(serde_json::to_string(name).unwrap());
        assert_eq!(text, "\"a\\u007f\\u009b\\u202eb\\n\"");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), name);
    }
}
