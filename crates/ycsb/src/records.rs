//! Keys and values of a run, from the numbers of records, so that every answer can be checked; and which records there are.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Odd, so that different numbers give different products: keys are not in the order of inserts.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The bytes of a value that name its record and its write.
const STAMP_BYTES: usize = 16;

/// The records of a run.
#[derive(Debug)]
pub struct YcsbRecords {
    tag: String,
    filler: Vec<u8>,
    /// The number of the next record.
    next: AtomicU64,
    /// All records below are there.
    present: AtomicU64,
    /// Those above that are there too.
    ahead: Mutex<BTreeSet<u64>>,
}

impl YcsbRecords {
    /// No record yet. `value_bytes` is at least 16. Different seeds give different keys.
    pub(crate) fn new(value_bytes: usize, seed: u64) -> Self {
        let byte = |at: usize| (seed.wrapping_mul(at as u64 | 1) >> 32) as u8;
        Self {
            tag: format!("ycsb-{:08x}-", (seed ^ (seed >> 32)) as u32),
            filler: (STAMP_BYTES..value_bytes).map(byte).collect(),
            next: AtomicU64::new(0),
            present: AtomicU64::new(0),
            ahead: Mutex::default(),
        }
    }

    /// How all keys begin.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The key of a record.
    pub(crate) fn key(&self, number: u64) -> String {
        format!("{}{:016x}", self.tag, number.wrapping_mul(SPREAD))
    }

    /// A key behind those of all records.
    pub(crate) fn end(&self) -> String {
        format!("{}g", self.tag)
    }

    /// The value of a record that the operation `write` writes.
    pub(crate) fn value(&self, number: u64, write: u64) -> Vec<u8> {
        [&number.to_le_bytes(), &write.to_le_bytes(), &*self.filler].concat()
    }

    /// The number of the record that a value belongs to; nothing if it is no such value.
    pub(crate) fn number_of(&self, value: &[u8]) -> Option<u64> {
        let (number, rest) = value.split_first_chunk()?;
        (rest.get(8..)? == self.filler).then(|| u64::from_le_bytes(*number))
    }

    /// The number of a record to be inserted.
    pub(crate) fn begin_insert(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The insert of this record was acknowledged.
    pub(crate) fn end_insert(&self, number: u64) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.insert(number);
        let mut present = self.present.load(Ordering::Relaxed);
        while ahead.remove(&present) {
            present += 1;
        }
        self.present.store(present, Ordering::Relaxed);
    }

    /// All records below this number are there.
    pub(crate) fn present(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// Inserts of records below this number may have begun.
    pub fn begun(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_counts_as_present_once_all_before_it_are() {
        let records = YcsbRecords::new(100, 7);
        let numbers = [(); 4].map(|()| records.begin_insert());
        assert_eq!((numbers, records.begun()), ([0, 1, 2, 3], 4));
        for (number, present) in [(1, 0), (0, 2), (3, 2), (2, 4)] {
            records.end_insert(number);
            assert_eq!(records.present(), present);
        }
    }

    #[test]
    fn value_names_its_record_and_no_other_bytes_are_a_value() {
        let records = YcsbRecords::new(100, 7);
        let value = records.value(5, 9);
        assert_eq!((value.len(), records.number_of(&value)), (100, Some(5)));
        assert_eq!(YcsbRecords::new(16, 7).number_of(&YcsbRecords::new(16, 7).value(3, 1)), Some(3));
        let mut other = value.clone();
        other[99] ^= 1;
        for broken in [&other, &value[..99], &[value.clone(), vec![0]].concat(), &[][..]] {
            assert_eq!(records.number_of(broken), None);
        }
    }

    #[test]
    fn keys_differ_by_record_and_run_and_are_below_the_end() {
        let records = YcsbRecords::new(16, 7);
        let keys: BTreeSet<String> = (0..5000).map(|number| records.key(number)).collect();
        assert_eq!(keys.len(), 5000);
        assert!(keys.last().unwrap() < &records.end());
        assert!(keys.first().unwrap() > &records.tag);
        assert_ne!(records.key(1), YcsbRecords::new(16, 8).key(1));
    }
}
