//! Colours of the verdicts in reports, on a terminal.

use std::env;
use std::io::{IsTerminal, stdout};

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";

/// The words at the beginning of a line that are coloured.
const VERDICTS: [(&str, &str); 8] = [
    ("OK", GREEN),
    ("ok", GREEN),
    ("WARNING", YELLOW),
    ("PROBLEM", RED),
    ("TROUBLE", RED),
    ("NO QUORUM", RED),
    ("NO PRIMARY", RED),
    ("NO ANSWER", RED),
];

/// Whether standard output is a terminal that has colours, and the user has not set `NO_COLOR`.
pub(crate) fn are_wanted() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    stdout().is_terminal() && !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|kind| kind != "dumb")
}

/// The text with coloured verdicts.
pub(crate) fn of_verdicts(text: &str) -> String {
    text.split_inclusive('\n').map(line).collect()
}

fn line(text: &str) -> String {
    let words = text.trim_start();
    let indent = &text[..text.len() - words.len()];
    let found = VERDICTS
        .iter()
        .find(|(verdict, _)| words.strip_prefix(verdict).is_some_and(|rest| rest.starts_with([':', ' '])));
    match found {
        Some((verdict, colour)) => {
            format!("{indent}\x1b[{colour}m{verdict}\x1b[0m{}", &words[verdict.len()..])
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_verdict_of_a_line_is_coloured() {
        assert_eq!(
            of_verdicts("OK: 1 of 1 node is up\n  instance 1: a\n"),
            "\x1b[32mOK\x1b[0m: 1 of 1 node is up\n  instance 1: a\n"
        );
        assert_eq!(of_verdicts("  TROUBLE: full"), "  \x1b[31mTROUBLE\x1b[0m: full");
        assert_eq!(of_verdicts("NO QUORUM: 1"), "\x1b[31mNO QUORUM\x1b[0m: 1");
        for plain in ["OKAY: x", "keyspace WARNING: 1", "", "okay"] {
            assert_eq!(of_verdicts(plain), plain);
        }
    }
}
