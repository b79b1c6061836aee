//! Reading files back and comparing what they hold with what was stored.

use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zerohop_client::{Error, Failure, Keyspace, Reply};
use zerohop_wire::messages::{Operation, Query, Read};

use super::error::DemoError;
use super::lanes::{self, Groups};
use super::limits::{FAULTS_KEPT_MAX, GROUP_BYTES_MAX, PART_BYTES, PARTS_AT_ONCE};
use super::load::Stored;
use super::progress::Progress;
use super::record::{Header, part_key};
use super::report::Fault;
use super::source::shown;

/// What a check found.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Files that are whole.
    pub(super) whole: u64,
    /// Those of them that were acknowledged before the kill.
    pub(super) whole_before_kill: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Files that are not.
    pub(super) faulty: u64,
    /// What is wrong with them, up to a number.
    pub(super) faults: Vec<Fault>,
}

/// Checks that every one of these files is there and is what was stored.
pub(super) async fn check(
    keyspace: &Keyspace,
    expected: &Arc<Vec<Stored>>,
    progress: &Arc<Progress>,
) -> Result<Checked, DemoError> {
    let lane = |groups| check_groups(keyspace.clone(), Arc::clone(expected), Arc::clone(progress), groups);
    let mut checked = Checked::default();
    lanes::run(expected.len(), lane).await?.into_iter().for_each(|one| checked.add(one));
    Ok(checked)
}

/// Counts keys that belong to none of these files.
pub(super) async fn strangers(keyspace: &Keyspace, files: &[Stored]) -> Result<u64, DemoError> {
    let mut scan = keyspace.scan("");
    let mut strangers = 0;
    while let Some(keys) = scan.next_page().await.map_err(DemoError::cluster("listing the keys"))? {
        strangers += keys.iter().filter(|listed| !belongs(&listed.key, files)).count() as u64;
    }
    Ok(strangers)
}

async fn check_groups(
    keyspace: Keyspace,
    expected: Arc<Vec<Stored>>,
    progress: Arc<Progress>,
    groups: Arc<Groups>,
) -> Result<Checked, DemoError> {
    let mut checked = Checked::default();
    while let Some(files) = groups.take() {
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

/// How many of these files, at least one, are read together: what they hold comes at once.
fn fitting(files: &[Stored]) -> usize {
    let mut bytes = 0;
    let fit = |file: &&Stored| {
        bytes += file.bytes.min(PART_BYTES as u64);
        bytes <= GROUP_BYTES_MAX as u64
    };
    files.iter().take_while(fit).count().max(1)
}

/// What is wrong with a file, if anything is.
async fn compare(
    keyspace: &Keyspace,
    expected: &Stored,
    record: Option<Bytes>,
) -> Result<Result<(), String>, DemoError> {
    let Some(record) = record else { return Ok(Err("is not there".to_owned())) };
    let Some((header, contents)) = Header::decode(&record) else {
        return Ok(Err("its record is not one".to_owned()));
    };
    if (header.bytes, header.checksum) != (expected.bytes, expected.checksum) {
        return Ok(Err(format!(
            "holds {} bytes with checksum {:016x}, stored were {} with {:016x}",
            header.bytes, header.checksum, expected.bytes, expected.checksum
        )));
    }
    let (bytes, checksum) = if header.parts == 0 {
        (contents.len() as u64, xxh3_64(contents))
    } else {
        match read_parts(keyspace, &expected.path, header.parts).await? {
            Ok(found) => found,
            Err(missing) => return Ok(Err(missing)),
        }
    };
    if (bytes, checksum) != (header.bytes, header.checksum) {
        return Ok(Err(format!(
            "holds {bytes} bytes with checksum {checksum:016x}, its header says {} with {:016x}",
            header.bytes, header.checksum
        )));
    }
    Ok(Ok(()))
}

async fn read_parts(
    keyspace: &Keyspace,
    path: &[u8],
    parts: u32,
) -> Result<Result<(u64, u64), String>, DemoError> {
    let (mut checksum, mut bytes) = (Xxh3::new(), 0);
    let keys: Vec<Vec<u8>> = (0..parts).map(|number| part_key(path, number)).collect();
    for keys in keys.chunks(PARTS_AT_ONCE) {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for part in lookup_all(keyspace, &keys).await? {
            let Some(part) = part else { return Ok(Err("one of its parts is not there".to_owned())) };
            checksum.update(&part);
            bytes += part.len() as u64;
        }
    }
    Ok(Ok((bytes, checksum.digest())))
}

/// Looks records up together.
async fn lookup_all(keyspace: &Keyspace, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, DemoError> {
    let lookup = |key| Operation::Read(Read { key, query: Query::Lookup });
    let operations: Vec<Operation<'_>> = keys.iter().copied().map(lookup).collect();
    let outcomes = keyspace.batch(&operations).await;
    let found = outcomes.into_iter().map(found).collect::<Result<_, Error>>();
    found.map_err(DemoError::cluster("reading files"))
}

/// The bytes of a record, if there is one; a record of another kind counts as one of no bytes, which no file has.
fn found(outcome: Result<Reply, Error>) -> Result<Option<Bytes>, Error> {
    match outcome {
        Ok(Reply::Value { bytes, .. }) => Ok(Some(bytes)),
        Ok(_) => Ok(Some(Bytes::new())),
        Err(error) if matches!(error.failure(), Some(Failure::NotFound)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether this is the key of one of these files, or of a part of one. The files are sorted by path.
fn belongs(key: &[u8], files: &[Stored]) -> bool {
    let find = |path: &[u8]| files.binary_search_by(|file| file.path[..].cmp(path)).ok();
    match key.iter().position(|&byte| byte == 0) {
        None => find(key).is_some(),
        Some(end) => find(&key[..end]).is_some_and(|at| {
            let bytes = files[at].bytes;
            let parts = if bytes > PART_BYTES as u64 { bytes.div_ceil(PART_BYTES as u64) } else { 0 };
            (0..parts).any(|number| part_key(&key[..end], number as u32) == key)
        }),
    }
}

impl Checked {
    fn count(&mut self, file: &Stored, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.whole += 1;
                self.whole_before_kill += u64::from(file.before_kill);
                self.bytes += file.bytes;
            }
            Err(what) => {
                self.faulty += 1;
                self.keep(vec![Fault { path: shown(&file.path), what }]);
            }
        }
    }

    fn add(&mut self, other: Checked) {
        self.whole += other.whole;
        self.whole_before_kill += other.whole_before_kill;
        self.bytes += other.bytes;
        self.faulty += other.faulty;
        self.keep(other.faults);
    }

    fn keep(&mut self, faults: Vec<Fault>) {
        let room = FAULTS_KEPT_MAX.saturating_sub(self.faults.len());
        self.faults.extend(faults.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(path: &[u8], bytes: u64) -> Stored {
        Stored { path: path.to_vec(), bytes, checksum: 0, before_kill: false }
    }

    #[test]
    fn keys_of_files_and_their_parts_belong_and_no_others() {
        let files =
            [stored(b"a", 5), stored(b"large", 2 * PART_BYTES as u64 + 1), stored(b"one", PART_BYTES as u64)];
        for key in [b"a".to_vec(), b"large".to_vec(), part_key(b"large", 0), part_key(b"large", 2)] {
            assert!(belongs(&key, &files), "{key:?}");
        }
        for key in [
            b"b".to_vec(),
            b"".to_vec(),
            part_key(b"a", 0),
            part_key(b"one", 0),
            part_key(b"large", 3),
            b"large\0".to_vec(),
        ] {
            assert!(!belongs(&key, &files), "{key:?}");
        }
    }

    #[test]
    fn faults_are_kept_up_to_a_number_and_counted_beyond() {
        let mut sum = Checked::default();
        for _ in 0..FAULTS_KEPT_MAX {
            let mut one = Checked::default();
            one.count(&stored(b"x", 1), Err("is not there".to_owned()));
            one.count(&stored(b"y", 7), Err("is not there".to_owned()));
            sum.add(one);
        }
        assert_eq!((sum.faulty as usize, sum.faults.len()), (2 * FAULTS_KEPT_MAX, FAULTS_KEPT_MAX));
        let mut whole = Checked::default();
        whole.count(&Stored { before_kill: true, ..stored(b"x", 9) }, Ok(()));
        sum.add(whole);
        assert_eq!((sum.whole, sum.whole_before_kill, sum.bytes), (1, 1, 9));
    }
}
