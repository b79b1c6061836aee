//! The stores in Rust that can be measured, and their interface.
//!
//! To add one: a file beside this one with a type that implements [`Subject`], and a line in
//! [`REGISTRY`](crate::registry::REGISTRY). The driver starts a process for every run, with an empty
//! folder, and finds the subject by its name.

pub(crate) mod hash_map;
pub(crate) mod zerohop;

use std::path::PathBuf;

use crate::crash_safety::CrashSafe;
use crate::failure::Failure;
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
