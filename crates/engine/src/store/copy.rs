//! A copy of a partition's data, as another partition: a split makes such copies of the parent.

use std::collections::BTreeMap;

use super::{PartitionStore, StoreIdentity};
use crate::io::Logs;
use crate::log::segment::Segment;
use crate::{Damage, PartitionId};

impl PartitionStore {
    /// The same records, log and versions over copies of the segments. No running work may redirect locations
    /// into segments that are no longer in the log. `state`: the upper layer's state, and the log index of
    /// that state; without it, the payload of the checkpoint.
    pub(crate) fn copy_for(
        &self,
        logs: &mut Logs,
        (partition, handle): (PartitionId, u32),
        folder: String,
        segments: BTreeMap<u32, Segment>,
        state: Option<(u64, &[u8])>,
    ) -> PartitionStore {
        assert!(!self.compaction.is_swapping(), "locations lead into the log");
        let log = logs.separate(self.handle).copy_for((partition, handle), folder, segments);
        let given = state.map(|(index, bytes)| Box::new((index, bytes.to_vec())));
        let damage = self.damage.iter().map(|damage| Damage { partition, ..damage.clone() });
        let mut copy = PartitionStore {
            index: self.index.clone(),
            chains: self.chains.clone(),
            versions: self.versions.clone(),
            places: self.places.clone(),
            horizon: self.horizon,
            recent: self.recent.clone(),
            commit: self.commit,
            has_state_in_log: self.has_state_in_log,
            incoming: self.incoming,
            damage: damage.collect(),
            recovered_extra: given.or_else(|| self.recovered_extra.clone()),
            dead_since_check: self.dead_since_check,
            ..PartitionStore::new(handle, StoreIdentity { partition, ..self.id }, self.durability)
        };
        logs.add_separate(log);
        copy.checkpoints.tail_bytes = self.checkpoints.tail_bytes;
        copy
    }
}
