//! What the program says: results on standard output, all else on standard error. Nothing else here prints.
//!
//! That nobody listens any more (`zerohop … | head`) is no reason to fail: errors of writing are passed over.

use std::io::{IsTerminal, Write, stderr, stdout};

/// A result.
pub(crate) fn result(text: &str) {
    drop(writeln!(stdout(), "{text}"));
}

/// Something the user must know beside the result.
pub(crate) fn problem(text: &str) {
    drop(writeln!(stderr(), "{text}"));
}

/// A line that is drawn over and over while work goes on; only on a terminal.
#[derive(Debug)]
pub(crate) struct StatusLine {
    is_terminal: bool,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        StatusLine { is_terminal: stderr().is_terminal() }
    }

    pub(crate) fn show(&self, text: &str) {
        if self.is_terminal {
            drop(write!(stderr(), "\r\x1b[K{text}"));
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.show("");
    }
}
