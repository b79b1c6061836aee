//! Writes of a record.
//!
//! Every write begins with the same 16 bytes, so that conditions on presence and version work the same for all of them:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | key length |
//! | 4 | 1 | condition |
//! | 5 | 1 | detail, per kind |
//! | 6 | 2 | zero |
//! | 8 | 8 | version of the condition |
//!
//! The fields of the kind, the key, and the payload follow.

use crate::operations::WriteChange;
use crate::record::Condition;

/// One write of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordWrite<'a> {
    /// The key of the record.
    pub key: &'a [u8],
    /// The condition; if it does not hold, the answer is `ConditionFailed` and nothing changes.
    pub condition: Condition,
    /// The change.
    pub change: WriteChange<'a>,
}
