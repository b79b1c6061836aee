//! A manager's disk: issued writes are not durable before a sync.

use super::random::Random;

/// A write in flight.
#[derive(Clone, Debug)]
struct DiskWrite {
    number: u64,
    bytes: Vec<u8>,
    replace: bool,
}

/// One file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    durable: Vec<u8>,
    issued: Vec<DiskWrite>,
}

impl Disk {
    pub(crate) fn with(bytes: Vec<u8>) -> Disk {
        Disk { durable: bytes, issued: Vec::new() }
    }

    pub(crate) fn write(&mut self, number: u64, bytes: Vec<u8>, replace: bool) {
        self.issued.push(DiskWrite { number, bytes, replace });
    }

    /// Everything up to `number` is durable.
    pub(crate) fn sync(&mut self, number: u64) {
        while self.issued.first().is_some_and(|write| write.number <= number) {
            let write = self.issued.remove(0);
            self.apply_write(&write);
        }
    }

    /// A prefix of the writes in flight has reached the disk, and perhaps a part of the next
    /// append.
    pub(crate) fn crash(&mut self, random: &mut Random) -> Vec<u8> {
        let issued = std::mem::take(&mut self.issued);
        let whole = random.below(issued.len() as u64 + 1) as usize;
        for (at, write) in issued.into_iter().enumerate() {
            if at < whole {
                self.apply_write(&write);
            } else if at == whole && !write.replace {
                let piece = random.below(write.bytes.len() as u64 + 1) as usize;
                self.durable.extend_from_slice(&write.bytes[..piece]);
            }
        }
        self.durable.clone()
    }

    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.durable.truncate(bytes);
    }

    fn apply_write(&mut self, write: &DiskWrite) {
        if write.replace {
            self.durable.clear();
        }
        self.durable.extend_from_slice(&write.bytes);
    }
}
