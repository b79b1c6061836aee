//! Entries become corrupt, and are repaired with another replica's entry.

use zerohop_engine::disk::{Disk, OpenMode};
use zerohop_engine::{CorruptEntry, Durability, ScrubPosition};

use super::part::ModelledPartition;
use super::world::EngineWorld;

/// Fewer bytes may occur elsewhere too.
const DISTINCT_BYTES_MIN: usize = 16;

impl EngineWorld {
    /// A random entry becomes corrupt, is found, and is repaired. Then its bytes on the disk are
    /// restored, so that no later start finds corruption; the engine does not know that, and
    /// rewrites the segment.
    pub fn repair(&mut self, at: usize) -> Result<(), String> {
        let ModelledPartition { id, handle, durability, is_unsure, is_dropping, .. } = self.parts[at];
        let is_well = !is_unsure && !is_dropping && self.parts[at].splitting.is_none();
        let last = self.parts[at].last();
        if self.disturbed || !is_well || durability == Durability::Memory || last == 0 {
            return Ok(());
        }
        let entry = self.parts[at].log[self.random.below(last) as usize].clone();
        if entry.payload.len() < DISTINCT_BYTES_MIN {
            return Ok(());
        }
        let expected = [&*entry.key, &*entry.payload].concat();
        let folder = match self.plan.is_shared() {
            true => "log".to_owned(),
            false => format!("p-{:016x}", id.0),
        };
        let within = entry.key.len() + self.random.below(entry.payload.len() as u64) as usize;
        let Some((path, offset)) = self.find_on_disk(&folder, &expected) else {
            return Ok(());
        };
        let offset = offset + within as u64;
        if self.disk.corrupt_at(&path, offset, 0x20).is_err() {
            // It is not durable yet.
            return Ok(());
        }
        let corrupt = self.scrub(handle)?;
        self.trace(|| format!("p{at} entry {} becomes corrupt in {path}: {corrupt:?}", entry.meta.index));
        for CorruptEntry { index, .. } in corrupt {
            let entry = self.parts[at].log[index as usize - 1].clone();
            let name = (entry.meta.epoch, index, entry.meta.timestamp);
            let is_repaired = self.engine().repair(handle, name, &entry.key, &entry.payload);
            self.trace(|| format!("p{at} entry {index} repaired: {is_repaired:?}"));
            is_repaired.map_err(|e| format!("p{at}: repair {index}: {e}"))?;
        }
        self.disk.corrupt_at(&path, offset, 0x20).map_err(|e| format!("{path} cannot turn right: {e}"))
    }

    fn find_on_disk(&self, folder: &str, expected: &[u8]) -> Option<(String, u64)> {
        let mut disk = self.disk.clone();
        let names = disk.list(folder).expect("lists");
        names.into_iter().filter(|name| name.name.ends_with(".seg") || name.name.ends_with(".log")).find_map(
            |name| {
                let path = format!("{folder}/{}", name.name);
                let file = disk.open(&path, OpenMode::Existing).expect("is there");
                let mut bytes = vec![0; name.bytes as usize];
                disk.read_at(file, 0, &mut bytes).expect("reads");
                disk.close(file);
                let offset = bytes.windows(expected.len()).position(|window| window == expected)?;
                Some((path, offset as u64))
            },
        )
    }

    fn scrub(&mut self, handle: zerohop_engine::Handle) -> Result<Vec<CorruptEntry>, String> {
        let (mut corrupt, mut from) = (Vec::new(), Some(ScrubPosition::default()));
        while let Some(at) = from {
            let scrubbed = self.engine().scrub(handle, at, 64 << 10).map_err(|e| format!("scrub: {e}"))?;
            corrupt.extend(scrubbed.corrupt);
            from = scrubbed.next;
        }
        Ok(corrupt)
    }
}
