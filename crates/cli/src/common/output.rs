//! The output of the program: results on standard output, everything else on standard error. No
//! other module prints.
//!
//! Names are printed by [`NameList`]. All other text passes [`names::screened`], so that it cannot
//! control a terminal; only the contents of records, messages and blobs are
//! [`raw`] ([`ContentsList`]).
//!
//! If the reader is gone (`zerohop … | head`), the command ends quietly; any other failure to write
//! the output is an error like others. Once a command has changed something ([`note_done`]), each
//! failure to write is an error that says so.

use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;

use super::colours;
use super::ending::CommandError;
use super::names::{self, Style};

/// Prints a result: one or more lines of text.
pub(crate) fn result(text: &str) -> Result<(), CommandError> {
    raw(&[names::screened(text).as_bytes(), b"\n"])
}

/// Prints a report: the words of its verdicts are coloured on a terminal.
pub(crate) fn report(text: &str) -> Result<(), CommandError> {
    let text = report_text(text);
    raw(&[text.as_bytes(), b"\n"])
}

/// The text of a report, for [`raw`].
pub(crate) fn report_text(text: &str) -> String {
    let text = names::screened(text);
    if colours::are_wanted() { colours::of_verdicts(&text) } else { text.into_owned() }
}

/// A list of names: the style of each, and its terminator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameList(Style);

impl NameList {
    /// For this standard output; `null`: unchanged, with a zero byte behind each.
    pub(crate) fn new(null: bool) -> NameList {
        NameList(match null {
            true => Style::Raw,
            false if is_terminal() => Style::Terminal,
            false => Style::Line,
        })
    }

    /// Appends a name, a mark unless names are printed raw, and the terminator.
    pub(crate) fn add(self, out: &mut Vec<u8>, name: &[u8], mark: &str) {
        out.extend_from_slice(&names::display_name(name, self.0));
        if self.0 == Style::Raw {
            out.push(0);
        } else {
            out.extend_from_slice(mark.as_bytes());
            out.push(b'\n');
        }
    }

    /// Appends a name, a tab, its value, and the terminator. A tab inside either is escaped, unless names are printed raw.
    pub(crate) fn add_with_value(self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        out.extend_from_slice(&names::display_name(name, self.0));
        out.push(b'\t');
        self.add(out, value, "");
    }
}

/// Contents of records of a log or messages of a queue, one a line: on a terminal they are escaped as names are, and for programs they
/// are as they are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentsList(Style);

impl ContentsList {
    /// For this standard output.
    pub(crate) fn new() -> ContentsList {
        ContentsList(if is_terminal() { Style::Terminal } else { Style::Raw })
    }

    /// Appends the contents of one and a line feed.
    pub(crate) fn add(self, out: &mut Vec<u8>, contents: &[u8]) {
        out.extend_from_slice(&names::display_name(contents, self.0));
        out.push(b'\n');
    }
}

/// Prints a result as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), CommandError> {
    result(&json_text(value))
}

/// Prints a list as one line of JSON for each element; an empty list has no line.
pub(crate) fn json_lines<T: Serialize>(values: impl IntoIterator<Item = T>) -> Result<(), CommandError> {
    let mut out = String::new();
    for value in values {
        out.push_str(&json_text(&value));
        out.push('\n');
    }
    raw(&[out.as_bytes()])
}

/// The JSON text of a value. Values here are numbers and text, which JSON can always express. The
/// text cannot control a terminal.
pub(crate) fn json_text(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value);
    names::json(text.unwrap_or_else(|error| format!("{{\"error\": {:?}}}", error.to_string())))
}

/// Whether something was printed on standard output.
static HAS_RESULT: AtomicBool = AtomicBool::new(false);

/// Whether the command has printed a result, or a part of it.
pub(crate) fn has_result() -> bool {
    HAS_RESULT.load(Ordering::Relaxed)
}

/// What the command has done, if it has changed something.
static DONE: OnceLock<&'static str> = OnceLock::new();

/// The subject of a change of records or blobs.
pub(crate) const WRITE: &str = "the write";

/// The subject of any other change.
pub(crate) const COMMAND: &str = "the command";

/// Notes that the command has changed something: from now on, a result that cannot be printed is an
/// error which says that this is done.
pub(crate) fn note_done(what: &'static str) {
    // A command has one subject, so that a second call has the same.
    let _ = DONE.set(what);
}

/// Whether the command has changed something, and has an answer that says so.
pub(crate) fn is_done() -> bool {
    DONE.get().is_some()
}

/// Writes bytes unchanged, and flushes.
pub(crate) fn raw(pieces: &[&[u8]]) -> Result<(), CommandError> {
    if pieces.iter().any(|piece| !piece.is_empty()) {
        HAS_RESULT.store(true, Ordering::Relaxed);
    }
    let mut out = stdout().lock();
    let written = pieces.iter().try_for_each(|piece| out.write_all(piece)).and_then(|()| out.flush());
    written.map_err(|error| failed(&error))
}

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Prints something the user must know beside the result, in place of the status line if there is one. A failure to print it is
/// ignored.
pub(crate) fn problem(text: &str) {
    print_problem(&mut status_line(), text);
}

/// The same; no status line is drawn after it.
pub(crate) fn last_problem(text: &str) {
    let mut is_shown = status_line();
    print_problem(&mut is_shown, text);
    std::mem::forget(is_shown);
}

fn print_problem(is_shown: &mut bool, text: &str) {
    let before = if std::mem::take(is_shown) { ERASE_LINE } else { "" };
    drop(write_at_once(&mut stderr(), before, text, "\n"));
}

/// Prints a question to the user, and leaves the cursor behind it.
pub(crate) fn prompt(text: &str) {
    drop(write_at_once(&mut stderr(), "", text, ""));
}

/// Writes screened text with one call: standard error has no buffer, and a program that is killed between two calls leaves a part of
/// a line.
fn write_at_once(out: &mut impl Write, before: &str, text: &str, behind: &str) -> io::Result<()> {
    out.write_all([before, &names::screened(text), behind].concat().as_bytes())
}

fn failed(error: &io::Error) -> CommandError {
    match (DONE.get(), error.kind()) {
        (Some(what), _) => CommandError::Unprinted { what, reason: error.to_string() },
        (None, ErrorKind::BrokenPipe) => CommandError::OutputClosed,
        (None, _) => CommandError::system("writing", Path::new("standard output"), error),
    }
}

/// Whether the terminal has a status line. Who holds it may write to standard error.
static STATUS_LINE: Mutex<bool> = Mutex::new(false);

fn status_line() -> MutexGuard<'static, bool> {
    STATUS_LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the line of the terminal again.
const ERASE_LINE: &str = "\r\x1b[K";

/// A line that is redrawn while work goes on; only on a terminal.
#[derive(Debug)]
pub(crate) struct StatusLine {
    is_terminal: bool,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        StatusLine { is_terminal: stderr().is_terminal() }
    }

    /// Whether a user sees the line.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub(crate) fn show(&self, text: &str) {
        if self.is_terminal {
            let mut is_shown = status_line();
            *is_shown = true;
            drop(write_at_once(&mut stderr(), ERASE_LINE, text, ""));
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        // If nothing was drawn, the line may have a result, which must stay.
        if std::mem::take(&mut *status_line()) {
            drop(write_at_once(&mut stderr(), ERASE_LINE, "", ""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that were written, one for each call.
    #[derive(Default)]
    struct WrittenPieces(Vec<Vec<u8>>);

    impl Write for WrittenPieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn contents_are_escaped_only_on_a_terminal() {
        let of = |style| {
            let mut out = Vec::new();
            ContentsList(style).add(&mut out, b"a\x1b[2J\xff\\");
            out
        };
        assert_eq!(of(Style::Terminal), b"a\\x1b[2J\\xff\\\\\n");
        assert_eq!(of(Style::Raw), b"a\x1b[2J\xff\\\n");
    }

    #[test]
    fn line_is_written_with_one_call() {
        let mut out = WrittenPieces::default();
        write_at_once(&mut out, "\r\x1b[K", "waiting: \x07", "\n").unwrap();
        assert_eq!(out.0, [b"\r\x1b[Kwaiting: \\x07\n".to_vec()]);
    }
}
