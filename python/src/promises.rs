//! Results of writes that a transaction will have.

use std::sync::{Arc, Mutex};

use zerohop_client::{Promise, Timestamp};

use crate::number::NumberPromise;

/// The results of a transaction's writes, by index.
pub(crate) type Promises = Arc<Mutex<Vec<PromisedValue>>>;

/// The result of a write, after the commit.
pub(crate) enum PromisedValue {
    /// No result, unless a reserved index is used.
    Nothing,
    Changed(NumberPromise),
    Version(Promise<Timestamp>),
    Number(Promise<u64>),
    Signed(Promise<i64>),
    Flag(Promise<bool>),
}
