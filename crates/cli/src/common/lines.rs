//! The lines of standard input, as they come.

use std::io::{BufRead, BufReader, IsTerminal, Read, stdin};
use std::path::Path;

use tokio::sync::mpsc;

use super::ending::CommandError;
use crate::output;

/// The bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
/// Groups that are read ahead.
const GROUPS_AHEAD: usize = 4;

/// Says on a terminal what to type: a record or a message.
pub(crate) fn prompt(what: &str) {
    if stdin().is_terminal() {
        output::problem(&format!(
            "Type one {what} a line; Ctrl-D at the beginning of a line ends the input."
        ));
    }
}

/// The lines of standard input, without their ends. Lines that are there together are one group. Of a line that is longer than
/// `line_max` only the beginning is passed on, which is longer too.
pub(crate) fn of_standard_input(line_max: usize) -> mpsc::Receiver<Result<Vec<Vec<u8>>, CommandError>> {
    let (sender, groups) = mpsc::channel(GROUPS_AHEAD);
    #[expect(clippy::disallowed_methods, reason = "standard input has no other way to be waited for")]
    std::thread::spawn(move || {
        let mut lines = LineGroups::new(stdin(), line_max);
        while let Some(group) = lines.next() {
            let is_end = group.is_err();
            if sender.blocking_send(group).is_err() || is_end {
                return;
            }
        }
    });
    groups
}

struct LineGroups<R> {
    input: BufReader<R>,
    line_max: usize,
    /// The beginning of a line whose end is not there.
    begun: Vec<u8>,
}

impl<R: Read> LineGroups<R> {
    fn new(input: R, line_max: usize) -> Self {
        Self { input: BufReader::with_capacity(READ_BYTES, input), line_max, begun: Vec::new() }
    }

    fn next(&mut self) -> Option<Result<Vec<Vec<u8>>, CommandError>> {
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Some(Err(CommandError::system("reading", Path::new("standard input"), &error)));
                }
            };
            if bytes.is_empty() {
                let last = std::mem::take(&mut self.begun);
                return (!last.is_empty()).then(|| Ok(vec![last]));
            }
            let mut group = Vec::new();
            for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                let (part, is_end) = part.strip_suffix(b"\n").map_or((part, false), |part| (part, true));
                if self.begun.len() <= self.line_max {
                    self.begun.extend_from_slice(part);
                }
                if is_end {
                    group.push(std::mem::take(&mut self.begun));
                }
            }
            let read = bytes.len();
            self.input.consume(read);
            if !group.is_empty() {
                return Some(Ok(group));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_their_ends_and_the_last_one_needs_none() {
        let of = |text: &[u8]| {
            let mut lines = LineGroups::new(text, 5);
            let mut all = Vec::new();
            while let Some(group) = lines.next() {
                all.extend(group.unwrap());
            }
            all
        };
        assert_eq!(of(b"a\n\nbc"), [&b"a"[..], b"", b"bc"]);
        assert_eq!(of(b"a\n"), [b"a"]);
        assert_eq!(of(b""), Vec::<Vec<u8>>::new());
        assert_eq!(of(b"a\r\n"), [b"a\r"]);
        assert!(of(b"1234567890\nb")[0].len() > 5);
    }
}
