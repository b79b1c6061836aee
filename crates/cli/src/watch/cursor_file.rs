//! The file in which `zerohop watch` keeps its position.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use zerohop_client::WatchCursor;

use crate::common::ending::CommandError;

/// A longer file has no cursor: more than a million partitions.
const BYTES_MAX: u64 = 64 << 20;

/// Time between two writes of the file.
const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// A position, and the file that has one.
#[derive(Debug)]
pub(super) struct CursorFile {
    path: PathBuf,
    /// The position that the file does not have yet.
    unwritten: Option<WatchCursor>,
    written_at: Instant,
}

impl CursorFile {
    pub(super) fn new(path: PathBuf) -> CursorFile {
        CursorFile { path, unwritten: None, written_at: Instant::now() }
    }

    /// The position in the file; `None`: there is no such file.
    #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
    pub(super) fn read(&self) -> Result<Option<WatchCursor>, CommandError> {
        let path = self.path.display();
        let unread = |error: io::Error| refused(format!("cannot read the cursor {path}: {error}"));
        // Before it is opened: a pipe or a device might never end.
        let found = match fs::metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unread(error)),
        };
        if !found.is_file() || found.len() > BYTES_MAX {
            return Err(refused(format!("{path} is no file of a cursor: name another one")));
        }
        let bytes = fs::read(&self.path).map_err(unread)?;
        let cursor = WatchCursor::from_bytes(&bytes);
        cursor.map(Some).map_err(|error| refused(format!("{path}: {error}")))
    }

    /// Keeps a position, and writes it if the last one was written a while ago.
    pub(super) fn keep(&mut self, position: WatchCursor) -> Result<(), CommandError> {
        self.unwritten = Some(position);
        if self.written_at.elapsed() >= WRITE_PAUSE { self.write() } else { Ok(()) }
    }

    /// Writes the position that was kept last. After a crash the file has this one or an earlier one, complete.
    pub(super) fn write(&mut self) -> Result<(), CommandError> {
        let Some(position) = self.unwritten.take() else { return Ok(()) };
        self.written_at = Instant::now();
        replace(&self.path, &position.to_bytes()).map_err(|error| {
            let path = self.path.display();
            refused(format!(
                "cannot write the cursor {path}: {error}. The position of the last changes is not kept"
            ))
        })
    }
}

fn refused(reason: String) -> CommandError {
    CommandError::RefusedAs { word: "cursor", reason }
}

#[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&beside, path)
}
