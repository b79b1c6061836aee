//! The file `life` of an instance. The instance reads and writes it at its start; a separate thread writes it again whenever the timestamp bound
//! rises. Nothing on the data path waits for the disk here; writes wait only when they reach the bound.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

use tracing::error;
use zerohop_disk::replace_file;
use zerohop_wire::escaped::shown_path;
use zerohop_wire::ids::{Incarnation, Timestamp};

use crate::node_files::incarnation_log::{LIFE_BYTES_MAX, LifeRecord};

/// The file's name in the instance's folder.
const FILE: &str = "life";

/// The timestamp bound on disk; see the module.
#[derive(Debug)]
pub(crate) struct TimestampBounds {
    /// The instance's folder; `None`: it has no disk, and its timestamps are lost with it.
    folder: Option<PathBuf>,
    life: LifeRecord,
    thread: Option<BoundWriter>,
    /// The newest requested bound that the thread does not have yet.
    requested_bound: Option<Timestamp>,
    /// The thread is writing.
    is_under_way: bool,
    synced: Option<Timestamp>,
    /// The reason why the last write failed, as it was logged.
    logged_error: Option<io::ErrorKind>,
}

/// Started for the first bound to write: an instance without shared partitions never needs it.
#[derive(Debug)]
struct BoundWriter {
    /// `None` once the thread must end.
    lives: Option<SyncSender<LifeRecord>>,
    done: Receiver<Result<Timestamp, io::Error>>,
    thread: Option<JoinHandle<()>>,
}

impl TimestampBounds {
    /// Starts with the folder of an instance: reads the record of earlier starts, and adds this one on disk.
    ///
    /// # Errors
    /// In words: the file cannot be read or written.
    pub(crate) fn begin(
        folder: Option<PathBuf>,
        incarnation: Incarnation,
    ) -> Result<(TimestampBounds, LifeRecord), String> {
        let before = match &folder {
            Some(folder) => read(folder)?,
            None => LifeRecord::default(),
        };
        let mut life = before.clone();
        life.begin(incarnation);
        if let Some(folder) = &folder {
            replace_file(folder, FILE, &life.encode()).map_err(|error| {
                format!("{} could not be written: {error}", shown_path(&folder.join(FILE)))
            })?;
        }
        let timestamp_bounds = TimestampBounds {
            folder,
            life,
            thread: None,
            requested_bound: None,
            is_under_way: false,
            synced: None,
            logged_error: None,
        };
        Ok((timestamp_bounds, before))
    }

    /// Requests that this bound be written to disk.
    pub(crate) fn sync(&mut self, timestamp_bound: Timestamp) {
        if self.folder.is_none() {
            self.synced = Some(timestamp_bound);
            return;
        }
        self.requested_bound = self.requested_bound.max(Some(timestamp_bound));
        self.hand_over();
    }

    /// The newest bound that was written to disk since the last call.
    pub(crate) fn take_synced_bound(&mut self) -> Option<Timestamp> {
        if self.is_under_way
            && let Some(writer) = &self.thread
            && let Ok(done) = writer.done.try_recv()
        {
            self.is_under_way = false;
            match done {
                Ok(timestamp_bound) => {
                    self.synced = self.synced.max(Some(timestamp_bound));
                    self.logged_error = None;
                }
                // Writes that reach the bound wait, and the next bound is written when it is due.
                Err(error) => self.log_error_once(&error),
            }
            self.hand_over();
        }
        self.synced.take()
    }

    /// Logs the error once, until the reason changes: the write is attempted many times a second.
    fn log_error_once(&mut self, error: &io::Error) {
        if self.logged_error.replace(error.kind()) != Some(error.kind()) {
            error!(%error, "the timestamp bound could not be written");
        }
    }

    fn hand_over(&mut self) {
        let (Some(folder), Some(timestamp_bound), false) =
            (&self.folder, self.requested_bound, self.is_under_way)
        else {
            return;
        };
        if self.thread.is_none() {
            match BoundWriter::start(folder.clone()) {
                Ok(writer) => self.thread = Some(writer),
                Err(error) => return error!(%error, "no thread to write the timestamp bound"),
            }
        }
        let Some(BoundWriter { lives: Some(lives), .. }) = &self.thread else { return };
        self.life.timestamp_bound = self.life.timestamp_bound.max(timestamp_bound);
        match lives.try_send(self.life.clone()) {
            Ok(()) => (self.requested_bound, self.is_under_way) = (None, true),
            // The thread has failed, which was logged then; the next start of the node has a new one.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

impl BoundWriter {
    fn start(folder: PathBuf) -> io::Result<BoundWriter> {
        // At most one is in flight: no send ever blocks.
        let (lives, lives_in) = sync_channel::<LifeRecord>(1);
        let (done_out, done) = sync_channel(1);
        let thread = Builder::new().name("zerohop-life".to_owned()).spawn(move || {
            for life in lives_in {
                let written = replace_file(&folder, FILE, &life.encode());
                if done_out.send(written.map(|()| life.timestamp_bound)).is_err() {
                    return;
                }
            }
        })?;
        Ok(BoundWriter { lives: Some(lives), done, thread: Some(thread) })
    }
}

impl Drop for BoundWriter {
    fn drop(&mut self) {
        self.lives = None;
        if let Some(thread) = self.thread.take() {
            // The thread only writes the file; a panic was reported when it happened.
            drop(thread.join());
        }
    }
}

fn read(folder: &Path) -> Result<LifeRecord, String> {
    let path = folder.join(FILE);
    #[expect(clippy::disallowed_methods, reason = "beside the engine's files, and before it is there")]
    let bytes = match std::fs::File::open(&path) {
        Ok(file) => {
            let mut bytes = Vec::new();
            let mut limited = io::Read::take(file, LIFE_BYTES_MAX as u64 + 1);
            io::Read::read_to_end(&mut limited, &mut bytes)
                .map_err(|error| format!("{}: {error}", shown_path(&path)))?;
            bytes
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LifeRecord::default()),
        Err(error) => return Err(format!("{}: {error}", shown_path(&path))),
    };
    LifeRecord::decode(&bytes).map_err(|error| format!("{}: {error}", shown_path(&path)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Waits for the thread.
    fn synced(timestamp_bounds: &mut TimestampBounds) -> Timestamp {
        for _ in 0..5_000 {
            if let Some(timestamp_bound) = timestamp_bounds.take_synced_bound() {
                return timestamp_bound;
            }
            #[expect(clippy::disallowed_methods, reason = "waits for another thread")]
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("it was never written");
    }

    #[test]
    fn next_start_reads_synced_timestamp_bound_and_earlier_starts() {
        let root = tempfile::tempdir().unwrap();
        let begin = |incarnation| {
            TimestampBounds::begin(Some(root.path().to_owned()), Incarnation(incarnation)).unwrap()
        };
        let (mut first, before) = begin(3);
        assert_eq!(before, LifeRecord::default());
        assert!(first.take_synced_bound().is_none() && first.thread.is_none());
        for timestamp_bound in [10, 20, 15] {
            first.sync(Timestamp(timestamp_bound));
        }
        let mut newest = Timestamp::ZERO;
        while newest < Timestamp(20) {
            newest = synced(&mut first);
        }
        drop(first);
        let (_, before) = begin(4);
        assert_eq!(before, LifeRecord { timestamp_bound: Timestamp(20), starts: vec![Incarnation(3)] });
        let (_, before) = begin(5);
        assert_eq!(before.starts, [Incarnation(3), Incarnation(4)]);
        assert_eq!(before.timestamp_bound, Timestamp(20));
    }

    #[test]
    fn corrupt_life_file_is_named_and_memory_syncs_at_once() {
        let root = tempfile::tempdir().unwrap();
        drop(TimestampBounds::begin(Some(root.path().to_owned()), Incarnation(1)).unwrap());
        let path = root.path().join(FILE);
        let bytes = replace_file(root.path(), FILE, b"zerohopl something else, long enough to be one");
        bytes.unwrap();
        let reason = TimestampBounds::begin(Some(root.path().to_owned()), Incarnation(2)).unwrap_err();
        assert!(reason.contains(&path.display().to_string()), "{reason}");
        let (mut none, before) = TimestampBounds::begin(None, Incarnation(9)).unwrap();
        none.sync(Timestamp(7));
        assert_eq!((none.take_synced_bound(), before), (Some(Timestamp(7)), LifeRecord::default()));
    }
}
