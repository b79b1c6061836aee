//! A disk in memory, for a node without a data folder. Its contents are lost with the process.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_engine::disk::names::{DiskNames, NameTarget};
use zerohop_engine::disk::{DirEntry, Disk, DiskError, DiskResult, FileId, OpenMode, SyncTicket};

/// Maximum number of bytes. Partitions in memory write nothing here; other contents are small, and this limits them.
pub const MEMORY_DISK_BYTES_MAX: u64 = 64 << 20;

/// Files in memory.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    names: DiskNames,
    /// By the numbers of `names`.
    files: BTreeMap<u64, Vec<u8>>,
    open: BTreeMap<FileId, u64>,
    begun: BTreeSet<SyncTicket>,
    next_id: u64,
    used_bytes: u64,
}

impl MemoryDisk {
    fn number(&self, file: FileId, operation: &'static str) -> DiskResult<u64> {
        self.open.get(&file).copied().ok_or_else(|| DiskError::not_open(file, operation))
    }

    fn file(&mut self, file: FileId, operation: &'static str) -> DiskResult<&mut Vec<u8>> {
        let number = self.number(file, operation)?;
        self.files.get_mut(&number).ok_or_else(|| DiskError::not_open(file, operation))
    }

    fn beyond_end(&self, file: FileId, offset: u64, bytes: usize) -> DiskError {
        let number = self.open.get(&file).copied();
        let found = self.names.files().into_iter().find(|(_, other)| Some(*other) == number);
        let path = found.map_or_else(String::new, |(path, _)| path);
        DiskError::BeyondEnd { path, offset, bytes: bytes as u64 }
    }

    /// Removes a file that has lost its name, and invalidates its ids.
    fn remove_unnamed(&mut self, file: Option<u64>) {
        let Some(file) = file else { return };
        self.open.retain(|_, open| *open != file);
        let bytes = self.files.remove(&file).unwrap_or_default();
        self.used_bytes -= bytes.len() as u64;
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

impl Disk for MemoryDisk {
    fn open(&mut self, path: &str, mode: OpenMode<'_>) -> DiskResult<FileId> {
        let file = match mode {
            OpenMode::Existing => self.names.file(path, "open")?,
            OpenMode::Create => {
                let file = self.names.create(path)?;
                self.names.make_all_durable();
                self.files.insert(file, Vec::new());
                file
            }
            OpenMode::Recycled { from } => {
                let file = self.names.recycle(from, path)?;
                self.names.make_all_durable();
                self.open.retain(|_, open| *open != file);
                let old = self.files.insert(file, Vec::new()).unwrap_or_default();
                self.used_bytes -= old.len() as u64;
                file
            }
        };
        let id = FileId(self.next_id());
        self.open.insert(id, file);
        Ok(id)
    }

    fn close(&mut self, file: FileId) {
        self.open.remove(&file);
    }

    fn bytes(&mut self, file: FileId) -> DiskResult<u64> {
        Ok(self.file(file, "bytes")?.len() as u64)
    }

    fn append(&mut self, file: FileId, data: &[u8]) -> DiskResult<()> {
        self.append_pieces(file, &[data])
    }

    fn append_pieces(&mut self, file: FileId, pieces: &[&[u8]]) -> DiskResult<()> {
        let total_bytes = self.used_bytes + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let bytes = self.file(file, "append")?;
        if total_bytes > MEMORY_DISK_BYTES_MAX {
            return Err(DiskError::Full);
        }
        pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        self.used_bytes = total_bytes;
        Ok(())
    }

    fn read_at(&mut self, file: FileId, offset: u64, into: &mut [u8]) -> DiskResult<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        match self.file(file, "read_at")?.get(start..start.saturating_add(into.len())) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => return Err(self.beyond_end(file, offset, into.len())),
        }
        Ok(())
    }

    fn sync(&mut self, file: FileId) -> DiskResult<()> {
        self.file(file, "sync").map(drop)
    }

    fn sync_begin(&mut self, file: FileId) -> DiskResult<SyncTicket> {
        self.number(file, "sync_begin")?;
        let ticket = SyncTicket(self.next_id());
        self.begun.insert(ticket);
        Ok(ticket)
    }

    fn sync_done(&mut self, ticket: SyncTicket) -> DiskResult<bool> {
        if self.begun.remove(&ticket) { Ok(true) } else { Err(DiskError::no_such_ticket(ticket)) }
    }

    fn truncate(&mut self, file: FileId, bytes: u64) -> DiskResult<()> {
        let contents = self.file(file, "truncate")?;
        let Some(cut) = (contents.len() as u64).checked_sub(bytes) else {
            return Err(self.beyond_end(file, bytes, 0));
        };
        contents.truncate(bytes as usize);
        self.used_bytes -= cut;
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> DiskResult<()> {
        let replaced = self.names.rename(from, to)?;
        self.names.make_all_durable();
        self.remove_unnamed(replaced);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> DiskResult<()> {
        let removed = self.names.remove(path)?;
        self.names.make_all_durable();
        self.remove_unnamed(removed);
        Ok(())
    }

    fn list(&mut self, dir: &str) -> DiskResult<Vec<DirEntry>> {
        let entries = self.names.list(dir)?.map(|(name, named)| {
            let (bytes, is_dir) = match named {
                NameTarget::File(file) => {
                    (self.files.get(&file).map_or(0, |bytes| bytes.len() as u64), false)
                }
                NameTarget::Folder(_) => (0, true),
            };
            DirEntry { name: name.to_owned(), bytes, is_dir }
        });
        Ok(entries.collect())
    }

    fn sync_dir(&mut self, dir: &str) -> DiskResult<()> {
        self.names.needed_by(dir).map(drop)
    }

    fn free_bytes(&mut self) -> DiskResult<u64> {
        // A large number, so that the reserve of real disks refuses nothing here; `append` checks the limit.
        Ok(u64::MAX - self.used_bytes)
    }

    fn lacks_files(&mut self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use zerohop_engine::disk::contract::{check_against_model, check_contract};

    use super::*;

    #[test]
    fn memory_disk_keeps_contract_and_matches_model() {
        check_contract(&mut MemoryDisk::default());
        for seed in 0..10 {
            check_against_model(&mut MemoryDisk::default(), seed, 500);
        }
    }

    #[test]
    fn space_is_limited_and_freed() {
        let mut disk = MemoryDisk::default();
        let file = disk.open("f", OpenMode::Create).unwrap();
        disk.append(file, &vec![0; MEMORY_DISK_BYTES_MAX as usize]).unwrap();
        assert_eq!(disk.append(file, b"x"), Err(DiskError::Full));
        disk.truncate(file, 7).unwrap();
        assert_eq!(disk.used_bytes, 7);
        disk.remove("f").unwrap();
        assert_eq!((disk.used_bytes, disk.files.len(), disk.open.len()), (0, 0, 0));
    }
}
