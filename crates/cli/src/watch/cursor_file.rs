//! The file in which `zerohop watch` keeps its position.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use zerohop_client::WatchCursor;

use crate::common::ending::CommandError;

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
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(CommandError::Refused(format!("cannot read the cursor {path}: {error}")));
            }
        };
        let cursor = WatchCursor::from_bytes(&bytes);
        cursor.map(Some).map_err(|error| CommandError::Refused(format!("{path}: {error}")))
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
            CommandError::Refused(format!(
                "cannot write the cursor {path}: {error}; it has an earlier position"
            ))
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&beside, path)
}
