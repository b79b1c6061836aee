//! The steps of the model.

use crate::control::ControlDecision;
use crate::world::LastRequest;

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplicationStep {
    /// A client writes at a member.
    Write(usize),
    /// A primary commits its next entry.
    Commit(usize),
    /// A member gets the entry behind an index of the primary of an epoch.
    Entry(usize, u8, u8),
    /// A member hears of the commit index.
    ReceiveCommit(usize),
    /// A member installs a snapshot as of a commit index.
    State(usize, u8),
    /// A member's flush ends.
    Flush(usize),
    /// The map of an epoch comes to a member.
    Map(usize, u8),
    /// The primary of an epoch hears that a member yields.
    Yield(u8, usize),
    /// A primary asks for a change.
    Propose(usize, LastRequest, usize),
    /// A process starts again; so many entries are left on its disk, or it has another disk.
    Restart(usize, Option<u8>),
    /// Time passes, until no grant is in use that a member waits for.
    Wait(usize),
    /// A grant under an old map arrives after it was waited for (if it may).
    LateGrant(usize, u8, usize),
    /// The control group decides.
    Decide(ControlDecision),
}
