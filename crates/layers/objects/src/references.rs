//! What several transactions share: the bucket of a put, and the references of sets.

use crate::error::ObjectError;
use crate::ids::{BodyId, SetId};
use crate::keys::{self, Timer};
use crate::optimistic::{Pause, Reads, Writes};
use crate::planted::{Bug, is_planted};
use crate::records::{BodyRecord, BucketRecord, PartRecord, SetRecord};

/// How long bodies stay that no object names, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// How long a body may be written before it is renewed or committed.
    pub pending: u64,
    /// How far the clocks of two drivers may differ.
    pub skew: u64,
    /// How long readers may read a set after its last reference is gone.
    pub grace: u64,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { pending: 240_000, skew: 60_000, grace: 300_000 }
    }
}

/// The end of the time of grace of a dead set, before a sweep has set it.
pub(crate) const UNTIL_UNKNOWN: u64 = 0;

/// The grace of a transaction that may stay open: its commit may come at any time, so the sweep lets the time begin.
const GRACE_FROM_SWEEP: u64 = u64::MAX;

impl Lifetimes {
    /// The same for a decision in a transaction that may stay open. The time of grace then begins when a sweep finds the set.
    #[must_use]
    pub const fn of_open_transaction(self) -> Self {
        Self { grace: GRACE_FROM_SWEEP, ..self }
    }

    /// When the sweep looks at a body that may be written until `until`.
    pub(crate) const fn due(self, until: u64) -> u64 {
        until.saturating_add(self.skew)
    }
}

/// The bucket of a put. A removal of the bucket that has begun starts again.
pub(crate) fn bucket_for_put(
    reads: &mut Reads,
    writes: &mut Writes,
    name: &str,
) -> Result<BucketRecord, Pause> {
    let key = keys::bucket(name);
    let mut bucket: BucketRecord = reads.get(&key)?.ok_or(ObjectError::NoSuchBucket)?;
    if bucket.under_removal && !is_planted(Bug::RemovalNotInterrupted) {
        bucket.under_removal = false;
        writes.put(key, &bucket);
    }
    Ok(bucket)
}

/// Moves one reference from the set `release` to the set `acquire`, which must be live. Of one and the same set nothing changes.
pub(crate) fn move_reference(
    now: u64,
    grace: u64,
    reads: &mut Reads,
    writes: &mut Writes,
    acquire: Option<SetId>,
    release: Option<SetId>,
) -> Result<(), Pause> {
    if acquire == release {
        return Ok(());
    }
    reads.require(acquire.into_iter().chain(release).map(keys::set))?;
    if let Some(id) = acquire {
        let (references, in_parts) = live_set(reads, id)?;
        if !is_planted(Bug::CopyNotCounted) {
            writes.put(keys::set(id), &SetRecord::Live { references: references + 1, in_parts });
        }
    }
    if let Some(id) = release {
        let (references, in_parts) = live_set(reads, id)?;
        if references > 1 {
            writes.put(keys::set(id), &SetRecord::Live { references: references - 1, in_parts });
        } else {
            let grace = if is_planted(Bug::NoGrace) { 0 } else { grace };
            let (until, due) = match grace {
                GRACE_FROM_SWEEP => (UNTIL_UNKNOWN, now),
                grace => (now.saturating_add(grace), now.saturating_add(grace)),
            };
            writes.put(keys::set(id), &SetRecord::Dead { in_parts, until });
            writes.put_empty(Timer { due, set: id, number: 0 }.key());
        }
    }
    Ok(())
}

fn live_set(reads: &mut Reads, id: SetId) -> Result<(u64, bool), Pause> {
    let key = keys::set(id);
    match reads.get(&key)? {
        Some(SetRecord::Live { references, in_parts }) if references > 0 => Ok((references, in_parts)),
        _ => Err(ObjectError::Corrupt(key).into()),
    }
}

/// Drops the contents of a part: its own body gets a timer that is due, the source of a copied part loses a reference.
pub(crate) fn drop_part_contents(
    now: u64,
    grace: u64,
    reads: &mut Reads,
    writes: &mut Writes,
    set: SetId,
    part: &PartRecord,
) -> Result<(), Pause> {
    if let Some(number) = part.body {
        writes.put(keys::body(BodyId { set, number }), &BodyRecord::Dead);
        writes.put_empty(Timer { due: now, set, number }.key());
    }
    if part.source.is_some() && is_planted(Bug::CopiedPartsNotReleased) {
        return Ok(());
    }
    move_reference(now, grace, reads, writes, None, part.source)
}
