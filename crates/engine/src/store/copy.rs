//! A partition's data once more, as another partition's: what a split makes of its parent, twice.

use std::collections::BTreeMap;

use super::PartitionStore;
use crate::log::segment::Segment;
use crate::{Damage, PartitionId};

impl PartitionStore {
    /// The same records, log and versions over copies of the segments. Nothing may be under way that leads locations into
    /// segments that are not of the log any more. `state`: what an upper layer knows beside, and the log index it is as
    /// of; without one, what the checkpoint had.
    pub(crate) fn copy_for(
        &self,
        (partition, handle): (PartitionId, u32),
        folder: String,
        segments: BTreeMap<u32, Segment>,
        state: Option<(u64, &[u8])>,
    ) -> PartitionStore {
        assert!(!self.compaction.is_swapping(), "locations lead into the log");
        let log = self.log.copy_for((partition, handle), folder, segments);
        let given = state.map(|(index, bytes)| Box::new((index, bytes.to_vec())));
        let damage = self.damage.iter().map(|damage| Damage { partition, ..damage.clone() });
        let mut copy = PartitionStore {
            index: self.index.clone(),
            chains: self.chains.clone(),
            versions: self.versions.clone(),
            horizon: self.horizon,
            pending: self.pending.clone(),
            commit: self.commit,
            holds_state: self.holds_state,
            incoming: self.incoming,
            damage: damage.collect(),
            recovered_extra: given.or_else(|| self.recovered_extra.clone()),
            dead_since_look: self.dead_since_look,
            ..PartitionStore::new(log, self.durability)
        };
        copy.checkpoints.tail_bytes = self.checkpoints.tail_bytes;
        copy
    }
}
