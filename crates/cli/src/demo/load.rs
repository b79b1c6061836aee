//! Stores the files through the client, by several tasks at once.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zerohop_client::{Condition, Error, Expiry, Keyspace};
use zerohop_wire::messages::{Insert, RecordOperation, RecordWrite, WriteChange};

use super::limits::{GROUP_BYTES_MAX, READ_BYTES, RECORD_BYTES_MAX, REPEATS_MAX};
use super::parallel::{self, Groups};
use super::progress::DemoProgress;
use super::record::FileHeader;
use super::source::{DemoFiles, fill_buffer};
use crate::common::demo_error::DemoError;

/// A file that the cluster has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredFile {
    pub(super) path: Vec<u8>,
    pub(super) bytes: u64,
    pub(super) checksum: u64,
    /// Whether it was acknowledged before the node was killed.
    pub(super) before_kill: bool,
}

/// The result of storing.
#[derive(Debug, Default)]
pub(super) struct LoadedFiles {
    /// Sorted by path.
    pub(super) files: Vec<StoredFile>,
    /// Files that could not be read.
    pub(super) unreadable: u64,
}

/// Stores every file of the source. Ends early with the first error of the cluster.
pub(super) async fn load(
    keyspace: &Keyspace,
    source: &Arc<DemoFiles>,
    progress: &Arc<DemoProgress>,
) -> Result<LoadedFiles, DemoError> {
    let load = |groups| {
        let (keyspace, source, progress) = (keyspace.clone(), Arc::clone(source), Arc::clone(progress));
        FileLoader { keyspace, source, progress, loaded: LoadedFiles::default() }.run(groups)
    };
    let mut loaded = LoadedFiles::default();
    for one in parallel::run(source.files.len(), load).await? {
        loaded.files.extend(one.files);
        loaded.unreadable += one.unreadable;
    }
    loaded.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(loaded)
}

struct FileLoader {
    keyspace: Keyspace,
    source: Arc<DemoFiles>,
    progress: Arc<DemoProgress>,
    loaded: LoadedFiles,
}

/// An open file, and its first bytes.
enum OpenedFile<R> {
    /// The whole contents.
    Small(Vec<u8>),
    /// A file larger than a record, and its first bytes.
    Large(R, Vec<u8>),
}

/// Records to be written together, and the files that they complete.
#[derive(Default)]
struct FileGroup {
    records: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    files: Vec<(Vec<u8>, FileHeader)>,
}

impl FileLoader {
    async fn run(mut self, groups: Arc<Groups>) -> Result<LoadedFiles, DemoError> {
        while let Some(files) = groups.next_group() {
            let mut group = FileGroup::default();
            for (path, opened) in self.open(files).await {
                match opened {
                    None => self.loaded.unreadable += 1,
                    Some(OpenedFile::Small(contents)) => group.add_small(path, &contents),
                    Some(OpenedFile::Large(file, start)) => match self.store_large(&path, file, start).await?
                    {
                        Some(header) => group.add(path, header, &[]),
                        None => self.loaded.unreadable += 1,
                    },
                }
                if group.bytes >= GROUP_BYTES_MAX {
                    self.write(std::mem::take(&mut group)).await?;
                }
            }
            self.write(group).await?;
        }
        Ok(self.loaded)
    }

    /// Reads the beginnings of files, on another thread than the client's.
    async fn open(
        &self,
        files: Range<usize>,
    ) -> Vec<(Vec<u8>, Option<OpenedFile<impl Read + Send + use<>>>)> {
        let source = Arc::clone(&self.source);
        let read = move || {
            let open = |path: &Vec<u8>| (path.clone(), open(&source, path).ok());
            source.files[files].iter().map(open).collect()
        };
        finish(spawn_blocking(read).await)
    }

    /// Stores a file as a blob, and starts again from its beginning if the outcome is unknown.
    /// `None`: the file could not be read to its end.
    async fn store_large(
        &self,
        path: &[u8],
        file: impl Read + Send + 'static,
        start: Vec<u8>,
    ) -> Result<Option<FileHeader>, DemoError> {
        let mut error = match self.store_blob(path, file, start).await {
            Ok(stored) => return Ok(stored),
            Err(error) => error,
        };
        for _ in 0..REPEATS_MAX {
            if !error.is_unknown() {
                break;
            }
            let (source, again) = (Arc::clone(&self.source), path.to_vec());
            let Ok(OpenedFile::Large(file, start)) =
                finish(spawn_blocking(move || open(&source, &again)).await)
            else {
                return Ok(None);
            };
            match self.store_blob(path, file, start).await {
                Ok(stored) => return Ok(stored),
                Err(again) => error = again,
            }
        }
        Err(DemoError::cluster("storing a large file")(error))
    }

    async fn store_blob(
        &self,
        path: &[u8],
        mut file: impl Read + Send + 'static,
        mut bytes: Vec<u8>,
    ) -> Result<Option<FileHeader>, Error> {
        let blob = self.keyspace.blob(path.to_vec());
        // Removes what an earlier attempt may have left.
        blob.delete().await?;
        blob.create(b"").await?;
        let mut extension = blob.staged_extension().await?;
        let mut checksum = Xxh3::new();
        while !bytes.is_empty() {
            extension.push(&bytes).await?;
            checksum.update(&bytes);
            let read = move || {
                fill_buffer(&mut file, &mut bytes, READ_BYTES)?;
                Ok::<_, std::io::Error>((file, bytes))
            };
            let Ok((same_file, next)) = finish(spawn_blocking(read).await) else { return Ok(None) };
            (file, bytes) = (same_file, next);
        }
        let bytes = extension.publish().await?;
        Ok(Some(FileHeader { bytes, checksum: checksum.digest(), is_blob: true }))
    }

    async fn write(&mut self, group: FileGroup) -> Result<(), DemoError> {
        insert_all(&self.keyspace, &group.records).await.map_err(DemoError::cluster("storing files"))?;
        let before_kill = !self.progress.is_killed();
        for (path, header) in group.files {
            self.progress.add(1, header.bytes);
            let (bytes, checksum) = (header.bytes, header.checksum);
            self.loaded.files.push(StoredFile { path, bytes, checksum, before_kill });
        }
        Ok(())
    }
}

impl FileGroup {
    fn add_small(&mut self, path: Vec<u8>, contents: &[u8]) {
        let header = FileHeader { bytes: contents.len() as u64, checksum: xxh3_64(contents), is_blob: false };
        self.add(path, header, contents);
    }

    fn add(&mut self, path: Vec<u8>, header: FileHeader, contents: &[u8]) {
        let record = header.encode(contents);
        self.bytes += record.len();
        self.records.push((path.clone(), record));
        self.files.push((path, header));
    }
}

fn open(source: &DemoFiles, path: &[u8]) -> std::io::Result<OpenedFile<impl Read + Send + use<>>> {
    let mut file = source.open(path)?;
    let mut contents = Vec::new();
    fill_buffer(&mut file, &mut contents, RECORD_BYTES_MAX + 1)?;
    Ok(if contents.len() <= RECORD_BYTES_MAX {
        OpenedFile::Small(contents)
    } else {
        OpenedFile::Large(file, contents)
    })
}

/// Inserts records together. A record whose outcome is unknown is inserted again: it is the same
/// record.
async fn insert_all(keyspace: &Keyspace, records: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Error> {
    let mut left: Vec<&(Vec<u8>, Vec<u8>)> = records.iter().collect();
    for repeats in 0.. {
        let operations: Vec<RecordOperation<'_>> = left.iter().map(|record| insert(record)).collect();
        let mut lost = Vec::new();
        for (record, outcome) in left.iter().zip(keyspace.batch(&operations).await) {
            match outcome {
                Ok(_) => {}
                Err(error) if error.is_unknown() && repeats < REPEATS_MAX => lost.push(*record),
                Err(error) => return Err(error),
            }
        }
        if lost.is_empty() {
            break;
        }
        left = lost;
    }
    Ok(())
}

fn insert((key, value): &(Vec<u8>, Vec<u8>)) -> RecordOperation<'_> {
    let change = WriteChange::Insert(Insert { value, expiry: Expiry::Never });
    RecordOperation::Write(RecordWrite { key, condition: Condition::Always, change })
}

/// The result of work on another thread.
fn finish<T>(ended: Result<T, tokio::task::JoinError>) -> T {
    ended.unwrap_or_else(|fault| std::panic::resume_unwind(fault.into_panic()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes the files that are stored")]
mod tests {
    use std::path::Path;

    use zerohop_client::Client;
    use zerohop_server::{Server, ServerOptions};

    use super::*;
    use crate::demo::check::{check, count_foreign};

    const MOST: usize = RECORD_BYTES_MAX;

    /// Files of sizes around the limit of a record, including empty ones.
    fn files(root: &Path) -> Arc<DemoFiles> {
        for (at, bytes) in [0, 1, MOST - 1, MOST, MOST + 1, 5 * MOST + 7].iter().enumerate() {
            let contents: Vec<u8> = (0..*bytes).map(|n| (n / 7 + n / 50_000 + at) as u8).collect();
            std::fs::write(root.join(format!("file {at}")), contents).unwrap();
        }
        Arc::new(DemoFiles::find(root, root.join("data").as_path()).unwrap())
    }

    #[test]
    fn files_of_all_sizes_are_read_back_and_any_change_is_found() {
        let root = tempfile::tempdir().unwrap();
        let source = files(root.path());
        std::fs::remove_file(root.path().join("file 1")).unwrap();
        let server = Server::start(ServerOptions::new("127.0.0.1:0".parse().unwrap())).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::connect(&server.manager_address().to_string()).await.unwrap();
            let keyspace = client.keyspace("default").await.unwrap();
            let progress = Arc::new(DemoProgress::default());
            let loaded = load(&keyspace, &source, &progress).await.unwrap();
            assert_eq!((loaded.files.len(), loaded.unreadable), (5, 1), "one is gone since it was found");
            let files = Arc::new(loaded.files);
            let checked = check(&keyspace, &files, &progress).await.unwrap();
            assert_eq!((checked.intact, checked.faulty), (5, 0), "{:?}", checked.faults);
            assert_eq!((checked.bytes as usize, checked.intact_before_kill), (8 * MOST + 7, 5));
            assert_eq!(count_foreign(&keyspace, &files).await.unwrap(), 0);

            keyspace.insert("not a file", "x").await.unwrap();
            keyspace.blob("file 1").create(b"a blob of no file").await.unwrap();
            assert_eq!(count_foreign(&keyspace, &files).await.unwrap(), 2);
            keyspace.blob("file 4").write_at(MOST as u64, b"another last byte").await.unwrap();
            keyspace.blob("file 5").truncate(3 * MOST as u64).await.unwrap();
            keyspace.insert("file 2", "no header").await.unwrap();
            keyspace.remove("file 0").await.unwrap();
            let checked = check(&keyspace, &files, &progress).await.unwrap();
            assert_eq!((checked.intact, checked.faulty), (1, 4), "{:?}", checked.faults);
        });
        server.stop().unwrap();
    }
}
