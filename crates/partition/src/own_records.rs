//! The records of a partition that are its own: after a split it has those of its siblings too.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Cursor, Engine, EngineResult, Handle};

use crate::hash_range::HashRange;

/// The number of a partition's own records. While there may be foreign records this walks through all of them.
pub(crate) fn count_own<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    foreign: Option<&HashRange>,
) -> EngineResult<u64> {
    let Some(hash_range) = foreign else {
        return engine.records(handle);
    };
    let (mut count, mut cursor) = (0, Some(Cursor::START));
    while let Some(at) = cursor {
        let (keys, next) = engine.scan(handle, &at)?;
        count += keys.iter().filter(|key| hash_range.owns(key)).count() as u64;
        cursor = next;
    }
    Ok(count)
}
