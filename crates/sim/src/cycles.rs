//! Strict serializability of histories of transactions on lists and registers, by search for cycles
//! in the manner of Elle (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from
//! Experimental Observations", 2020).
//!
//! Every value is written once, so a list that was read gives the order in which its values were
//! written. For registers the versions give it. These orders give edges between transactions: *ww*
//! from a writer to the writer of the next value, *wr* from a writer to a reader of its value, and
//! *rw* from a reader to the writer of the value that followed. *Real time* leads from a
//! transaction that had ended to one that began later. If the edges form a cycle, no serial order
//! of the transactions exists. A history without a cycle may still be wrong where no transaction
//! read; so it ends with a read of everything.
//!
//! ```text
//!   actions ──> lists, registers ──> edges ──┐
//!   begin, end ──> search: real time ────────┴──> search: the simplest cycle (G0 to G2)
//!       └──> wrong without a cycle: unwritten values, aborted (G1a), intermediate (G1b) reads
//! ```
//!
//! This file and those in its folder need only the standard library: the tests of
//! `crates/transaction` include them unchanged.

#[path = "cycles/lists.rs"]
mod lists;
#[path = "cycles/registers.rs"]
mod registers;
#[path = "cycles/search.rs"]
mod search;
#[cfg(test)]
#[path = "cycles/tests.rs"]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

/// The outcome of a transaction, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionFate {
    /// It is committed.
    Committed,
    /// It had no effect and never will.
    Aborted,
    /// The client does not know.
    Unknown,
}

/// An action of a transaction on a list or a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckedAction {
    /// Appends a value that no other action appends.
    Append {
        /// The list.
        key: u64,
        /// The value.
        value: u64,
    },
    /// Reads a list, including the effects of earlier actions of the same transaction.
    Read {
        /// The list.
        key: u64,
        /// Its values.
        values: Vec<u64>,
    },
    /// Writes a value that no other action writes.
    Write {
        /// The register.
        key: u64,
        /// The value.
        value: u64,
        /// The version of the write, if the client knows it.
        version: Option<u64>,
    },
    /// Reads a register, including the effects of earlier actions of the same transaction.
    Look {
        /// The register.
        key: u64,
        /// Its value.
        value: u64,
        /// Its version.
        version: u64,
    },
}

/// One transaction of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The time of its submission.
    pub begin: u64,
    /// The time at which its client learned of its end.
    pub end: Option<u64>,
    /// Its outcome.
    pub fate: TransactionFate,
    /// Its actions, in order. Reads of a transaction that is not known to be committed are ignored.
    pub actions: Vec<CheckedAction>,
}

/// The reason why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeReason {
    /// It wrote the value before the other's.
    WriteWrite,
    /// The other read what it wrote.
    WriteRead,
    /// It did not read what the other wrote.
    ReadWrite,
    /// It had ended when the other began.
    RealTime,
}

/// The first transaction comes before the second, by their numbers in the history.
pub type Edge = (usize, usize, EdgeReason);

/// An observation that no serial order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A value was read that an aborted transaction wrote (G1a).
    AbortedRead {
        /// The reader.
        reader: usize,
        /// The value.
        value: u64,
    },
    /// A value was read that the same transaction overwrote (G1b).
    Intermediate {
        /// The reader.
        reader: usize,
        /// The value.
        value: u64,
    },
    /// A value was read that no transaction wrote there.
    Phantom {
        /// The reader.
        reader: usize,
        /// The value.
        value: u64,
    },
    /// A value occurs twice in a list.
    Duplicate {
        /// The reader.
        reader: usize,
        /// The value.
        value: u64,
    },
    /// Two reads of a list returned values of which neither is a prefix of the other.
    Incompatible {
        /// The reader of one.
        one: usize,
        /// The reader of the other.
        other: usize,
        /// The list.
        key: u64,
    },
    /// A transaction does not read its own write.
    Internal {
        /// The transaction.
        reader: usize,
        /// The list or register.
        key: u64,
    },
    /// One version of a register has two values, or one value has two versions.
    Versions {
        /// A transaction that has read or written one of them.
        one: usize,
        /// A transaction with the other.
        other: usize,
        /// The register.
        key: u64,
    },
    /// Each transaction must come before the next, and the last before the first.
    Cycle(Vec<Edge>),
}

/// The class of a cycle, by Adya's names; each may have edges of real time in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CycleClass {
    /// Writes only.
    G0,
    /// Writes, and reads of their values.
    G1c,
    /// One read of a value that was overwritten.
    GSingle,
    /// Several such reads.
    G2,
}

impl CycleClass {
    /// The class of a cycle.
    #[must_use]
    pub fn of(cycle: &[Edge]) -> CycleClass {
        let count = |what| cycle.iter().filter(|(_, _, why)| *why == what).count();
        match (count(EdgeReason::ReadWrite), count(EdgeReason::WriteRead)) {
            (0, 0) => CycleClass::G0,
            (0, _) => CycleClass::G1c,
            (1, _) => CycleClass::GSingle,
            _ => CycleClass::G2,
        }
    }
}

/// What is known of a history before its edges are computed.
struct HistoryIndex<'h> {
    history: &'h [Transaction],
    /// The writer of each value of each key, and whether the same transaction overwrote it.
    writers: BTreeMap<(u64, u64), (usize, bool)>,
    /// Transactions that took effect: their client knows, or another transaction has read their
    /// values.
    happened: BTreeSet<usize>,
}

impl<'h> HistoryIndex<'h> {
    fn of(history: &'h [Transaction]) -> HistoryIndex<'h> {
        let mut writers = BTreeMap::new();
        let mut happened = BTreeSet::new();
        for (number, transaction) in history.iter().enumerate() {
            if transaction.fate == TransactionFate::Committed {
                happened.insert(number);
            }
            let mut last: BTreeMap<u64, u64> = BTreeMap::new();
            for action in &transaction.actions {
                let (CheckedAction::Append { key, value } | CheckedAction::Write { key, value, .. }) = action
                else {
                    continue;
                };
                if let Some(before) = last.insert(*key, *value) {
                    writers.insert((*key, before), (number, true));
                }
                writers.insert((*key, *value), (number, false));
            }
        }
        HistoryIndex { history, writers, happened }
    }

    /// The writer of a value that a transaction has read; `ends` says that the value is the last
    /// one there.
    fn writer(&mut self, reader: usize, (key, value): (u64, u64), ends: bool) -> Result<usize, Anomaly> {
        let Some((writer, is_written_over)) = self.writers.get(&(key, value)).copied() else {
            return Err(Anomaly::Phantom { reader, value });
        };
        if self.history[writer].fate == TransactionFate::Aborted {
            return Err(Anomaly::AbortedRead { reader, value });
        }
        if is_written_over && ends && writer != reader {
            return Err(Anomaly::Intermediate { reader, value });
        }
        self.happened.insert(writer);
        Ok(writer)
    }

    fn committed(&self) -> impl Iterator<Item = (usize, &'h Transaction)> + use<'h> {
        self.history.iter().enumerate().filter(|(_, one)| one.fate == TransactionFate::Committed)
    }
}

/// The edges that follow from reads, without those of real time.
///
/// # Errors
/// An anomaly without a cycle.
pub fn dependencies(history: &[Transaction]) -> Result<Vec<Edge>, Anomaly> {
    let mut known = HistoryIndex::of(history);
    let mut edges = BTreeSet::new();
    let mut add = |(from, to, why): Edge| {
        if from != to {
            edges.insert((from, to, why));
        }
    };
    let (lists, registers) = (lists::Lists::of(&mut known)?, registers::Registers::of(&mut known)?);
    lists.edges(&known, &mut add);
    registers.edges(&known, &mut add);
    Ok(edges.into_iter().collect())
}

/// Checks that a serial order of the transactions explains all reads and respects real time.
///
/// # Errors
/// An anomaly; of several cycles a short one of the simplest class.
pub fn check(history: &[Transaction]) -> Result<(), Anomaly> {
    let mut edges = dependencies(history)?;
    edges.extend(search::real_time(history));
    search::cycle(history.len(), &edges).map_or(Ok(()), |cycle| Err(Anomaly::Cycle(cycle)))
}
