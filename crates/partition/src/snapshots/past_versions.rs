//! Past state that is not in the engine: deadlines of records, and names of removed blobs. It is in memory only, as the engine's
//! older versions are.

use std::collections::BTreeMap;
use std::ops::Bound;

use zerohop_wire::ids::Timestamp;

use crate::state::PartitionState;

/// Deadlines of one key, each with the time until which it applied.
type DeadlineHistory = Vec<(Timestamp, Option<u64>)>;

/// The past state of a partition; see the module.
#[derive(Debug, Default)]
pub(crate) struct PastVersions {
    deadlines: BTreeMap<Box<[u8]>, DeadlineHistory>,
    /// Names that were removed, and when last.
    names: BTreeMap<Box<[u8]>, Timestamp>,
    retained_versions: usize,
}

impl PastVersions {
    /// The deadline of a key has changed.
    pub(crate) fn deadline_ended(&mut self, key: &[u8], was: Option<u64>, until: Timestamp) {
        self.deadlines.entry(key.into()).or_default().push((until, was));
        self.retained_versions += 1;
    }

    /// The blob of this name was removed.
    pub(crate) fn name_ended(&mut self, name: &[u8], until: Timestamp) {
        if self.names.insert(name.into(), until).is_none() {
            self.retained_versions += 1;
        }
    }

    /// The deadline that a key had.
    pub(crate) fn deadline(&self, key: &[u8], at: Timestamp, state: &PartitionState) -> Option<u64> {
        let was = self.deadlines.get(key).into_iter().flatten();
        match was.clone().find(|(until, _)| *until > at) {
            Some((_, deadline)) => *deadline,
            None => state.deadlines.get(key),
        }
    }

    /// Names that begin with `prefix`, come behind `after` (empty: all) and were removed after a time, in order.
    pub(crate) fn names<'n>(
        &'n self,
        prefix: &'n [u8],
        after: &[u8],
        at: Timestamp,
    ) -> impl Iterator<Item = &'n [u8]> {
        let begin = match after >= prefix && !after.is_empty() {
            true => Bound::Excluded(after),
            false => Bound::Included(prefix),
        };
        let names = self.names.range::<[u8], _>((begin, Bound::Unbounded));
        let names = names.take_while(move |(name, _)| name.starts_with(prefix));
        names.filter(move |(_, until)| **until > at).map(|(name, _)| &**name)
    }

    /// Drops the state that ended before the horizon; without a horizon, all of it.
    pub(crate) fn drop_below(&mut self, horizon: Option<Timestamp>) {
        let Some(horizon) = horizon else {
            *self = PastVersions::default();
            return;
        };
        for was in self.deadlines.values_mut() {
            was.retain(|(until, _)| *until > horizon);
        }
        self.deadlines.retain(|_, was| !was.is_empty());
        self.names.retain(|_, until| *until > horizon);
        self.retained_versions = self.names.len() + self.deadlines.values().map(Vec::len).sum::<usize>();
    }

    /// The number of kept entries.
    pub(crate) fn len(&self) -> usize {
        self.retained_versions
    }
}
