//! The records of a partition that are its own: after a split it has those of its siblings too.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult, Handle};

use crate::hash_range::HashRange;

/// The number of a partition's own records. While there may be foreign records this walks through all of them.
pub(crate) fn count_own<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    foreign: Option<HashRange>,
) -> EngineResult<u64> {
    let Some(hash_range) = foreign else {
        return engine.records(handle);
    };
    let (mut count, mut cursor) = (0, Some(0));
    while let Some(at) = cursor {
        let (keys, next) = engine.scan(handle, at)?;
        for key in keys.iter().filter(|key| hash_range.owns(key)) {
            // A page may repeat some keys of lower fragments.
            count += u64::from(engine.fragment_of(handle, key)? >= at);
        }
        cursor = next;
    }
    Ok(count)
}
