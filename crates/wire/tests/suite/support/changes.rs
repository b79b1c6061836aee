//! A request for changes, and a page of them.

use zerohop_wire::Elements;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{ChangeCause, CommittedChange, Outcome, ReadChanges, RecordType};

/// A request with every field set.
pub fn request(seen: Timestamp) -> ReadChanges<'static> {
    ReadChanges {
        seen,
        after: 4711,
        newest: Timestamp(16),
        wait_ms: 10_000,
        changes_max: 1000,
        bytes_max: 65_536,
        values: true,
        from: b"user/a",
        to: b"user/n",
        prefix: b"user/",
    }
}

/// A value that was stored, and another that has expired.
pub fn page(version: Timestamp) -> [CommittedChange<'static>; 2] {
    let stored = CommittedChange {
        key: b"a",
        at: version,
        before: Timestamp(17),
        index: 4712,
        record: Some(RecordType::Bytes),
        cause: ChangeCause::Write,
        value: Some(b"first"),
    };
    let expired = CommittedChange {
        key: b"bc",
        index: 4713,
        record: None,
        cause: ChangeCause::Expiry,
        value: None,
        ..stored
    };
    [stored, expired]
}

/// The answer with these changes.
pub fn answer<'a>(through: Timestamp, changes: &'a [CommittedChange<'a>]) -> Outcome<'a> {
    Outcome::Changes { next: 4713, newest: through, through, changes: Elements::from_slice(changes) }
}
