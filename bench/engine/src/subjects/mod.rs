//! The stores in Rust that can be measured, and their interface.
//!
//! To add one: a file beside this one with a type that implements [`Subject`], and a line in
//! [`REGISTRY`]. The driver starts a process for every run, with an empty folder, and finds the
//! subject by its name.

mod hash_map;
pub(crate) mod zerohop;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::measure;
use crate::reading::Run;
use crate::workload::{Key, Value};

/// A store being measured: one thread calls it, one operation at a time.
pub(crate) trait Subject: Sized {
    /// Its name in the table and on the command line. Names of zerohop begin with `zerohop`.
    const NAME: &'static str;
    /// Durability and tuning, in half a line.
    const MODE: &'static str;
    /// The failures that it survives in this mode.
    const CRASH_SAFE: CrashSafe;

    /// Opens an empty store in `setup.dir`.
    fn open(setup: &Setup) -> Result<Self, Failure>;
    /// Stores a new record, without waiting for a disk.
    fn insert(&mut self, key: &Key, value: &Value) -> Result<(), Failure>;
    /// Copies the value out, as all subjects do, and returns whether there is one.
    fn lookup(&mut self, key: &Key, into: &mut Value) -> Result<bool, Failure>;
    /// Replaces the value of an existing record.
    fn overwrite(&mut self, key: &Key, value: &Value) -> Result<(), Failure>;
    /// Removes an existing record.
    fn remove(&mut self, key: &Key) -> Result<(), Failure>;
    /// Ends a phase: when it returns, all accepted data is on disk, and no background work is left.
    /// Timed separately from the operations.
    fn finish_phase(&mut self) -> Result<(), Failure>;
    /// The store's own figure of its memory, beside the system's figure of the process.
    fn memory_bytes(&self) -> Option<u64>;
    /// Closes the store; its folder is removed afterwards.
    fn close(self) -> Result<(), Failure>;
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// An empty folder for the subject. Its size is measured as `du` does.
    pub(crate) dir: PathBuf,
    /// The highest number of records at any time.
    pub(crate) records: u64,
    /// The number of partitions, for a subject that has them.
    pub(crate) partitions: usize,
    /// The round: it gives other keys in each, the same for all subjects.
    pub(crate) seed: u64,
    /// Whether to run the mixed load too.
    pub(crate) mixed: bool,
}

/// The failures that a store survives, without a sync per operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CrashSafe {
    /// A killed process can leave it corrupt, or without answered changes.
    None,
    /// All answered changes survive a killed process; a power cut can leave the store corrupt.
    Process,
    /// Also after a power cut it opens and is consistent, without the last unsynced changes.
    Power,
}

/// A line of the registry.
pub(crate) struct Entry {
    /// [`Subject::NAME`].
    pub(crate) name: &'static str,
    /// Whether it is measured for each of `--partitions`, or only once.
    pub(crate) partitioned: bool,
    /// Runs all phases on it.
    pub(crate) run: fn(&Setup) -> Result<Run, Failure>,
}

/// All subjects in Rust, in the order of the table.
pub(crate) const REGISTRY: &[Entry] = &[entry::<zerohop::Zerohop>(true), entry::<hash_map::PlainMap>(false)];

/// The subject of that name.
pub(crate) fn find(name: &str) -> Result<&'static Entry, Failure> {
    REGISTRY
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| Failure::Usage(format!("no subject is called {name}")))
}

const fn entry<S: Subject>(partitioned: bool) -> Entry {
    Entry { name: S::NAME, partitioned, run: measure::run::<S> }
}
