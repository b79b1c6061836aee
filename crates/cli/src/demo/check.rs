//! Reads files back and compares their contents with what was stored.

use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zerohop_client::{Error, Failure, Keyspace, Reply};
use zerohop_wire::messages::{Query, RecordOperation, RecordRead};

use super::fault::Fault;
use super::limits::{FAULTS_STORED_MAX, GROUP_BYTES_MAX, RECORD_BYTES_MAX};
use super::load::StoredFile;
use super::parallel::{self, Groups};
use super::progress::DemoProgress;
use super::record::FileHeader;
use crate::common::demo_error::DemoError;
use crate::common::names;

/// The result of a check.
#[derive(Debug, Default)]
pub(super) struct CheckResult {
    /// Files that are intact.
    pub(super) intact: u64,
    /// Intact files that were acknowledged before the kill.
    pub(super) intact_before_kill: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Files that are not intact.
    pub(super) faulty: u64,
    /// What is wrong with them, up to a limit.
    pub(super) faults: Vec<Fault>,
}

/// Checks that each of these files exists and has the contents that were stored.
pub(super) async fn check(
    keyspace: &Keyspace,
    expected: &Arc<Vec<StoredFile>>,
    progress: &Arc<DemoProgress>,
) -> Result<CheckResult, DemoError> {
    let task = |groups| check_groups(keyspace.clone(), Arc::clone(expected), Arc::clone(progress), groups);
    let mut checked = CheckResult::default();
    parallel::run(expected.len(), task).await?.into_iter().for_each(|one| checked.add(one));
    Ok(checked)
}

/// Counts keys and blobs that belong to none of these files.
pub(super) async fn count_foreign(keyspace: &Keyspace, files: &[StoredFile]) -> Result<u64, DemoError> {
    let mut scan = keyspace.scan("");
    let mut foreign_keys = 0;
    while let Some(keys) = scan.next_page().await.map_err(DemoError::cluster("listing the keys"))? {
        foreign_keys += keys.iter().filter(|listed| find(&listed.key, files).is_none()).count() as u64;
    }
    let mut blobs = keyspace.list_blobs("");
    while let Some(names) = blobs.next_page().await.map_err(DemoError::cluster("listing the blobs"))? {
        foreign_keys += names.iter().filter(|name| !is_large(name, files)).count() as u64;
    }
    Ok(foreign_keys)
}

async fn check_groups(
    keyspace: Keyspace,
    expected: Arc<Vec<StoredFile>>,
    progress: Arc<DemoProgress>,
    groups: Arc<Groups>,
) -> Result<CheckResult, DemoError> {
    let mut checked = CheckResult::default();
    while let Some(files) = groups.next_group() {
        let mut files = &expected[files];
        while !files.is_empty() {
            let together;
            (together, files) = files.split_at(fitting(files));
            let keys: Vec<&[u8]> = together.iter().map(|file| &file.path[..]).collect();
            let records = lookup_all(&keyspace, &keys).await?;
            for (file, record) in together.iter().zip(records) {
                checked.count(file, compare(&keyspace, file, record).await?);
                progress.add(1, file.bytes);
            }
        }
    }
    Ok(checked)
}

/// How many of these files, at least one, are read together: all of their contents are in memory at
/// the same time.
fn fitting(files: &[StoredFile]) -> usize {
    let mut bytes = 0;
    let fit = |file: &&StoredFile| {
        bytes += file.bytes.min(RECORD_BYTES_MAX as u64);
        bytes <= GROUP_BYTES_MAX as u64
    };
    files.iter().take_while(fit).count().max(1)
}

/// What is wrong with a file, if anything is.
async fn compare(
    keyspace: &Keyspace,
    expected: &StoredFile,
    record: Option<Bytes>,
) -> Result<Result<(), String>, DemoError> {
    let Some(record) = record else { return Ok(Err("is not there".to_owned())) };
    let Some((header, contents)) = FileHeader::decode(&record) else {
        return Ok(Err("its record is not one".to_owned()));
    };
    if (header.bytes, header.checksum) != (expected.bytes, expected.checksum) {
        return Ok(Err(format!(
            "has {} bytes with checksum {:016x}, stored were {} with {:016x}",
            header.bytes, header.checksum, expected.bytes, expected.checksum
        )));
    }
    let (bytes, checksum) = match header.is_blob {
        false => (contents.len() as u64, xxh3_64(contents)),
        true => match read_blob(keyspace, &expected.path).await {
            Ok(found) => found,
            Err(error) if matches!(error.failure(), Some(Failure::NotFound)) => {
                return Ok(Err("its blob is not there".to_owned()));
            }
            Err(error) => return Err(DemoError::cluster("reading a large file")(error)),
        },
    };
    if (bytes, checksum) != (header.bytes, header.checksum) {
        return Ok(Err(format!(
            "has {bytes} bytes with checksum {checksum:016x}, its header says {} with {:016x}",
            header.bytes, header.checksum
        )));
    }
    Ok(Ok(()))
}

/// Length and checksum of a blob's contents.
async fn read_blob(keyspace: &Keyspace, path: &[u8]) -> Result<(u64, u64), Error> {
    let mut pieces = keyspace.blob(path.to_vec()).read_at(0, u64::MAX).await?;
    let (mut checksum, mut bytes) = (Xxh3::new(), 0);
    while let Some(piece) = pieces.next_piece().await? {
        checksum.update(&piece);
        bytes += piece.len() as u64;
    }
    Ok((bytes, checksum.digest()))
}

/// Looks up several records together.
async fn lookup_all(keyspace: &Keyspace, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, DemoError> {
    let lookup = |key| RecordOperation::Read(RecordRead { key, query: Query::Lookup });
    let operations: Vec<RecordOperation<'_>> = keys.iter().copied().map(lookup).collect();
    let outcomes = keyspace.batch(&operations).await;
    let found = outcomes.into_iter().map(found).collect::<Result<_, Error>>();
    found.map_err(DemoError::cluster("reading files"))
}

/// The bytes of a record, if it exists. A record of another type counts as one of no bytes, which
/// no file has.
fn found(outcome: Result<Reply, Error>) -> Result<Option<Bytes>, Error> {
    match outcome {
        Ok(Reply::Value { bytes, .. }) => Ok(Some(bytes)),
        Ok(_) => Ok(Some(Bytes::new())),
        Err(error) if matches!(error.failure(), Some(Failure::NotFound)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file of this path. The files are sorted by path.
fn find<'f>(path: &[u8], files: &'f [StoredFile]) -> Option<&'f StoredFile> {
    files.binary_search_by(|file| file.path[..].cmp(path)).ok().map(|at| &files[at])
}

/// Whether a file of this path exists and is stored as a blob.
fn is_large(path: &[u8], files: &[StoredFile]) -> bool {
    find(path, files).is_some_and(|file| file.bytes > RECORD_BYTES_MAX as u64)
}

impl CheckResult {
    fn count(&mut self, file: &StoredFile, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.intact += 1;
                self.intact_before_kill += u64::from(file.before_kill);
                self.bytes += file.bytes;
            }
            Err(what) => {
                self.faulty += 1;
                self.add_faults(vec![Fault { path: names::text(&file.path), what }]);
            }
        }
    }

    fn add(&mut self, other: CheckResult) {
        self.intact += other.intact;
        self.intact_before_kill += other.intact_before_kill;
        self.bytes += other.bytes;
        self.faulty += other.faulty;
        self.add_faults(other.faults);
    }

    fn add_faults(&mut self, faults: Vec<Fault>) {
        let room = FAULTS_STORED_MAX.saturating_sub(self.faults.len());
        self.faults.extend(faults.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(path: &[u8], bytes: u64) -> StoredFile {
        StoredFile { path: path.to_vec(), bytes, checksum: 0, before_kill: false }
    }

    #[test]
    fn only_keys_and_blobs_of_files_are_recognized() {
        let most = RECORD_BYTES_MAX as u64;
        let files = [stored(b"a", 5), stored(b"large", most + 1), stored(b"most", most)];
        let found = [&b"a"[..], b"large", b"most", b"b", b""].map(|path| find(path, &files).is_some());
        assert_eq!(found, [true, true, true, false, false]);
        let large = [&b"a"[..], b"large", b"most", b"b"].map(|path| is_large(path, &files));
        assert_eq!(large, [false, true, false, false]);
    }

    #[test]
    fn faults_are_stored_up_to_a_limit_and_all_counted() {
        let mut sum = CheckResult::default();
        for _ in 0..FAULTS_STORED_MAX {
            let mut one = CheckResult::default();
            one.count(&stored(b"x", 1), Err("is not there".to_owned()));
            one.count(&stored(b"y", 7), Err("is not there".to_owned()));
            sum.add(one);
        }
        assert_eq!((sum.faulty as usize, sum.faults.len()), (2 * FAULTS_STORED_MAX, FAULTS_STORED_MAX));
        let mut whole = CheckResult::default();
        whole.count(&StoredFile { before_kill: true, ..stored(b"x", 9) }, Ok(()));
        sum.add(whole);
        assert_eq!((sum.intact, sum.intact_before_kill, sum.bytes), (1, 1, 9));
    }
}
