//! The file in which `zerohop watch` keeps its position.

use std::fs::{self, TryLockError};
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
    _lock: CursorLock,
    /// The position that the file does not have yet.
    unwritten: Option<WatchCursor>,
    written_at: Instant,
}

/// The lock of a cursor: two watches with one would take turns at overwriting the position of the other. It is a file beside that of the
/// cursor, which is replaced with each position.
#[derive(Debug)]
struct CursorLock {
    path: PathBuf,
    /// Locked until it is closed.
    _file: fs::File,
}

impl CursorLock {
    fn new(cursor: &Path) -> Result<CursorLock, CommandError> {
        let path = beside(cursor, ".lock");
        let shown = cursor.display();
        let unlocked = |error: io::Error| {
            refused(format!("cannot write the lock {} of the cursor: {error}", path.display()))
        };
        #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
        let file = fs::File::create(&path).map_err(unlocked)?;
        match file.try_lock() {
            Ok(()) => Ok(CursorLock { path, _file: file }),
            Err(TryLockError::WouldBlock) => Err(refused(format!(
                "another watch keeps its position in {shown}: each needs a file of its own"
            ))),
            Err(TryLockError::Error(error)) => Err(unlocked(error)),
        }
    }
}

impl Drop for CursorLock {
    fn drop(&mut self) {
        // One that stays behind harms no later watch.
        drop(fs::remove_file(&self.path));
    }
}

impl CursorFile {
    /// Opens the file, which need not exist, and reads its position.
    #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
    pub(super) fn open(path: PathBuf) -> Result<(CursorFile, Option<WatchCursor>), CommandError> {
        let shown = path.display();
        let unread = |error: io::Error| refused(format!("cannot read the cursor {shown}: {error}"));
        // Before it is opened: a pipe or a device might never end.
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() || found.len() > BYTES_MAX => {
                return Err(refused(format!("{shown} is no file of a cursor: name another one")));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unread(error)),
            _ => {}
        }
        let lock = CursorLock::new(&path)?;
        let position = match fs::read(&path) {
            Ok(bytes) => {
                let cursor = WatchCursor::from_bytes(&bytes);
                Some(cursor.map_err(|error| refused(format!("{shown}: {error}")))?)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(unread(error)),
        };
        let file = CursorFile { path, _lock: lock, unwritten: None, written_at: Instant::now() };
        Ok((file, position))
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
    let new = beside(path, ".new");
    let mut file = fs::File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&new, path)
}

/// The file beside a cursor whose name ends in this.
fn beside(cursor: &Path, end: &str) -> PathBuf {
    let mut path = cursor.as_os_str().to_owned();
    path.push(end);
    path.into()
}
