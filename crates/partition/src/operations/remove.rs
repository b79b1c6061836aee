//! `remove`: removes the record.

use zerohop_wire::ids::Timestamp;

use super::{Cell, LogAction, PlanResult, WritePlan};
use crate::outcome::WriteOutcome;

pub(super) fn plan<'a, D>(cell: &Cell<'_, '_, D>) -> PlanResult<'a> {
    let done = |number| WriteOutcome::Done { version: Timestamp::ZERO, number };
    Ok(match cell.shape {
        Some(_) => WritePlan { action: LogAction::Remove, outcome: done(1) },
        None => WritePlan { action: LogAction::Nothing, outcome: done(0) },
    })
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Failure;
    use zerohop_wire::ids::Timestamp;
    use zerohop_wire::messages::{Condition, WriteChange};

    use crate::testing::{PartitionBench, append, insert};

    #[test]
    fn remove_returns_whether_record_existed() {
        let mut bench = PartitionBench::new();
        assert_eq!(bench.write(b"k", WriteChange::Remove).number(), Ok(0));
        bench.write(b"k", insert(b"v")).number().expect("is done");
        let removed = bench.write(b"k", WriteChange::Remove);
        assert_eq!((removed.number(), removed.version()), (Ok(1), Timestamp::ZERO));
        assert_eq!(bench.bytes(b"k"), None);
        bench.write(b"k", append(&[b"a"])).number().expect("is done");
        assert_eq!(bench.write(b"k", WriteChange::Remove).number(), Ok(1));
        let gone = Err(Failure::ConditionFailed { version: Timestamp::ZERO, found: None });
        assert_eq!(bench.write_if(b"k", Condition::IfPresent, WriteChange::Remove).number(), gone);
    }
}
