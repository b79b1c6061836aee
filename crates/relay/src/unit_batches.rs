//! The messages between two instances of one node: units of clients, and their outcomes.

use zerohop_resp::PartitionPlace;
use zerohop_wire::messages::UnitVerdict;

/// Units for one instance, back to back.
#[derive(Debug, Default)]
pub struct Units {
    /// The sender: its index among the node's instances.
    pub from: usize,
    /// The units, in the order of their bytes.
    pub items: Vec<ForwardItem>,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

/// One of the units of [`Units`].
#[derive(Clone, Copy, Debug)]
pub struct ForwardItem {
    /// The number under which its outcome comes back.
    pub number: u64,
    /// The number of the unit before it: this unit is not run if that one was not. 0: it depends on
    /// none.
    pub behind: u64,
    /// Its partition.
    pub to: PartitionPlace,
    /// Where its bytes end.
    pub end: usize,
}

/// Replies of one instance, back to back.
#[derive(Debug, Default)]
pub struct ReplyBatch {
    /// The outcomes, in the order of their bytes.
    pub items: Vec<AnsweredUnit>,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

/// One of the outcomes of [`ReplyBatch`].
#[derive(Clone, Copy, Debug)]
pub struct AnsweredUnit {
    /// The number of its unit.
    pub number: u64,
    /// The outcome; only a reply has bytes.
    pub verdict: UnitVerdict,
    /// Where its bytes end.
    pub end: usize,
}
