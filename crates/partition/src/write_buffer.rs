//! The write buffer of an atomic batch: its changes that are not in the log yet, and the record read last, in reusable buffers.

use zerohop_engine::disk::Disk;
use zerohop_engine::{
    Engine, EngineResult, EntryKind, EntryMeta, FLAG_CHUNK, FLAG_JOINED, FLAG_LIST, FLAG_TRAILER, Hint,
    split_trailer,
};
use zerohop_record::state::Contents;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::RecordType;

use crate::entry_metadata::EntryMetadata;
use crate::last_record_read::RecordGlimpse;
use crate::limits::{BUFFER_RETAINED_BYTES, STAGED_CHANGES_SEARCHED_MAX};
use crate::log_writer::{LogWriter, NewLogEntry};
use crate::operations::LogAction;
use crate::overlay::{Overlay, RecordChange, Shape};

/// The write buffer of an atomic batch; see the module.
#[derive(Debug, Default)]
pub(crate) struct UnitWriteBuffer {
    items: Vec<BufferedChange>,
    /// Keys and payloads of the items, back to back.
    bytes: Vec<u8>,
    /// For contents that an operation creates.
    pub(crate) made: Vec<u8>,
    seen_key: Vec<u8>,
    seen: Option<RecordGlimpse>,
    pub(crate) recorded: UnitMetadata,
}

/// One change.
#[derive(Debug)]
struct BufferedChange {
    kind: EntryKind,
    flags: u8,
    at: Timestamp,
    hint: Option<Hint>,
    /// How it changes the record, and the record's earlier shape; `None` for a mark that changes nothing.
    change: Option<(RecordChange, Option<Shape>)>,
    /// Where its key starts in `bytes`, where the key ends, and where its payload ends.
    key_and_payload_range: [usize; 3],
}

/// The metadata that the entries of an atomic batch committed at once have for the partition's state, so that nothing is read
/// again.
#[derive(Debug, Default)]
pub(crate) struct UnitMetadata {
    /// Where each entry's key and note end in `bytes`.
    entries: Vec<(EntryMeta, usize, usize)>,
    bytes: Vec<u8>,
}

impl UnitMetadata {
    fn push(&mut self, meta: &EntryMeta, key: &[u8], payload: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        // Of a payload the state reads only a mark, or the trailer, which itself is a payload without contents.
        let note = match meta.kind {
            EntryKind::Mark => payload,
            _ if meta.flags & FLAG_TRAILER != 0 => {
                let (contents, _) = split_trailer(meta.flags, payload);
                &payload[contents.len()..]
            }
            _ => &[],
        };
        self.bytes.extend_from_slice(note);
        self.entries.push((*meta, key_end, self.bytes.len()));
    }

    /// Each entry with its key and its note.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&EntryMeta, &[u8], &[u8])> {
        let mut begin = 0;
        self.entries.iter().map(move |(meta, key_end, end)| {
            let (key, note) = (&self.bytes[begin..*key_end], &self.bytes[*key_end..*end]);
            begin = *end;
            (meta, key, note)
        })
    }
}

impl BufferedChange {
    fn entry<'s>(&'s self, bytes: &'s [u8]) -> NewLogEntry<'s> {
        let &BufferedChange {
            kind, flags, at, ref hint, key_and_payload_range: [begin, key_end, end], ..
        } = self;
        let hint = hint.as_ref();
        NewLogEntry { kind, flags, at, key: &bytes[begin..key_end], payload: &bytes[key_end..end], hint }
    }
}

impl UnitWriteBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Bytes of keys and payloads.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The entries as they go into the log, without [`FLAG_JOINED`].
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = NewLogEntry<'_>> + Clone {
        self.items.iter().map(|item| item.entry(&self.bytes))
    }

    /// Whether a change may be of this key.
    #[inline]
    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
        !self.items.is_empty()
            && (self.items.len() > STAGED_CHANGES_SEARCHED_MAX
                || self.entries().any(|entry| entry.key == key))
    }

    /// The result of reading this key, if nothing has changed since.
    #[inline]
    pub(crate) fn seen(&self, key: &[u8]) -> Option<&RecordGlimpse> {
        self.seen.as_ref().filter(|_| self.seen_key == key)
    }

    /// The same, moved out.
    pub(crate) fn take_seen(&mut self, key: &[u8]) -> Option<RecordGlimpse> {
        self.seen.take_if(|_| self.seen_key == key)
    }

    /// Records the result of reading a key.
    #[inline]
    pub(crate) fn see(&mut self, key: &[u8], seen: RecordGlimpse) {
        self.seen_key.clear();
        self.seen_key.extend_from_slice(key);
        self.seen = Some(seen);
    }

    /// Adds a change of a record that was read as `seen`, with contents that may be in `made`.
    pub(crate) fn push(
        &mut self,
        (at, key): (Timestamp, &[u8]),
        action: &LogAction<'_>,
        seen: RecordGlimpse,
        made: &[u8],
    ) {
        self.seen = None;
        let list = |record: &RecordType| if *record == RecordType::List { FLAG_LIST } else { 0 };
        let version = at;
        let (kind, mut flags, change) = match *action {
            LogAction::Put { ref record, units, deadline, .. } => {
                let change = RecordChange::Put { record: *record, units, version, deadline };
                (EntryKind::Put, list(record), change)
            }
            LogAction::Append { ref record, units, .. } => {
                (EntryKind::Append, list(record), RecordChange::Append { record: *record, units, version })
            }
            LogAction::Remove | LogAction::Take => (EntryKind::Remove, 0, RecordChange::Remove),
            LogAction::Trim { units, .. } => (EntryKind::Trim, 0, RecordChange::Trim { units, version }),
            LogAction::Deadline(deadline) => (EntryKind::Mark, 0, RecordChange::Deadline(deadline)),
            LogAction::PutChunk(written, _) => {
                (EntryKind::Put, FLAG_CHUNK, RecordChange::PutChunk { written, version })
            }
            LogAction::OverlayChunk(written, _) => {
                (EntryKind::Append, FLAG_CHUNK, RecordChange::OverlayChunk { written, version })
            }
            LogAction::Nothing => return,
        };
        let bytes = &mut self.bytes;
        let begin = bytes.len();
        bytes.extend_from_slice(key);
        let key_end = bytes.len();
        let note = EntryMetadata { deadline: action.entry_deadline(), session: None };
        match *action {
            LogAction::Put { contents, .. } | LogAction::Append { contents, .. } => {
                bytes.extend_from_slice(match contents {
                    Contents::AsReceived(bytes) => bytes,
                    Contents::Buffered => made,
                });
            }
            LogAction::PutChunk(_, apart) | LogAction::OverlayChunk(_, apart) => {
                bytes.extend_from_slice(made);
                bytes.extend_from_slice(apart);
            }
            LogAction::Trim { to, .. } => bytes.extend_from_slice(&to.encode()),
            LogAction::Deadline(_) => note.push_mark(at, bytes),
            // The outcome of a transaction has what it took.
            LogAction::Remove | LogAction::Take | LogAction::Nothing => {}
        }
        if kind != EntryKind::Mark && !note.is_empty() {
            note.push_trailer(at, bytes);
            flags |= FLAG_TRAILER;
        }
        let place = [begin, key_end, bytes.len()];
        let RecordGlimpse { shape, hint } = seen;
        self.items.push(BufferedChange {
            kind,
            flags,
            at,
            hint,
            change: Some((change, shape)),
            key_and_payload_range: place,
        });
    }

    /// Adds a mark with this payload.
    pub(crate) fn push_mark(&mut self, at: Timestamp, payload: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        let place = [begin, begin, self.bytes.len()];
        self.items.push(BufferedChange {
            kind: EntryKind::Mark,
            flags: 0,
            at,
            hint: None,
            change: None,
            key_and_payload_range: place,
        });
    }

    /// Adds an empty mark: the end of an atomic batch whose last change is already in the log.
    pub(crate) fn push_end(&mut self, at: Timestamp) {
        let mut payload = Vec::new();
        EntryMetadata::default().push_mark(at, &mut payload);
        self.push_mark(at, &payload);
    }

    /// Appends all changes to the log and to the overlay. The last one is joined with the next only if the atomic batch
    /// continues.
    pub(crate) fn append<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (log_writer, overlay): (&mut LogWriter, &mut Overlay),
        goes_on: bool,
    ) -> EngineResult<()> {
        let UnitWriteBuffer { items, bytes, recorded: noted, .. } = self;
        let mut left = items.len();
        for item in items.iter_mut() {
            left -= 1;
            let change = item.change.take();
            let mut entry = item.entry(bytes);
            if goes_on || left > 0 {
                entry.flags |= FLAG_JOINED;
            }
            let meta = log_writer.append_only(engine, &entry)?;
            if log_writer.commits_at_once() {
                noted.push(&meta, entry.key, entry.payload);
            }
            if let Some((change, before)) = change {
                overlay.change(meta.index, entry.key, change, before);
            }
        }
        items.clear();
        bytes.clear();
        Ok(())
    }

    /// Empties the buffer for the next atomic batch, and frees the memory that a large change has left.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
        self.seen = None;
        self.recorded.entries.clear();
        self.recorded.bytes.clear();
        for buffer in [&mut self.bytes, &mut self.made] {
            if buffer.capacity() > BUFFER_RETAINED_BYTES {
                *buffer = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::blob::BlobStamp;

    use super::*;
    use crate::overlay::ChunkWrite;

    /// The request is gone when the atomic batch goes into the log.
    #[test]
    fn write_buffer_joins_separate_bytes_to_their_entry_head() {
        let (mut staged, bytes) = (UnitWriteBuffer::default(), vec![7; 70_000]);
        let written = ChunkWrite { stamp: BlobStamp { id: 5, generation: 0 }, offset: 0, length: 70_000 };
        for action in [LogAction::PutChunk(written, &bytes), LogAction::OverlayChunk(written, &bytes)] {
            staged.push((Timestamp(1), b"chunk"), &action, RecordGlimpse::default(), b"head");
        }
        let whole = [b"head", &bytes[..]].concat();
        assert_eq!(staged.entries().len(), 2);
        for entry in staged.entries() {
            assert_eq!(entry.key, b"chunk");
            assert!(entry.payload == whole, "{} bytes", entry.payload.len());
        }
    }
}
