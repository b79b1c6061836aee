//! A plain hash map with a box per value: a reference for memory alone, neither durable nor a peer.

use std::collections::HashMap;

use super::{Setup, Subject};
use crate::crash_safety::CrashSafe;
use crate::failure::Failure;
use crate::workload::{Key, Value};

/// Memory for all records is allocated at the start, as in KyotoCabinet and BerkeleyDB.
pub(crate) struct PlainMap {
    records: HashMap<Key, Box<[u8]>>,
}

impl Subject for PlainMap {
    const NAME: &'static str = "hash-map";
    const MODE: &'static str = "std HashMap, sized beforehand, a box per value, not durable";
    const CRASH_SAFE: CrashSafe = CrashSafe::None;

    fn open(setup: &Setup) -> Result<Self, Failure> {
        let records = usize::try_from(setup.records)
            .map_err(|_| Failure::Usage(format!("{} records do not fit in memory", setup.records)))?;
        Ok(PlainMap { records: HashMap::with_capacity(records) })
    }

    fn insert(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
        self.records.insert(*key, Box::from(value.as_slice()));
        Ok(())
    }

    fn lookup(&mut self, key: &Key, into: &mut Value) -> Result<bool, Failure> {
        let found = self.records.get(key);
        if let Some(value) = found {
            into.copy_from_slice(value);
        }
        Ok(found.is_some())
    }

    fn overwrite(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
        self.insert(key, value)
    }

    fn remove(&mut self, key: &Key) -> Result<(), Failure> {
        match self.records.remove(key) {
            Some(_) => Ok(()),
            None => Err(Failure::Store("no such record".into())),
        }
    }

    fn finish_phase(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    fn close(self) -> Result<(), Failure> {
        Ok(())
    }
}
