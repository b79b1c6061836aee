//! Registers: versions give the order of writes.

use std::collections::BTreeMap;

use super::{Anomaly, CheckedAction, Edge, EdgeReason, HistoryIndex, TransactionFate};

/// Per version: the value, its writer, and the first transaction that has read or written it.
type Versions = BTreeMap<u64, (u64, usize, usize)>;

/// The known versions of registers.
pub(super) struct Registers {
    versions: BTreeMap<u64, Versions>,
    /// Each reader, with the register and its version.
    reads: Vec<(usize, u64, u64)>,
}

impl Registers {
    pub(super) fn of(known: &mut HistoryIndex<'_>) -> Result<Registers, Anomaly> {
        let mut registers = Registers { versions: BTreeMap::new(), reads: Vec::new() };
        let mut version_of: BTreeMap<(u64, u64), (u64, usize)> = BTreeMap::new();
        let history = known.history;
        for (number, transaction) in history.iter().enumerate() {
            let mut own: BTreeMap<u64, u64> = BTreeMap::new();
            for action in &transaction.actions {
                let (key, value, version) = match *action {
                    CheckedAction::Write { key, value, version } => {
                        own.insert(key, value);
                        let is_over = known.writers.get(&(key, value)).is_some_and(|(_, over)| *over);
                        // A value that the same transaction has overwritten has no version.
                        let Some(version) = version.filter(|_| !is_over) else { continue };
                        (key, value, version)
                    }
                    CheckedAction::Look { key, value, version }
                        if transaction.fate == TransactionFate::Committed =>
                    {
                        match own.get(&key) {
                            Some(written) if *written != value => {
                                return Err(Anomaly::Internal { reader: number, key });
                            }
                            Some(_) => continue,
                            None => {}
                        }
                        known.writer(number, (key, value), true)?;
                        registers.reads.push((number, key, version));
                        (key, value, version)
                    }
                    _ => continue,
                };
                let (writer, _) = known.writers[&(key, value)];
                let of_value = *version_of.entry((key, value)).or_insert((version, number));
                let versions = registers.versions.entry(key).or_default();
                let of_version = *versions.entry(version).or_insert((value, writer, number));
                if of_value.0 != version {
                    return Err(Anomaly::Versions { one: of_value.1, other: number, key });
                }
                if of_version.0 != value {
                    return Err(Anomaly::Versions { one: of_version.2, other: number, key });
                }
            }
        }
        Ok(registers)
    }

    pub(super) fn edges(&self, known: &HistoryIndex<'_>, add: &mut impl FnMut(Edge)) {
        for versions in self.versions.values() {
            let mut before = None;
            for (_, writer, _) in versions.values() {
                if let Some(before) = before.replace(*writer) {
                    add((before, *writer, EdgeReason::WriteWrite));
                }
            }
        }
        for (reader, key, version) in &self.reads {
            let versions = &self.versions[key];
            add((versions[version].1, *reader, EdgeReason::WriteRead));
            let mut later = versions.range(version + 1..).map(|(_, (_, writer, _))| *writer);
            if let Some(writer) = later.find(|writer| writer != reader) {
                add((*reader, writer, EdgeReason::ReadWrite));
            }
        }
        debug_assert!(
            self.reads.iter().all(|(reader, ..)| known.happened.contains(reader)),
            "they are known"
        );
    }
}
