//! The screen of a terminal: a report that is drawn again and again must fit on it.

use std::io::stdout;

use rustix::termios::tcgetwinsize;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScreenSize {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl ScreenSize {
    /// The size of standard output; `None`: it is no terminal, or the terminal does not know its size.
    pub(crate) fn of_output() -> Option<ScreenSize> {
        let size = tcgetwinsize(stdout()).ok()?;
        let (rows, columns) = (usize::from(size.ws_row), usize::from(size.ws_col));
        (rows > 0 && columns > 0).then_some(ScreenSize { rows, columns })
    }

    /// The first lines of a text for which there is room above so many other rows, and the number of lines that are left out.
    pub(crate) fn clip(self, text: &str, rows_below: usize) -> (String, usize) {
        let mut room = self.rows.saturating_sub(rows_below);
        let is_shown = |line: &&str| {
            // A line that is longer than a row continues in the next one.
            let rows = line.chars().count().div_ceil(self.columns).max(1);
            let fits = rows <= room;
            room = room.saturating_sub(rows);
            fits
        };
        let shown: Vec<&str> = text.lines().take_while(is_shown).collect();
        let left_out = text.lines().count() - shown.len();
        (shown.iter().flat_map(|line| [line, "\n"]).collect(), left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_clipped_to_the_rows_that_its_lines_take() {
        let clip = |rows, text| ScreenSize { rows, columns: 4 }.clip(text, 2);
        assert_eq!(clip(5, "a\nb\nc\n"), ("a\nb\nc\n".to_owned(), 0));
        assert_eq!(clip(4, "a\nb\nc\n"), ("a\nb\n".to_owned(), 1));
        // Two rows, then one of no characters.
        assert_eq!(clip(5, "12345\n\nc\n"), ("12345\n\n".to_owned(), 1));
        assert_eq!(clip(4, "1234\n12345\nc\n"), ("1234\n".to_owned(), 2));
        assert_eq!(clip(1, "a\nb"), (String::new(), 2));
    }
}
