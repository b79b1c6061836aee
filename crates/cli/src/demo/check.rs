//! Reading files back and comparing what they hold with what was stored.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zerohop::{Error, Store};

use super::limits::FAULTS_KEPT_MAX;
use super::load::{Stored, threads};
use super::progress::Progress;
use super::record::{Header, is_part, part_key};
use super::report::Fault;
use super::source::shown;

/// What a check found.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Files that are whole.
    pub(super) whole: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Files that are not.
    pub(super) faulty: u64,
    /// What is wrong with them, up to a number.
    pub(super) faults: Vec<Fault>,
}

/// What is there that was not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Files, and what is wrong with those that are not whole.
    pub(super) checked: Checked,
    /// Parts of files whose header was not written yet.
    pub(super) leftover_parts: u64,
}

/// Checks that every one of these files is there and is what was stored.
pub(super) fn check(store: &Store, expected: &[Stored], progress: &Progress) -> Checked {
    let next = AtomicUsize::new(0);
    let sum = Mutex::new(Checked::default());
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                let mut checked = Checked::default();
                while let Some(file) = expected.get(next.fetch_add(1, Ordering::Relaxed)) {
                    checked.count(&file.path, compare(store, file));
                    progress.add(1, file.bytes);
                }
                sum.lock().unwrap_or_else(PoisonError::into_inner).add(checked);
            });
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Walks over all that is in the store and checks what was not acknowledged: it may be there or not, but what is there
/// must be a file of the source, and whole. Both lists are sorted.
pub(super) fn check_others(
    store: &Store,
    acknowledged: &[Stored],
    source: &[Vec<u8>],
) -> Result<Others, Error> {
    let mut others = Others::default();
    let is_acknowledged = |path: &[u8]| acknowledged.binary_search_by(|file| file.path[..].cmp(path)).is_ok();
    for key in store.keys() {
        let key = key?;
        if is_part(&key) {
            let path = key.split(|&byte| byte == 0).next().unwrap_or_default();
            if !is_acknowledged(path) && store.lookup(path)?.is_none() {
                others.leftover_parts += 1;
            }
        } else if !is_acknowledged(&key) {
            let result = match source.binary_search(&key) {
                Ok(_) => read(store, &key).map(|header| header.bytes),
                Err(_) => Err("was never stored".to_owned()),
            };
            others.checked.count(&key, result);
        }
    }
    Ok(others)
}

fn compare(store: &Store, expected: &Stored) -> Result<u64, String> {
    let header = read(store, &expected.path)?;
    if (header.bytes, header.checksum) != (expected.bytes, expected.checksum) {
        return Err(format!(
            "holds {} bytes with checksum {:016x}, stored were {} with {:016x}",
            header.bytes, header.checksum, expected.bytes, expected.checksum
        ));
    }
    Ok(header.bytes)
}

/// Reads a file and checks it against its own header.
fn read(store: &Store, path: &[u8]) -> Result<Header, String> {
    let record = store.lookup(path).map_err(words)?.ok_or("is not there")?;
    let (header, contents) = Header::decode(&record).ok_or("its record is not one")?;
    let (bytes, checksum) = if header.parts == 0 {
        (contents.len() as u64, xxh3_64(contents))
    } else {
        read_parts(store, path, header.parts)?
    };
    if (bytes, checksum) != (header.bytes, header.checksum) {
        return Err(format!(
            "holds {bytes} bytes with checksum {checksum:016x}, its header says {} with {:016x}",
            header.bytes, header.checksum
        ));
    }
    Ok(header)
}

fn read_parts(store: &Store, path: &[u8], parts: u32) -> Result<(u64, u64), String> {
    let mut checksum = Xxh3::new();
    let mut bytes = 0;
    for number in 0..parts {
        let part = store.lookup(part_key(path, number)).map_err(words)?;
        let part = part.ok_or_else(|| format!("its part {number} of {parts} is not there"))?;
        checksum.update(&part);
        bytes += part.len() as u64;
    }
    Ok((bytes, checksum.digest()))
}

fn words(error: Error) -> String {
    error.to_string()
}

impl Checked {
    fn count(&mut self, path: &[u8], result: Result<u64, String>) {
        match result {
            Ok(bytes) => {
                self.whole += 1;
                self.bytes += bytes;
            }
            Err(what) => {
                self.faulty += 1;
                self.keep(vec![Fault { path: shown(path), what }]);
            }
        }
    }

    fn add(&mut self, other: Checked) {
        self.whole += other.whole;
        self.bytes += other.bytes;
        self.faulty += other.faulty;
        self.keep(other.faults);
    }

    fn keep(&mut self, faults: Vec<Fault>) {
        let room = FAULTS_KEPT_MAX.saturating_sub(self.faults.len());
        self.faults.extend(faults.into_iter().take(room));
    }
}
