//! The stores written in Rust that can be measured, and what they must offer.
//!
//! To add one: a file beside this one with a type that implements [`Subject`], and a line in [`REGISTRY`]. The driver
//! starts a process of its own for every run, with an empty folder, and finds the subject there by its name.

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
    /// As it stands in the table and on the command line. Ours begin with `zerohop`.
    const NAME: &'static str;
    /// What is durable when, and how it is tuned, in half a line.
    const MODE: &'static str;
    /// What it survives in this mode.
    const CRASH_SAFE: CrashSafe;

    /// Opens an empty store in `setup.dir`.
    fn open(setup: &Setup) -> Result<Self, Failure>;
    /// Stores a new record, without waiting for a disk.
    fn insert(&mut self, key: &Key, value: &Value) -> Result<(), Failure>;
    /// Copies the value out, as all subjects do, and says whether there is one.
    fn lookup(&mut self, key: &Key, into: &mut Value) -> Result<bool, Failure>;
    /// Replaces the value of a record that is there.
    fn overwrite(&mut self, key: &Key, value: &Value) -> Result<(), Failure>;
    /// Removes a record that is there.
    fn remove(&mut self, key: &Key) -> Result<(), Failure>;
    /// Ends a phase: all that was accepted is on the disk, and no background work is left, when it returns. Timed
    /// apart from the operations.
    fn settle(&mut self) -> Result<(), Failure>;
    /// The memory that the store says it uses, beside what the system says of the process.
    fn memory_bytes(&self) -> Option<u64>;
    /// Closes the store; its folder is removed afterwards.
    fn close(self) -> Result<(), Failure>;
}

/// Where and how large.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// An empty folder of the subject's own. What it occupies is measured with the eyes of `du`.
    pub(crate) dir: PathBuf,
    /// How many records there will be at most.
    pub(crate) records: u64,
    /// Over how many partitions to spread them, for a subject that has such.
    pub(crate) partitions: usize,
    /// The round: other keys in each, the same for all subjects.
    pub(crate) seed: u64,
    /// Whether to run the mixed load too.
    pub(crate) mixed: bool,
}

/// What a store survives, without a sync per operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CrashSafe {
    /// A killed process can leave it broken, or without changes that were answered.
    None,
    /// All that was answered survives a killed process; a power cut can leave the store broken.
    Process,
    /// Also after a power cut it opens and is consistent, though without the last unsynced changes.
    Power,
}

/// A line of the registry.
pub(crate) struct Entry {
    /// [`Subject::NAME`].
    pub(crate) name: &'static str,
    /// Whether it is measured once for each of `--partitions`, or once only.
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
