//! `confirm`: whether a record is still what was read of it.

use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Answer, Outcome as Brought};

use crate::overlay::Shape;

pub(super) fn answer<'o>(shape: Option<&Shape>, seen: Timestamp) -> Answer<'o> {
    let version = shape.map_or(Timestamp::ZERO, |shape| shape.version);
    Ok(Brought::Done { version, number: u64::from(version == seen) })
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::Timestamp;
    use zerohop_wire::messages::Query;

    use crate::testing::{Bench, insert};

    #[test]
    fn only_the_version_that_is_there_is_confirmed() {
        let mut bench = Bench::new();
        let absent = Query::Confirm { version: Timestamp::ZERO };
        assert_eq!(bench.read(b"k", absent).number(), Ok(1));
        let version = bench.write(b"k", insert(b"value")).version();
        assert_eq!(bench.read(b"k", absent).number(), Ok(0));
        assert_eq!(bench.read(b"k", Query::Confirm { version }).number(), Ok(1));
        bench.write(b"k", insert(b"value")).number().expect("is done");
        assert_eq!(bench.read(b"k", Query::Confirm { version }).number(), Ok(0));
    }
}
