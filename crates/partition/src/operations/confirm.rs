//! `confirm`: whether a record is still as it was read.
//!
//! An absence has no version. A record that was created and removed between the two reads leaves none behind, so an absent record
//! is never confirmed. A client that has read an absence uses a transaction, whose intents protect it. An absent chunk of a blob
//! is confirmed. Chunks are removed only with a truncation, which changes the blob fence in the header. A client that confirms
//! chunks reads the header again.

use zerohop_wire::blob::is_of_blob;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{OperationAnswer, Outcome as WireOutcome};

use crate::overlay::Shape;

pub(super) fn answer<'o>(key: &[u8], shape: Option<&Shape>, seen: Timestamp) -> OperationAnswer<'o> {
    let version = shape.map_or(Timestamp::ZERO, |shape| shape.version);
    let is_lasting = seen != Timestamp::ZERO || is_of_blob(key);
    Ok(WireOutcome::Done { version, number: u64::from(version == seen && is_lasting) })
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Failure;
    use zerohop_wire::blob::chunk_key;
    use zerohop_wire::ids::Timestamp;
    use zerohop_wire::messages::{Query, Remove, WriteChange};

    use crate::testing::{PartitionBench, insert};

    #[test]
    fn confirm_accepts_only_the_current_version() {
        let mut bench = PartitionBench::new();
        let version = bench.write(b"k", insert(b"value")).version();
        assert_eq!(bench.read(b"k", Query::Confirm { version }).number(), Ok(1));
        bench.write(b"k", insert(b"value")).number().expect("is done");
        assert_eq!(bench.read(b"k", Query::Confirm { version }).number(), Ok(0));
    }

    #[test]
    fn absence_cannot_be_confirmed() {
        let mut bench = PartitionBench::new();
        assert_eq!(bench.read(b"k", Query::Lookup).number(), Err(Failure::NotFound));
        bench.write(b"k", insert(b"value")).number().expect("is done");
        bench.write(b"k", WriteChange::Remove(Remove)).number().expect("is done");
        let absent = Query::Confirm { version: Timestamp::ZERO };
        assert_eq!(bench.read(b"k", absent).number(), Ok(0));
        let chunk = chunk_key(b"name", 1).expect("is a key");
        assert_eq!(bench.read(&chunk, absent).number(), Ok(1), "its header's stamp says whether it was cut");
    }
}
