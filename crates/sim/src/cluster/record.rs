//! The file of an instance beside its engine: its timestamp bound, and the process starts during which this disk was in
//! use. An empty disk is not intact, although it may look so. Only a disk that was in use during the start that a group
//! names can have the data of that start (`docs/protocols/replication.md`).

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::disk::{Disk, DiskError, OpenMode};
use zerohop_wire::ids::{Incarnation, Timestamp};

use crate::limits::STARTS_REMEMBERED_MAX;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LifeFile {
    pub(crate) timestamp_bound: Timestamp,
    /// The newest is the last.
    pub(crate) starts: Vec<Incarnation>,
    /// The start that has shut down cleanly, if the last one has.
    pub(crate) closed: Option<Incarnation>,
}

const FILE: &str = "instance.record";
const BESIDE: &str = "instance.record.new";

impl LifeFile {
    pub(crate) fn begin(&mut self, incarnation: Incarnation) {
        self.closed = None;
        self.starts.push(incarnation);
        if self.starts.len() > STARTS_REMEMBERED_MAX {
            self.starts.remove(0);
        }
    }
}

/// Reads the file; an empty disk gives the default.
pub(crate) fn read(disk: &mut SimulatedDisk) -> LifeFile {
    let Ok(file) = disk.open(FILE, OpenMode::Existing) else { return LifeFile::default() };
    let bytes = disk.bytes(file).unwrap_or(0);
    let mut words = Vec::new();
    for at in 0..bytes / 8 {
        let mut word = [0; 8];
        if disk.read_at(file, at * 8, &mut word).is_ok() {
            words.push(u64::from_le_bytes(word));
        }
    }
    disk.close(file);
    match words[..] {
        [timestamp_bound, closed, ref starts @ ..] => LifeFile {
            timestamp_bound: Timestamp(timestamp_bound),
            closed: Some(Incarnation(closed)).filter(|start| start.get() != 0),
            starts: starts.iter().map(|start| Incarnation(*start)).collect(),
        },
        _ => LifeFile::default(),
    }
}

/// Replaces the file atomically.
pub(crate) fn write(disk: &mut SimulatedDisk, record: &LifeFile) -> Result<(), DiskError> {
    // Removes the remains of an earlier attempt; mostly there are none.
    let _ = disk.remove(BESIDE);
    let file = disk.open(BESIDE, OpenMode::Create)?;
    let closed = record.closed.map_or(0, Incarnation::get);
    let words =
        [record.timestamp_bound.0, closed].into_iter().chain(record.starts.iter().map(|start| start.0));
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let written = disk.append(file, &bytes).and_then(|()| disk.sync(file));
    disk.close(file);
    written?;
    disk.rename(BESIDE, FILE)?;
    disk.sync_dir("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn life_file_survives_crash_and_is_default_on_empty_disk() {
        let mut disk = SimulatedDisk::new(3);
        assert_eq!(read(&mut disk), LifeFile::default());
        let mut record = LifeFile { timestamp_bound: Timestamp(9), ..LifeFile::default() };
        (0..200).for_each(|start| record.begin(Incarnation(start)));
        assert_eq!(
            (record.starts.len(), record.starts.last()),
            (STARTS_REMEMBERED_MAX, Some(&Incarnation(199)))
        );
        write(&mut disk, &record).unwrap();
        disk.crash();
        assert_eq!(read(&mut disk), record);
    }
}
