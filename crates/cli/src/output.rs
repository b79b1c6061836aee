//! What the program says: results on standard output, all else on standard error. Nothing else here prints.
//!
//! Names are printed by [`NameList`]. Whatever else is text passes [`names::screened`], so that no part of it rules a terminal; only
//! the contents of records and blobs are [`raw`].
//!
//! That nobody reads any more (`zerohop … | head`) ends the command, quietly; that the output could not be written for
//! another reason is an error like any other.

use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::common::ending::CommandError;
use crate::common::names::{self, Style};

/// A result: a line of text, or several.
pub(crate) fn result(text: &str) -> Result<(), CommandError> {
    raw(&[names::screened(text).as_bytes(), b"\n"])
}

/// A list of names: how each is written, and what ends it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameList(Style);

impl NameList {
    /// For this standard output; `null`: as they are, with a zero byte behind each.
    pub(crate) fn new(null: bool) -> NameList {
        NameList(match null {
            true => Style::Raw,
            false if is_terminal() => Style::Terminal,
            false => Style::Line,
        })
    }

    /// Adds a name, a mark unless names are printed as they are, and the end.
    pub(crate) fn add(self, out: &mut Vec<u8>, name: &[u8], mark: &str) {
        out.extend_from_slice(&names::shown(name, self.0));
        if self.0 == Style::Raw {
            out.push(0);
        } else {
            out.extend_from_slice(mark.as_bytes());
            out.push(b'\n');
        }
    }
}

/// A result as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), CommandError> {
    result(&json_text(value))
}

/// A list: a line of JSON for each, and none for an empty one.
pub(crate) fn json_lines<T: Serialize>(values: impl IntoIterator<Item = T>) -> Result<(), CommandError> {
    let mut out = String::new();
    for value in values {
        out.push_str(&json_text(&value));
        out.push('\n');
    }
    raw(&[out.as_bytes()])
}

/// What is printed here is numbers and text: there is nothing in it that JSON cannot say. Nothing in it rules a terminal.
pub(crate) fn json_text(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value);
    names::json(text.unwrap_or_else(|error| format!("{{\"error\": {:?}}}", error.to_string())))
}

/// Bytes as they are, at once.
pub(crate) fn raw(pieces: &[&[u8]]) -> Result<(), CommandError> {
    let mut out = stdout().lock();
    let written = pieces.iter().try_for_each(|piece| out.write_all(piece)).and_then(|()| out.flush());
    written.map_err(|error| failed(&error))
}

/// Whether a person sees the results, rather than a program or a file.
pub(crate) fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Something the user must know beside the result. That nobody listens is no reason to fail.
pub(crate) fn problem(text: &str) {
    drop(writeln!(stderr(), "{}", names::screened(text)));
}

/// A question to the user, whose answer goes behind it.
pub(crate) fn prompt(text: &str) {
    drop(write!(stderr(), "{}", names::screened(text)));
}

fn failed(error: &io::Error) -> CommandError {
    match error.kind() {
        ErrorKind::BrokenPipe => CommandError::OutputClosed,
        _ => CommandError::system("writing", Path::new("standard output"), error),
    }
}

/// A line that is drawn over and over while work goes on; only on a terminal.
#[derive(Debug)]
pub(crate) struct StatusLine {
    is_terminal: bool,
    /// Something stands there.
    is_shown: AtomicBool,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        StatusLine { is_terminal: stderr().is_terminal(), is_shown: AtomicBool::new(false) }
    }

    pub(crate) fn show(&self, text: &str) {
        if self.is_terminal {
            self.is_shown.store(true, Ordering::Relaxed);
            drop(write!(stderr(), "\r\x1b[K{}", names::screened(text)));
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        // A result may stand on the line where nothing was shown.
        if self.is_shown.load(Ordering::Relaxed) {
            self.show("");
        }
    }
}
