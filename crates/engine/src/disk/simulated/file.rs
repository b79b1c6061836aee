//! The bytes of one simulated file: the issued and the durable bytes, and the effect of a crash on the difference.
//!
//! Files only grow at their end and are truncated there. Two things describe the difference from the durable bytes: a mark
//! below which nothing was touched since the last sync, and the sectors written above it.

use std::ops::Range;

use crate::disk::SyncTicket;
use zerohop_base::random::Random;

/// The unit in which a device tears.
pub const SECTOR_BYTES: usize = 512;

/// The most that a device reserves after a hint: enough to matter, and little to store.
const RESERVED_BYTES_MAX: usize = 16 << 10;

/// One file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileBytes {
    issued: Vec<u8>,
    durable: Vec<u8>,
    since_sync: Changes,
    begun: Vec<PendingSync>,
    /// Bytes that a failed append may have left on the device past the end of the file.
    failed_tail: Vec<u8>,
    /// The length up to which the device may hold zeros behind it, until a truncation since then survives a crash.
    reserved: usize,
    truncation: Truncation,
    /// Bytes of space that it occupies beyond its end.
    allocated_ahead: u64,
    /// The length that the device has of it at least, because old bytes stand behind its end: see [`FileBytes::recycle`].
    recycled: usize,
}

/// How far a truncation has come that gives reserved space back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Truncation {
    #[default]
    None,
    Issued,
    Durable,
}

/// The changes to a file since a moment.
#[derive(Clone, Debug, Default)]
struct Changes {
    /// Bytes below this were neither written nor truncated.
    untouched: usize,
    /// The sectors written, in order and disjoint. Only the last ones ever change, as files do.
    sectors: Vec<Range<usize>>,
}

#[derive(Clone, Debug)]
struct PendingSync {
    ticket: SyncTicket,
    /// The previous contents of the written sectors, each run with the offset of its first byte.
    written: Vec<(usize, Vec<u8>)>,
    bytes: usize,
    since: Changes,
    truncation: Truncation,
}

impl FileBytes {
    pub(super) fn issued(&self) -> &[u8] {
        &self.issued
    }

    pub(super) fn durable_bytes(&self) -> usize {
        self.durable.len()
    }

    pub(super) fn append(&mut self, data: &[u8]) {
        let from = self.issued.len();
        self.issued.extend_from_slice(data);
        let to = self.issued.len();
        self.each_record(|changes| changes.wrote(from, to));
        self.failed_tail.clear();
    }

    /// Space was reserved up to this length.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.reserved = bytes.min(self.issued.len() + RESERVED_BYTES_MAX);
        self.truncation = Truncation::None;
    }

    /// Space that is allocated and unused: appends fill it first.
    pub(super) fn allocated_ahead(&self) -> u64 {
        self.allocated_ahead
    }

    pub(super) fn set_allocated_ahead(&mut self, bytes: u64) {
        self.allocated_ahead = bytes;
    }

    /// An append that failed after part of it had reached the device.
    pub(super) fn append_failed(&mut self, reached: &[u8]) {
        self.failed_tail = reached.to_vec();
    }

    /// The file is empty from now on, and its old bytes stay on the device behind its end.
    pub(super) fn recycle(&mut self) {
        let old = std::mem::take(&mut self.issued);
        self.allocated_ahead += old.len() as u64;
        // Of what was not synced, all may be there.
        if self.durable.len() < old.len() || !self.since_sync.sectors.is_empty() {
            self.durable = old;
        }
        self.recycled = self.recycled.max(self.durable.len());
        self.since_sync.restart(0);
        self.begun.clear();
        self.failed_tail.clear();
        self.reserved = 0;
    }

    /// Returns bytes of space that are no longer allocated behind the end.
    pub(super) fn truncate(&mut self, bytes: usize) -> u64 {
        let freed = if self.recycled > 0 { std::mem::take(&mut self.allocated_ahead) } else { 0 };
        self.recycled = 0;
        self.truncation = self.truncation.max(Truncation::Issued);
        self.issued.truncate(bytes);
        self.each_record(|changes| changes.truncate(bytes));
        self.failed_tail.clear();
        freed
    }

    pub(super) fn sync(&mut self) {
        self.begun.clear();
        self.durable.resize(self.issued.len().max(self.recycled), 0);
        for sectors in &self.since_sync.sectors {
            let bytes = bytes_of(sectors, self.issued.len());
            self.durable[bytes.clone()].copy_from_slice(&self.issued[bytes]);
        }
        self.since_sync.restart(self.issued.len());
        self.failed_tail.clear();
        self.synced(self.truncation);
    }

    /// A truncation that has come so far survives a crash.
    fn synced(&mut self, truncation: Truncation) {
        if truncation == Truncation::Issued {
            self.truncation = Truncation::Durable;
        }
    }

    pub(super) fn sync_begin(&mut self, ticket: SyncTicket) {
        let length = self.issued.len();
        let written = self.since_sync.sectors.iter().map(|sectors| {
            let bytes = bytes_of(sectors, length);
            (bytes.start, self.issued[bytes].to_vec())
        });
        let mut since = Changes::default();
        since.restart(length);
        let (written, truncation) = (written.collect(), self.truncation);
        self.begun.push(PendingSync { ticket, written, bytes: length, since, truncation });
    }

    /// Carries out a started sync. Those started before it must have been carried out.
    pub(super) fn sync_complete(&mut self, ticket: SyncTicket) {
        let Some(begun) = self.take_sync(ticket) else { return };
        begun.write_to(&mut self.durable, self.recycled);
        self.since_sync = begun.since;
        self.failed_tail.clear();
        self.synced(begun.truncation);
    }

    /// Forgets a started sync without effect.
    pub(super) fn drop_sync(&mut self, ticket: SyncTicket) {
        self.take_sync(ticket);
    }

    /// A sync, or the started one of `ticket`, fails as on Linux: a random part of what was written becomes durable, and
    /// none of it counts as unsynced any longer, so that no later sync writes it.
    pub(super) fn sync_failed(&mut self, ticket: Option<SyncTicket>, random: &mut Random) {
        let begun = match ticket {
            Some(ticket) => self.take_sync(ticket),
            None => {
                self.sync_begin(SyncTicket(u64::MAX));
                self.begun.pop()
            }
        };
        let Some(begun) = begun else { return };
        let untouched = self.since_sync.untouched;
        let length = pick_length(self.durable.len(), begun.bytes, untouched, random).max(self.recycled);
        self.durable.resize(length, 0);
        for (start, bytes) in &begun.written {
            for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                let from = start + number * SECTOR_BYTES;
                let to = (from + sector.len()).min(length);
                if from < to && random.chance(1, 2) {
                    self.durable[from..to].copy_from_slice(&sector[..to - from]);
                }
            }
        }
        // Syncs that were started meanwhile only waited for those writes: they will not repeat them.
        for later in &mut self.begun {
            later.drop_unchanged(&begun.since);
        }
        self.since_sync.sectors = begun.since.sectors;
    }

    /// The power fails: unsynced data becomes old, new, torn or garbage, sector by sector.
    pub(super) fn crash(&mut self, random: &mut Random) {
        for begun in std::mem::take(&mut self.begun) {
            if random.chance(1, 2) {
                begun.write_to(&mut self.durable, self.recycled);
                self.since_sync = begun.since;
            }
        }
        let (issued, untouched) = (self.issued.len(), self.since_sync.untouched);
        let mut length = self.durable.len();
        if !self.since_sync.sectors.is_empty() || issued != length {
            length = pick_length(length, issued, untouched, random).max(self.recycled);
            self.durable.resize(length, 0);
            let outcomes = Outcomes::draw(random);
            for sector in self.since_sync.sectors.iter().cloned().flatten() {
                let bytes = bytes_of(&(sector..sector + 1), length);
                let from = bytes.start.max(untouched);
                if from < bytes.end {
                    let new = self.issued.get(from..).unwrap_or_default();
                    outcomes.apply(&mut self.durable[from..bytes.end], new, random);
                }
            }
        }
        if length == issued && !self.failed_tail.is_empty() && random.chance(1, 2) {
            let reached = random.below(self.failed_tail.len() as u64 + 1) as usize;
            self.durable.extend_from_slice(&self.failed_tail[..reached]);
        }
        if self.reserved > self.durable.len() && random.chance(3, 4) {
            let zeros = random.below((self.reserved - self.durable.len()) as u64 + 1) as usize;
            if self.truncation < Truncation::Durable {
                self.durable.resize(self.durable.len() + zeros, 0);
            }
        }
        self.restart_from_durable();
    }

    /// Everything issued is durable, as after a clean shutdown.
    pub(super) fn power_off_clean(&mut self) {
        let old = self.durable.get(self.issued.len()..self.recycled).unwrap_or_default().to_vec();
        self.durable.clone_from(&self.issued);
        self.durable.extend_from_slice(&old);
        if self.truncation < Truncation::Durable {
            self.durable.resize(self.durable.len().max(self.reserved), 0);
        }
        self.restart_from_durable();
    }

    /// Flips the bits of `mask` in a durable byte. Readers see it unless they read unsynced bytes.
    pub(super) fn corruption(&mut self, offset: usize, mask: u8) {
        self.durable[offset] ^= mask;
        let sector = offset / SECTOR_BYTES;
        let unsynced = self.since_sync.sectors.iter().any(|sectors| sectors.contains(&sector));
        if let (false, Some(byte)) = (unsynced, self.issued.get_mut(offset)) {
            *byte ^= mask;
        }
    }

    fn restart_from_durable(&mut self) {
        if self.recycled > 0 {
            // Old bytes are contents again, and no space behind them.
            self.allocated_ahead = 0;
            self.recycled = 0;
        }
        self.issued.clone_from(&self.durable);
        self.since_sync.restart(self.durable.len());
        self.begun.clear();
        self.failed_tail.clear();
        (self.reserved, self.truncation) = (0, Truncation::None);
    }

    fn each_record(&mut self, what: impl Fn(&mut Changes)) {
        what(&mut self.since_sync);
        self.begun.iter_mut().for_each(|begun| what(&mut begun.since));
    }

    fn take_sync(&mut self, ticket: SyncTicket) -> Option<PendingSync> {
        let at = self.begun.iter().position(|begun| begun.ticket == ticket)?;
        Some(self.begun.remove(at))
    }
}

impl Changes {
    fn restart(&mut self, length: usize) {
        self.untouched = length;
        self.sectors.clear();
    }

    fn wrote(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let written = from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES);
        match self.sectors.last_mut() {
            Some(last) if written.start <= last.end => last.end = last.end.max(written.end),
            _ => self.sectors.push(written),
        }
    }

    fn truncate(&mut self, length: usize) {
        self.untouched = self.untouched.min(length);
        let end = length.div_ceil(SECTOR_BYTES);
        while self.sectors.last().is_some_and(|last| last.start >= end) {
            self.sectors.pop();
        }
        if let Some(last) = self.sectors.last_mut() {
            last.end = last.end.min(end);
        }
    }
}

impl PendingSync {
    /// Drops the sectors that were not written again since.
    fn drop_unchanged(&mut self, since: &Changes) {
        let runs = std::mem::take(&mut self.written);
        for (start, bytes) in runs {
            for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                let from = start + number * SECTOR_BYTES;
                if since.sectors.iter().any(|sectors| sectors.contains(&(from / SECTOR_BYTES))) {
                    self.written.push((from, sector.to_vec()));
                }
            }
        }
    }

    /// The device has at least `length` bytes of the file.
    fn write_to(&self, durable: &mut Vec<u8>, length: usize) {
        durable.resize(self.bytes.max(length), 0);
        for (start, bytes) in &self.written {
            durable[*start..start + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// The probability of each of the four outcomes of a sector; drawn once per file and crash, so that "all of it" and "none of
/// it" happen too.
struct Outcomes {
    weights: [u64; 4],
}

impl Outcomes {
    fn draw(random: &mut Random) -> Self {
        const PROFILES: [[u64; 4]; 4] = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [1, 12, 1, 1]];
        Outcomes { weights: PROFILES[random.below(4) as usize] }
    }

    /// `sector` holds the old bytes; `new` starts with the new ones and may be shorter or longer.
    fn apply(&self, sector: &mut [u8], new: &[u8], random: &mut Random) {
        let new = &new[..new.len().min(sector.len())];
        let [old, all_new, torn, _] = self.weights;
        let drawn = random.below(self.weights.iter().sum());
        if drawn < old {
            // Stays as it was; zeros where the file was shorter.
        } else if drawn < old + all_new {
            sector[..new.len()].copy_from_slice(new);
        } else if drawn < old + all_new + torn {
            let cut = random.below(new.len() as u64 + 1) as usize;
            sector[..cut].copy_from_slice(&new[..cut]);
            if random.chance(1, 2) {
                sector[cut..].fill(0);
            }
        } else {
            random.fill(sector);
        }
    }
}

/// A length that the file may have had on the device at some time since `untouched` was its minimum length.
fn pick_length(durable: usize, issued: usize, untouched: usize, random: &mut Random) -> usize {
    match random.below(4) {
        0 => durable,
        1 => issued,
        _ => untouched + random.below((issued - untouched) as u64 + 1) as usize,
    }
}

fn bytes_of(sectors: &Range<usize>, length: usize) -> Range<usize> {
    let end = (sectors.end * SECTOR_BYTES).min(length);
    (sectors.start * SECTOR_BYTES).min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synced(bytes: usize) -> FileBytes {
        let mut file = FileBytes::default();
        file.append(&vec![b's'; bytes]);
        file.sync();
        file
    }

    #[test]
    fn crash_outcomes_include_old_new_torn_garbage_and_lengths_between() {
        let (mut old, mut new, mut torn, mut garbage, mut between) = (false, false, false, false, false);
        for seed in 0..500 {
            let mut file = synced(700);
            file.append(&[b'n'; 2000]);
            file.crash(&mut Random::new(seed));
            let bytes = file.issued();
            assert!((700..=2700).contains(&bytes.len()));
            assert!(bytes[..700].iter().all(|&byte| byte == b's'), "synced bytes in a shared sector survive");
            between |= bytes.len() > 700 && bytes.len() < 2700;
            for sector in bytes[700..].chunks_exact(SECTOR_BYTES) {
                let news = sector.iter().filter(|&&byte| byte == b'n').count();
                let zeros = sector.iter().filter(|&&byte| byte == 0).count();
                old |= zeros == SECTOR_BYTES;
                new |= news == SECTOR_BYTES;
                torn |= news > 0 && zeros > 0 && news + zeros == SECTOR_BYTES;
                garbage |= news + zeros < SECTOR_BYTES / 2;
            }
        }
        assert!(old && new && torn && garbage && between);
    }

    #[test]
    fn an_unsynced_cut_may_or_may_not_have_happened() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let mut file = synced(1000);
            file.truncate(300);
            file.crash(&mut Random::new(seed));
            lengths.insert(file.issued().len());
            assert!(file.issued().iter().all(|&byte| byte == b's'));
        }
        assert_eq!(lengths, [300, 1000].into());
    }

    #[test]
    fn durable_truncation_gives_reserved_space_back() {
        let mut shown = [false; 2];
        for (seed, is_synced) in (0..50).flat_map(|seed| [(seed, false), (seed, true)]) {
            let mut file = synced(100);
            file.reserve(4_000);
            file.truncate(100);
            if is_synced {
                file.sync_begin(SyncTicket(1));
                file.sync_complete(SyncTicket(1));
            }
            file.crash(&mut Random::new(seed));
            shown[usize::from(is_synced)] |= file.issued().len() > 100;
        }
        assert_eq!(shown, [true, false]);
    }

    #[test]
    fn truncated_and_rewritten_file_keeps_bytes_below_the_truncation() {
        for seed in 0..200 {
            let mut file = synced(1000);
            file.truncate(600);
            file.append(&[b'n'; 900]);
            file.crash(&mut Random::new(seed));
            assert!(file.issued().len() >= 600);
            assert!(file.issued()[..600].iter().all(|&byte| byte == b's'));
        }
    }

    #[test]
    fn background_sync_covers_only_earlier_writes() {
        let mut later_lost = false;
        for seed in 0..100 {
            let mut file = synced(100);
            file.append(&[b'1'; 600]);
            file.sync_begin(SyncTicket(1));
            file.append(&[b'2'; 600]);
            file.sync_complete(SyncTicket(1));
            file.crash(&mut Random::new(seed));
            assert!(file.issued()[100..700].iter().all(|&byte| byte == b'1'));
            later_lost |= file.issued().len() == 700;
        }
        assert!(later_lost);
    }

    #[test]
    fn later_sync_does_not_restore_bytes_dropped_by_failed_sync() {
        let mut dropped = false;
        for seed in 0..50 {
            let mut file = FileBytes::default();
            file.append(&[b'n'; 2048]);
            file.sync_failed(None, &mut Random::new(seed));
            assert_eq!(file.issued(), [b'n'; 2048], "readers are served from memory");
            file.sync();
            file.crash(&mut Random::new(seed));
            assert_eq!(file.issued().len(), 2048);
            dropped |= file.issued().contains(&0);
        }
        assert!(dropped);
    }

    #[test]
    fn recycled_file_may_show_old_bytes_behind_its_end_until_truncation() {
        let (mut shown, mut gone, mut old_below) = (false, false, false);
        for seed in 0..200 {
            let mut file = synced(3000);
            file.recycle();
            assert!(file.issued().is_empty());
            assert_eq!(file.allocated_ahead(), 3000);
            file.append(&[b'n'; 700]);
            file.sync();
            file.append(&[b'm'; 600]);
            let mut cut = file.clone();
            file.crash(&mut Random::new(seed));
            let bytes = file.issued();
            assert_eq!(bytes.len(), 3000, "the length on the device has not changed");
            assert!(bytes[..700].iter().all(|&byte| byte == b'n'), "synced bytes survive");
            assert!(bytes[1536..].iter().all(|&byte| byte == b's'), "nothing was written there");
            old_below |= bytes[700..1300].contains(&b's');
            cut.truncate(1300);
            let mut synced = cut.clone();
            cut.crash(&mut Random::new(seed));
            shown |= cut.issued().len() == 3000;
            gone |= cut.issued().len() < 3000;
            synced.sync();
            synced.crash(&mut Random::new(seed));
            assert_eq!(synced.issued().len(), 1300, "the truncation is durable");
        }
        assert!(shown && gone && old_below);
    }

    #[test]
    fn a_failed_append_may_lengthen_the_file_in_a_crash() {
        let mut longer = false;
        for seed in 0..50 {
            let mut file = synced(10);
            file.append_failed(b"partial");
            assert_eq!(file.issued().len(), 10);
            file.crash(&mut Random::new(seed));
            longer |= file.issued().len() > 10;
        }
        assert!(longer);
    }
}
