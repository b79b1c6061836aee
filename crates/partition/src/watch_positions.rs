//! The positions of the readers that watch a partition, for operators: a reader that falls behind is seen before its position is gone.
//!
//! A reader is a connection with a selection of keys. The requests of two watches of one client with the same selection count as one reader.

use std::collections::BTreeMap;

use zerohop_wire::limits::CHANGES_WAIT_MS_MAX;
use zerohop_wire::messages::ReadChanges;

use crate::limits::{WATCH_BYTES_MAX, WATCHES_MAX};

/// A reader that has not asked for so long no longer counts: nothing says that a watch has ended while its connection is open. A request waits for
/// half of this at most.
const READER_IDLE_MS: u64 = 2 * CHANGES_WAIT_MS_MAX as u64;

/// The keys that a watch wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeySelection {
    /// Keys at or above this.
    pub from: Box<[u8]>,
    /// Keys below this; empty: up to the last.
    pub to: Box<[u8]>,
    /// Keys with this prefix.
    pub prefix: Box<[u8]>,
}

/// A reader of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionWatch<'p> {
    /// Its connection.
    pub connection: u64,
    /// The keys that it wants.
    pub selection: &'p KeySelection,
    /// How far it is behind.
    pub lag: WatchLag,
}

/// How far a reader is behind the changes of its partition, whatever their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchLag {
    /// Changes behind its position that are kept.
    pub changes: u64,
    /// Time since the oldest of the changes behind its position; if that is no longer kept, at least so much.
    pub lag_ms: u64,
    /// Changes behind its position are no longer kept: its next request is answered `HistoryGone`.
    pub is_gone: bool,
}

/// The positions of readers; see the module.
#[derive(Debug, Default)]
pub(crate) struct WatchPositions {
    by_connection: BTreeMap<u64, Vec<ReaderPosition>>,
    count: usize,
    bytes: usize,
    /// When readers that no longer ask are forgotten next.
    sweep_at_ms: u64,
}

#[derive(Debug)]
struct ReaderPosition {
    selection: KeySelection,
    /// The log index up to which it has all changes; `None`: its request waits, so that it has all that are committed.
    after: Option<u64>,
    requested_ms: u64,
}

impl KeySelection {
    fn of(request: &ReadChanges<'_>) -> KeySelection {
        let ReadChanges { from, to, prefix, .. } = *request;
        KeySelection { from: from.into(), to: to.into(), prefix: prefix.into() }
    }

    fn is_of(&self, request: &ReadChanges<'_>) -> bool {
        (&*self.from, &*self.to, &*self.prefix) == (request.from, request.to, request.prefix)
    }

    /// Bytes of its keys.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.from.len() + self.to.len() + self.prefix.len()
    }
}

impl ReaderPosition {
    fn bytes(&self) -> usize {
        size_of::<ReaderPosition>() + self.selection.bytes()
    }

    fn counts(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.requested_ms) <= READER_IDLE_MS
    }
}

impl WatchPositions {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_connection.is_empty()
    }

    /// Remembers how far the reader of a request is. Above the limits, new readers are not remembered.
    pub(crate) fn remember(
        &mut self,
        (connection, request): (u64, &ReadChanges<'_>),
        after: Option<u64>,
        now_ms: u64,
    ) {
        if now_ms >= self.sweep_at_ms {
            self.retain(|_, reader| reader.counts(now_ms));
            self.sweep_at_ms = now_ms + READER_IDLE_MS;
        }
        if let Some(reader) = self.find(connection, request) {
            (reader.after, reader.requested_ms) = (after, now_ms);
            return;
        }
        let reader = ReaderPosition { selection: KeySelection::of(request), after, requested_ms: now_ms };
        if self.count >= WATCHES_MAX || self.bytes + reader.bytes() > WATCH_BYTES_MAX {
            return;
        }
        self.count += 1;
        self.bytes += reader.bytes();
        self.by_connection.entry(connection).or_default().push(reader);
    }

    /// The request that waited was answered: its reader had all changes up to `after`, a log index.
    pub(crate) fn answered(&mut self, (connection, request): (u64, &ReadChanges<'_>), after: u64) {
        if let Some(reader) = self.find(connection, request) {
            reader.after = Some(after);
        }
    }

    /// Forgets the readers of a connection.
    pub(crate) fn disconnect(&mut self, connection: u64) {
        for reader in self.by_connection.remove(&connection).unwrap_or_default() {
            self.count -= 1;
            self.bytes -= reader.bytes();
        }
    }

    /// Forgets all readers: they ask another member next.
    pub(crate) fn clear(&mut self) {
        *self = WatchPositions::default();
    }

    /// The readers that still count: the connection, the keys, and the log index up to which the reader has all changes.
    pub(crate) fn readers(&self, now_ms: u64) -> impl Iterator<Item = (u64, &KeySelection, Option<u64>)> {
        let all = self
            .by_connection
            .iter()
            .flat_map(|(connection, readers)| readers.iter().map(|reader| (*connection, reader)));
        all.filter(move |(_, reader)| reader.counts(now_ms))
            .map(|(connection, reader)| (connection, &reader.selection, reader.after))
    }

    fn find(&mut self, connection: u64, request: &ReadChanges<'_>) -> Option<&mut ReaderPosition> {
        self.by_connection.get_mut(&connection)?.iter_mut().find(|reader| reader.selection.is_of(request))
    }

    fn retain(&mut self, keeps: impl Fn(u64, &ReaderPosition) -> bool) {
        let (mut count, mut bytes) = (0, 0);
        self.by_connection.retain(|connection, readers| {
            readers.retain(|reader| keeps(*connection, reader));
            count += readers.len();
            bytes += readers.iter().map(ReaderPosition::bytes).sum::<usize>();
            !readers.is_empty()
        });
        (self.count, self.bytes) = (count, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(prefix: &[u8]) -> ReadChanges<'_> {
        ReadChanges { changes_max: 1, prefix, ..ReadChanges::default() }
    }

    fn listed(positions: &WatchPositions, now_ms: u64) -> Vec<(u64, &[u8], Option<u64>)> {
        let readers = positions.readers(now_ms);
        readers.map(|(connection, selection, after)| (connection, &*selection.prefix, after)).collect()
    }

    #[test]
    fn each_connection_and_selection_has_the_position_of_its_newest_request() {
        let mut positions = WatchPositions::default();
        positions.remember((1, &request(b"a")), Some(5), 10);
        positions.remember((1, &request(b"b")), Some(6), 10);
        positions.remember((2, &request(b"a")), Some(7), 10);
        positions.remember((1, &request(b"a")), None, 11);
        let expected: [(u64, &[u8], _); 3] = [(1, b"a", None), (1, b"b", Some(6)), (2, b"a", Some(7))];
        assert_eq!(listed(&positions, 11), expected);
        positions.answered((1, &request(b"a")), 9);
        positions.answered((3, &request(b"a")), 9);
        assert_eq!(listed(&positions, 11)[0], (1, b"a".as_slice(), Some(9)));
        assert_eq!(positions.count, 3);
        positions.disconnect(1);
        assert_eq!((listed(&positions, 11).len(), positions.count), (1, 1));
        positions.disconnect(2);
        assert_eq!((positions.is_empty(), positions.count, positions.bytes), (true, 0, 0));
    }

    #[test]
    fn a_reader_that_no_longer_asks_is_forgotten() {
        let mut positions = WatchPositions::default();
        positions.remember((1, &request(b"a")), Some(5), 0);
        assert_eq!(listed(&positions, READER_IDLE_MS).len(), 1);
        assert_eq!(listed(&positions, READER_IDLE_MS + 1).len(), 0);
        positions.remember((2, &request(b"a")), Some(5), READER_IDLE_MS + 1);
        assert_eq!((positions.count, positions.by_connection.len()), (1, 1));
        assert_eq!(positions.bytes, size_of::<ReaderPosition>() + 1);
    }

    #[test]
    fn readers_are_limited_in_number_and_bytes() {
        let mut positions = WatchPositions::default();
        for connection in 0..WATCHES_MAX as u64 + 10 {
            positions.remember((connection, &request(b"a")), Some(5), 0);
        }
        assert_eq!(positions.count, WATCHES_MAX);
        positions.remember((0, &request(b"a")), Some(8), 1);
        assert_eq!(listed(&positions, 1)[0].2, Some(8), "those that are known go on");
        let (mut positions, long) = (WatchPositions::default(), vec![0; 64 << 10]);
        for connection in 0..WATCHES_MAX as u64 {
            positions.remember((connection, &request(&long)), Some(5), 0);
        }
        assert!(positions.count > 32 && positions.bytes <= WATCH_BYTES_MAX, "{}", positions.count);
    }
}
