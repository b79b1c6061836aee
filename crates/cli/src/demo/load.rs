//! Storing the files, from several threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zerohop::Store;

use super::error::DemoError;
use super::limits::{GROUP_BYTES_MAX, GROUP_FILES_MAX, PART_BYTES, PARTS_AT_ONCE, THREADS_MAX};
use super::record::{Header, part_key};
use super::source::{Source, fill};

/// A file that the store has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) path: Vec<u8>,
    pub(super) bytes: u64,
    pub(super) checksum: u64,
}

/// Who hears what the store has acknowledged, from any of the threads.
pub(super) trait Listener: Sync {
    /// Some files.
    fn stored(&self, files: &[Stored]);
    /// Some parts of a file that is not complete.
    fn stored_parts(&self);
}

/// What was stored.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) files: Vec<Stored>,
    /// Files that could not be read.
    pub(super) unreadable: u64,
}

/// Stores every file of the source. Ends early with the first error of the store.
pub(super) fn load(store: &Store, source: &Source, listener: &dyn Listener) -> Result<Loaded, DemoError> {
    let shared = Shared {
        store,
        source,
        listener,
        group_files: group_files(source.files.len()),
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        loaded: Mutex::new(Loaded::default()),
    };
    let results: Vec<Result<(), DemoError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads()).map(|_| scope.spawn(|| shared.run())).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join();
        threads
            .into_iter()
            .map(|t| join(t).unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.into_iter().collect::<Result<(), _>>()?;
    let mut loaded = shared.loaded.into_inner().unwrap_or_else(PoisonError::into_inner);
    loaded.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(loaded)
}

/// Threads to work with: twice the cores, for each waits for flushes most of its time.
pub(super) fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    (2 * cores).clamp(2, THREADS_MAX)
}

/// Few files at a time where there are few, so that there are many acknowledgements to be killed between.
fn group_files(files: usize) -> usize {
    (files / (threads() * 32)).clamp(1, GROUP_FILES_MAX)
}

struct Shared<'a> {
    store: &'a Store,
    source: &'a Source,
    listener: &'a dyn Listener,
    group_files: usize,
    next: AtomicUsize,
    failed: AtomicBool,
    loaded: Mutex<Loaded>,
}

/// Files whose records are ready to be written together.
#[derive(Default)]
struct Group {
    records: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    files: Vec<Stored>,
    unreadable: u64,
}

impl Shared<'_> {
    fn run(&self) -> Result<(), DemoError> {
        let result = self.store_groups();
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }

    fn store_groups(&self) -> Result<(), DemoError> {
        let mut group = Group::default();
        while !self.failed.load(Ordering::Relaxed) {
            let first = self.next.fetch_add(self.group_files, Ordering::Relaxed);
            let files = self.source.files.iter().skip(first).take(self.group_files);
            if files.len() == 0 {
                break;
            }
            for path in files {
                match self.prepare(path, &mut group) {
                    Ok(()) => {}
                    Err(Refusal::Unreadable) => group.unreadable += 1,
                    Err(Refusal::Store(error)) => return Err(error),
                }
                if group.bytes >= GROUP_BYTES_MAX {
                    self.write(&mut group)?;
                }
            }
            self.write(&mut group)?;
        }
        Ok(())
    }

    /// Reads a file; stores its parts, if it has any, and puts its header into the group.
    fn prepare(&self, path: &[u8], group: &mut Group) -> Result<(), Refusal> {
        let mut file = self.source.open(path).map_err(|_| Refusal::Unreadable)?;
        let mut contents = Vec::new();
        fill(&mut file, &mut contents, PART_BYTES + 1).map_err(|_| Refusal::Unreadable)?;
        let header = if contents.len() <= PART_BYTES {
            Header { bytes: contents.len() as u64, checksum: xxh3_64(&contents), parts: 0 }
        } else {
            let header = self.store_parts(path, &mut file, &contents)?;
            contents.clear();
            header
        };
        let record = header.encode(&contents);
        group.bytes += record.len();
        group.records.push((path.to_vec(), record));
        group.files.push(Stored { path: path.to_vec(), bytes: header.bytes, checksum: header.checksum });
        Ok(())
    }

    fn store_parts(
        &self,
        path: &[u8],
        file: &mut impl std::io::Read,
        start: &[u8],
    ) -> Result<Header, Refusal> {
        let mut header = Header { bytes: 0, checksum: 0, parts: 0 };
        let mut checksum = Xxh3::new();
        let mut buffer = start.to_vec();
        let mut rest = Vec::new();
        while !buffer.is_empty() {
            fill(file, &mut rest, PART_BYTES * PARTS_AT_ONCE - buffer.len())
                .map_err(|_| Refusal::Unreadable)?;
            buffer.append(&mut rest);
            checksum.update(&buffer);
            header.bytes += buffer.len() as u64;
            let first = header.parts;
            let parts = (first..).zip(buffer.chunks(PART_BYTES));
            let parts: Vec<_> = parts.map(|(number, part)| (part_key(path, number), part.to_vec())).collect();
            header.parts += parts.len() as u32;
            self.store.insert_many(parts).map_err(refused)?;
            self.listener.stored_parts();
            buffer.clear();
            fill(file, &mut buffer, 1).map_err(|_| Refusal::Unreadable)?;
        }
        header.checksum = checksum.digest();
        Ok(header)
    }

    fn write(&self, group: &mut Group) -> Result<(), DemoError> {
        self.store
            .insert_many(std::mem::take(&mut group.records))
            .map_err(DemoError::store("storing files"))?;
        self.listener.stored(&group.files);
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.files.append(&mut group.files);
        loaded.unreadable += std::mem::take(&mut group.unreadable);
        group.bytes = 0;
        Ok(())
    }
}

enum Refusal {
    Unreadable,
    Store(DemoError),
}

fn refused(error: zerohop::Error) -> Refusal {
    Refusal::Store(DemoError::Store { doing: "storing the parts of a file", error })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes the files that are stored")]
mod tests {
    use super::*;
    use crate::demo::check::{check, check_others};
    use crate::demo::progress::Progress;

    /// Files of sizes around the part's, empty ones among them.
    fn files(root: &std::path::Path) -> Source {
        for (at, bytes) in
            [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 5 * PART_BYTES + 7].iter().enumerate()
        {
            let contents: Vec<u8> = (0..*bytes).map(|n| (n / 7 + n / 50_000 + at) as u8).collect();
            std::fs::write(root.join(format!("file {at}")), contents).unwrap();
        }
        Source::find(root, root.join("data").as_path()).unwrap()
    }

    #[test]
    fn files_of_all_sizes_are_read_back_and_any_change_is_found() {
        let root = tempfile::tempdir().unwrap();
        let source = files(root.path());
        let store = zerohop::open(root.path().join("data")).unwrap();
        std::fs::remove_file(root.path().join("file 1")).unwrap();
        let progress = Progress::default();
        let loaded = load(&store, &source, &progress).unwrap();
        assert_eq!((loaded.files.len(), loaded.unreadable), (5, 1), "one is gone since it was found");
        let checked = check(&store, &loaded.files, &progress);
        assert_eq!((checked.whole, checked.faulty), (5, 0), "{:?}", checked.faults);
        assert_eq!(checked.bytes as usize, 8 * PART_BYTES + 7);

        let others = check_others(&store, &loaded.files[..2], &source.files).unwrap();
        assert_eq!((others.checked.whole, others.leftover_parts), (3, 0));
        store.insert("not a file", "x").unwrap();
        store.insert(part_key(b"file 1", 0), "a part without its header").unwrap();
        store.insert(part_key(b"file 4", 1), "another last part").unwrap();
        assert!(store.remove(part_key(b"file 5", 3)).unwrap());
        store.insert("file 2", "no header").unwrap();
        store.remove("file 0").unwrap();
        let checked = check(&store, &loaded.files, &progress);
        assert_eq!((checked.whole, checked.faulty), (1, 4), "{:?}", checked.faults);
        let others = check_others(&store, &[], &source.files).unwrap();
        assert_eq!((others.checked.whole, others.checked.faulty, others.leftover_parts), (1, 4, 1));
    }
}
