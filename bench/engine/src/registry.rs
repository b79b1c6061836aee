//! The subjects in Rust by their names.

use crate::failure::Failure;
use crate::measure;
use crate::reading::Run;
use crate::subjects::hash_map::PlainMap;
use crate::subjects::zerohop::Zerohop;
use crate::subjects::{Setup, Subject};

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
pub(crate) const REGISTRY: &[Entry] = &[entry::<Zerohop>(true), entry::<PlainMap>(false)];

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
