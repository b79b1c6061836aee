//! The range of keys that a comparison reads.

use zerohop_engine::Cursor;
use zerohop_wire::messages::{DigestRange, EntryName};

/// The range of a digest: the keys from a cursor to another, or to the end, as of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComparedKeys {
    pub(super) as_of: EntryName,
    pub(super) from: Cursor,
    pub(super) to: Option<Cursor>,
    pub(super) contents: bool,
}

impl ComparedKeys {
    /// `None`: its cursors are longer than any.
    pub(super) fn of(range: &DigestRange<'_>) -> Option<ComparedKeys> {
        let DigestRange { as_of, from, to, contents } = *range;
        let (from, to) = (Cursor::from_bytes(from).ok()?, Cursor::from_bytes(to).ok()?);
        Some(ComparedKeys { as_of, from, to: Some(to).filter(|to| !to.is_start()), contents })
    }

    /// As messages have it.
    pub(super) fn message(&self) -> DigestRange<'_> {
        let to = self.to.as_ref().map_or(&[][..], Cursor::as_bytes);
        DigestRange { as_of: self.as_of, from: self.from.as_bytes(), to, contents: self.contents }
    }
}
