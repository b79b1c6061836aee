//! A log of few entries, each with the epoch that wrote it and what it holds.

/// Entries that a log can have.
pub const ENTRIES_MAX: usize = 8;

/// One entry. `write` 0 is the mark of an epoch; others number the writes of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Of the primary that wrote it.
    pub epoch: u8,
    /// Which write.
    pub write: u8,
}

/// Entries 1 to `len`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Log {
    len: u8,
    entries: [Entry; ENTRIES_MAX],
}

impl Log {
    /// The index of the last entry; 0 if there is none.
    #[must_use]
    pub fn last(&self) -> u8 {
        self.len
    }

    /// The entry at an index from 1 on.
    #[must_use]
    pub fn at(&self, index: u8) -> Option<Entry> {
        let is_there = (1..=self.len).contains(&index);
        is_there.then(|| self.entries[usize::from(index) - 1])
    }

    /// The epoch of the entry at an index, by which entries are distinguished; that of index 0 is 0.
    #[must_use]
    pub fn epoch_at(&self, index: u8) -> Option<u8> {
        if index == 0 { Some(0) } else { self.at(index).map(|entry| entry.epoch) }
    }

    /// (epoch, index) of its end.
    #[must_use]
    pub fn end(&self) -> (u8, u8) {
        (self.epoch_at(self.len).unwrap_or(0), self.len)
    }

    /// Whether another entry has room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        usize::from(self.len) < ENTRIES_MAX
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: Entry) {
        self.entries[usize::from(self.len)] = entry;
        self.len += 1;
    }

    /// Drops everything behind an index.
    pub fn cut_after(&mut self, index: u8) {
        for entry in self.entries.iter_mut().skip(usize::from(index)) {
            *entry = Entry::default();
        }
        self.len = self.len.min(index);
    }

    /// Its beginning.
    #[must_use]
    pub fn up_to(mut self, index: u8) -> Log {
        self.cut_after(index);
        self
    }

    /// The writes in its first entries, one bit each.
    #[must_use]
    pub fn writes_up_to(&self, index: u8) -> u8 {
        let entries = self.entries.iter().take(usize::from(index.min(self.len)));
        entries.filter(|entry| entry.write > 0).fold(0, |writes, entry| writes | 1 << (entry.write - 1))
    }

    /// All its writes, one bit each.
    #[must_use]
    pub fn writes(&self) -> u8 {
        self.writes_up_to(self.len)
    }

    /// Whether one of the two beginnings is the beginning of the other.
    #[must_use]
    pub fn agrees(&self, other: &Log, up_to: u8) -> bool {
        (1..=up_to).all(|index| self.at(index) == other.at(index))
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for entry in &self.entries[..usize::from(self.len)] {
            match entry.write {
                0 => write!(f, " {}.mark", entry.epoch)?,
                write => write!(f, " {}.w{write}", entry.epoch)?,
            }
        }
        f.write_str(" ]")
    }
}
