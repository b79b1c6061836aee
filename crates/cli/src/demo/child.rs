//! The process that is killed: stores the files and tells on standard output, line by line, what was acknowledged.
//!
//! ```text
//! stored BYTES CHECKSUM PATH    a file was acknowledged; checksum and path in hexadecimal
//! alive                         a part of a large file was
//! all                           all were; now it waits to be killed
//! failed WORDS                  it cannot go on
//! ```
//!
//! A line without its line feed was cut by the kill and does not count.

use std::io::{Read, Write, stdin, stdout};
use std::path::Path;

use zerohop::Store;

use super::error::DemoError;
use super::load::{Listener, Stored, load};
use super::source::Source;
use super::store_options;
use crate::arguments::DemoChildArguments;
use crate::common::ending::{CommandError, Ending};

/// The folder of its store in the demo's work folder.
pub(super) const FOLDER: &str = "killed";

/// The list of the files that it is to store, there too: what the folder holds may change meanwhile.
pub(super) const LIST_FILE: &str = "files-to-store";

/// A line of the child, as its parent understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Stored(Stored),
    Alive,
    All,
    Failed(String),
}

/// Runs as the child, until it is killed or its parent is gone.
pub(crate) fn run_child(arguments: &DemoChildArguments) -> Result<Ending, CommandError> {
    // The parent holds the other end as long as it lives: a child is never left behind.
    std::thread::scope(|scope| {
        let parent = scope.spawn(|| {
            drop(stdin().read_to_end(&mut Vec::new()));
            std::process::exit(0);
        });
        let stored = store_all(&arguments.dir, &arguments.work);
        match &stored {
            Ok(_) => say(&Line::All),
            Err(error) => say(&Line::Failed(error.to_string())),
        }
        // The store stays open: closing would sync what the kill is to take away.
        drop(parent.join());
        Ok(stored.map(|_| Ending::Done)?)
    })
}

fn store_all(dir: &Path, work: &Path) -> Result<Store, DemoError> {
    let list = work.join(LIST_FILE);
    let source = Source::from_list(dir, &list)
        .map_err(|error| DemoError::system("reading the list of files", &list, &error))?;
    let opening = DemoError::store("opening the store of the child");
    let store = Store::open_with(work.join(FOLDER), &store_options()).map_err(opening)?;
    load(&store, &source, &Speaker).map(|_| store)
}

struct Speaker;

impl Listener for Speaker {
    fn stored(&self, files: &[Stored]) {
        files.iter().for_each(|file| say(&Line::Stored(file.clone())));
    }

    fn stored_parts(&self) {
        say(&Line::Alive);
    }
}

/// Says one line, at once. If nobody listens any more, the parent is gone, and so is this process in a moment.
fn say(line: &Line) {
    drop(stdout().lock().write_all(line.encode().as_bytes()));
}

impl Line {
    fn encode(&self) -> String {
        match self {
            Line::Stored(Stored { path, bytes, checksum }) => {
                let path: String = path.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("stored {bytes} {checksum:016x} {path}\n")
            }
            Line::Alive => "alive\n".to_owned(),
            Line::All => "all\n".to_owned(),
            Line::Failed(words) => format!("failed {}\n", words.replace('\n', " ")),
        }
    }

    /// A line without its line feed.
    pub(super) fn decode(line: &str) -> Option<Line> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "stored" => {
                let mut fields = rest.split(' ');
                let bytes = fields.next()?.parse().ok()?;
                let checksum = u64::from_str_radix(fields.next()?, 16).ok()?;
                let path = decode_path(fields.next()?)?;
                fields.next().is_none().then_some(Line::Stored(Stored { path, bytes, checksum }))
            }
            "alive" => Some(Line::Alive),
            "all" => Some(Line::All),
            "failed" => Some(Line::Failed(rest.to_owned())),
            _ => None,
        }
    }
}

fn decode_path(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).ok().filter(|d| d.len() == 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_through_as_they_were_said() {
        let stored = Stored { path: b"a \xff\n\0".to_vec(), bytes: 7, checksum: 0x0123 };
        for line in [Line::Stored(stored), Line::Alive, Line::All, Line::Failed("two words".to_owned())] {
            let text = line.encode();
            assert_eq!(Line::decode(text.strip_suffix('\n').unwrap()), Some(line));
        }
        for bad in ["", "stored", "stored 1 2", "stored 1 zz 61", "stored 1 2 6", "stored 1 2 61 x", "else"] {
            assert_eq!(Line::decode(bad), None, "{bad}");
        }
    }
}
