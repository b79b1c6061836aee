//! Strict serializability of histories of transactions on lists and registers, by looking for cycles, in the manner of Elle
//! (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", 2020).
//!
//! Every value is written once, so a list that was read tells in which order its values were written; of registers the
//! versions tell it. From that follow edges: *ww* from who wrote a value to who wrote the next, *wr* from who wrote what was
//! read to who read it, *rw* from who read to who wrote what came next; and *real time* from who had ended to who began
//! after. If they lead in a circle there is no order in which the transactions could have happened one after another. A
//! history without a circle may still be wrong where nobody read; so it ends with a read of everything.
//!
//! ```text
//!   actions ──> lists, registers ──> edges ──┐
//!   begin, end ──> search: real time ────────┴──> search: the simplest cycle there is (G0, G1c, G-single, G2)
//!        └──> what needs no cycle to be wrong: values of nobody, of who was aborted (G1a), of the midst of one (G1b)
//! ```
//!
//! This file and those in its folder need nothing but the standard library: the tests of `crates/transaction` take them in as
//! they stand.

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

/// How a transaction ended, as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionFate {
    /// It is done.
    Committed,
    /// It is not done, and never will be.
    Aborted,
    /// The client was never told.
    Unknown,
}

/// What a transaction does to a list or to a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckedAction {
    /// Appends a value that nobody else appends.
    Append {
        /// To which list.
        key: u64,
        /// The value.
        value: u64,
    },
    /// Reads a list, as the actions before it have left it.
    Read {
        /// Which list.
        key: u64,
        /// Its values.
        values: Vec<u64>,
    },
    /// Writes a value that nobody else writes.
    Write {
        /// To which register.
        key: u64,
        /// The value.
        value: u64,
        /// The version that it made, if its client knows.
        version: Option<u64>,
    },
    /// Reads a register, as the actions before it have left it.
    Look {
        /// Which register.
        key: u64,
        /// What is in it.
        value: u64,
        /// Of which version.
        version: u64,
    },
}

/// One transaction of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// When it was asked for.
    pub begin: u64,
    /// When its client knew of its end.
    pub end: Option<u64>,
    /// How it ended.
    pub fate: TransactionFate,
    /// What it did, in order. Reads of one that is not known to be committed are not looked at.
    pub actions: Vec<CheckedAction>,
}

/// Why one transaction must come before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeReason {
    /// It wrote the value before the other's.
    WriteWrite,
    /// The other has read what it wrote.
    WriteRead,
    /// It has not read what the other wrote.
    ReadWrite,
    /// It had ended when the other began.
    RealTime,
}

/// That one comes before the other, by their numbers in the history.
pub type Edge = (usize, usize, EdgeReason);

/// What no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A value was read that an aborted transaction has written (G1a).
    AbortedRead {
        /// By whom.
        reader: usize,
        /// Which value.
        value: u64,
    },
    /// What was read is from the midst of a transaction: the same has written there again (G1b).
    Intermediate {
        /// By whom.
        reader: usize,
        /// Which value.
        value: u64,
    },
    /// A value was read that nobody has written there.
    Phantom {
        /// By whom.
        reader: usize,
        /// Which value.
        value: u64,
    },
    /// A value stands twice in a list.
    Duplicate {
        /// Who has read it.
        reader: usize,
        /// Which value.
        value: u64,
    },
    /// Neither of two lists that were read is the beginning of the other.
    Incompatible {
        /// Who has read one.
        one: usize,
        /// Who has read the other.
        other: usize,
        /// Which list.
        key: u64,
    },
    /// A transaction does not read what it has written itself.
    Internal {
        /// Which.
        reader: usize,
        /// Of which list or register.
        key: u64,
    },
    /// One version of a register is of two values, or one value of two versions.
    Versions {
        /// Who has read or written one of them.
        one: usize,
        /// Who has the other.
        other: usize,
        /// Which register.
        key: u64,
    },
    /// Each must come before the next, and the last before the first.
    Cycle(Vec<Edge>),
}

/// The kind of a cycle, by Adya's names; each may have edges of real time in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CycleClass {
    /// Writes only.
    G0,
    /// Writes, and reads of them.
    G1c,
    /// One read of what was written over.
    GSingle,
    /// Several of them.
    G2,
}

impl CycleClass {
    /// That of a cycle.
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

/// What is known of a history before its edges are.
struct KnownHistory<'h> {
    history: &'h [Transaction],
    /// Who has written a value where, and whether it has written there again after that.
    writers: BTreeMap<(u64, u64), (usize, bool)>,
    /// Those of whom something was read, and those whose client knows.
    happened: BTreeSet<usize>,
}

impl<'h> KnownHistory<'h> {
    fn of(history: &'h [Transaction]) -> KnownHistory<'h> {
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
        KnownHistory { history, writers, happened }
    }

    /// Who has written what somebody else has read; `ends`: nothing is above it there.
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

/// The edges that follow from what was read, without those of real time.
///
/// # Errors
/// What needs no cycle to be wrong.
pub fn dependencies(history: &[Transaction]) -> Result<Vec<Edge>, Anomaly> {
    let mut known = KnownHistory::of(history);
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

/// Checks that some order of the transactions explains what all have read, and respects real time.
///
/// # Errors
/// What cannot be explained; of cycles one of the simplest kind that there is, and of those a short one.
pub fn check(history: &[Transaction]) -> Result<(), Anomaly> {
    let mut edges = dependencies(history)?;
    edges.extend(search::real_time(history));
    search::cycle(history.len(), &edges).map_or(Ok(()), |cycle| Err(Anomaly::Cycle(cycle)))
}
