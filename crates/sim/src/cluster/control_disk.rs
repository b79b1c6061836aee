//! The file with a manager's log: a write that was issued is durable only after its sync.

use zerohop_base::random::Random;

/// A write in progress.
#[derive(Clone, Debug)]
struct ControlWrite {
    number: u64,
    bytes: Vec<u8>,
    replace: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControlDisk {
    durable: Vec<u8>,
    issued: Vec<ControlWrite>,
}

impl ControlDisk {
    pub(crate) fn write(&mut self, number: u64, bytes: Vec<u8>, replace: bool) {
        self.issued.push(ControlWrite { number, bytes, replace });
    }

    /// Everything up to `number` is durable.
    pub(crate) fn sync(&mut self, number: u64) {
        while self.issued.first().is_some_and(|write| write.number <= number) {
            let write = self.issued.remove(0);
            self.apply_write(&write);
        }
    }

    /// Power loss: a prefix of the pending writes has reached the disk, and possibly a part of the
    /// append after it.
    pub(crate) fn lose_power(&mut self, random: &mut Random) {
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
    }

    /// The process ends; its issued writes reach the disk.
    pub(crate) fn end_process(&mut self) {
        for write in std::mem::take(&mut self.issued) {
            self.apply_write(&write);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.durable
    }

    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.durable.truncate(bytes);
    }

    fn apply_write(&mut self, write: &ControlWrite) {
        if write.replace {
            self.durable.clear();
        }
        self.durable.extend_from_slice(&write.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_loss_keeps_synced_bytes_and_prefix_of_unsynced_ones() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut disk = ControlDisk::default();
            disk.write(1, b"one".to_vec(), false);
            disk.sync(1);
            disk.write(2, b"two".to_vec(), false);
            disk.write(3, b"again".to_vec(), true);
            disk.lose_power(&mut random);
            let is = disk.bytes();
            assert!(b"onetwo".starts_with(is) && is.len() >= 3 || is == b"again", "{is:?}");
        }
    }
}
