//! The transaction state that all members of a partition's group share: a function of the committed log, and of nothing
//! else.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zerohop_base::invariant::{BrokenInvariant, check_rules};
use zerohop_wire::ids::{LogIndex, SessionId, Timestamp};

use crate::entry::{Participant, TransactionEntry};
use crate::id::{Attempt, DecisionFloor, Durability, RoutingKey, StageId, TransactionId};
use crate::intents::Locks;
use crate::item::Access;
use crate::planted::{Bug, is_planted};

/// A prepared transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreparedTransaction {
    pub(crate) index: LogIndex,
    pub(crate) attempt: Attempt,
    pub(crate) routing_key: RoutingKey,
    pub(crate) durability: Durability,
    pub(crate) proposal: Timestamp,
    pub(crate) locks: Locks,
    pub(crate) pinned: Vec<StageId>,
    pub(crate) effect: Bytes,
    pub(crate) result: Bytes,
}

/// A decision that some participant may not have carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenDecision {
    pub(crate) index: LogIndex,
    pub(crate) attempt: Attempt,
    pub(crate) timestamp: Timestamp,
    pub(crate) durability: Durability,
    pub(crate) participants: Vec<Participant>,
}

/// A staged piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StagedItem {
    pub(crate) bytes: u64,
    pub(crate) pinned: Option<TransactionId>,
    /// Its bytes are a record of the partition, and not in memory.
    pub(crate) is_record: bool,
}

/// The changes of a committed entry to the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// The transaction.
    pub id: TransactionId,
    /// Its version.
    pub timestamp: Timestamp,
    /// The effect from [`crate::PartitionHost::evaluate`]. After a split it may also change records that a sibling owns: the
    /// sibling installs those.
    pub effect: Bytes,
    /// Staged pieces that the effect may refer to, and that are released now.
    pub pinned: Vec<StageId>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParticipantState {
    /// In boxes, as these maps are empty most of the time: their first leaf, which has room for eleven, is allocated and
    /// freed with each transaction.
    pub(crate) prepared: BTreeMap<TransactionId, Box<PreparedTransaction>>,
    /// Applied transactions that are not known to be finished, with the index of the decision.
    pub(crate) applied: BTreeMap<TransactionId, (LogIndex, Timestamp)>,
    pub(crate) decisions: BTreeMap<TransactionId, Box<OpenDecision>>,
    /// The indices of the decisions.
    unfinished: BTreeSet<LogIndex>,
    pub(crate) staged: BTreeMap<StageId, StagedItem>,
    /// The last entry applied.
    pub(crate) last: LogIndex,
    /// Memory of prepared transactions and staged pieces, about.
    bytes: u64,
    /// Staged bytes, in memory or in records.
    staged_bytes: u64,
}

/// The owner of these invariants.
const STATE: &str = "the transaction state of a partition";

/// Memory of a staged piece's metadata.
const STAGED_BYTES: u64 = 128;

/// Memory of a prepared transaction beside its locks and bytes.
const PREPARED_BYTES: u64 = 256;

impl StagedItem {
    /// Memory that it uses.
    fn memory(&self) -> u64 {
        STAGED_BYTES + if self.is_record { 0 } else { self.bytes }
    }
}

impl PreparedTransaction {
    fn bytes(&self) -> u64 {
        let locks = self.locks.len() * size_of::<(u64, Access)>() + self.pinned.len() * size_of::<StageId>();
        PREPARED_BYTES + (locks + self.effect.len() + self.result.len()) as u64
    }
}

impl ParticipantState {
    /// Applies a committed entry: on every member, in the order of the log. Returns the changes to the records.
    #[must_use]
    pub fn apply(&mut self, index: LogIndex, entry: &TransactionEntry) -> Option<Install> {
        self.last = self.last.max(index);
        match entry {
            TransactionEntry::Prepare {
                id,
                attempt,
                routing_key: place,
                durability,
                proposal,
                locks,
                pinned,
                effect,
                result,
            } => {
                let prepared = Box::new(PreparedTransaction {
                    index,
                    attempt: *attempt,
                    routing_key: *place,
                    durability: *durability,
                    proposal: *proposal,
                    locks: locks.clone(),
                    pinned: pinned.clone(),
                    effect: effect.clone(),
                    result: result.clone(),
                });
                self.pin(pinned, Some(*id));
                self.bytes += prepared.bytes();
                if let Some(before) = self.prepared.insert(*id, prepared) {
                    self.bytes -= before.bytes();
                }
            }
            TransactionEntry::Release { id, attempt } => {
                if self.prepared.get(id).is_some_and(|prepared| prepared.attempt <= *attempt)
                    && let Some(prepared) = self.take_prepared(id)
                {
                    self.pin(&prepared.pinned, None);
                }
            }
            TransactionEntry::Apply { id, prepared, timestamp, decision } => {
                self.applied.insert(*id, (*decision, *timestamp));
                if self.prepared.get(id).is_some_and(|found| found.index == *prepared) {
                    let prepared = self.take_prepared(id)?;
                    return Some(self.install(*id, *timestamp, prepared.effect, prepared.pinned));
                }
            }
            TransactionEntry::Commit {
                id,
                attempt,
                timestamp,
                durability,
                participants,
                pinned,
                effect,
                ..
            } => {
                if !participants.is_empty() {
                    let decision = OpenDecision {
                        index,
                        attempt: *attempt,
                        timestamp: *timestamp,
                        durability: *durability,
                        participants: participants.clone(),
                    };
                    self.decisions.insert(*id, Box::new(decision));
                    self.unfinished.insert(index);
                }
                return Some(self.install(*id, *timestamp, effect.clone(), pinned.clone()));
            }
            TransactionEntry::Finish { id } => {
                self.finish(id);
            }
            TransactionEntry::DropBelow { floor } => self.drop_below(*floor),
            TransactionEntry::DropBelowAll { floors } => {
                floors.iter().for_each(|floor| self.drop_below(*floor))
            }
            TransactionEntry::Stage { id, bytes } => {
                self.add_staged(
                    *id,
                    StagedItem { bytes: bytes.len() as u64, pinned: None, is_record: false },
                );
            }
            TransactionEntry::StagePiece { id, bytes } => {
                self.add_staged(*id, StagedItem { bytes: *bytes, pinned: None, is_record: true });
            }
            TransactionEntry::Expire { ids } => {
                for id in ids {
                    if self.staged.get(id).is_some_and(|staged| staged.pinned.is_none()) {
                        self.take_staged(id);
                    }
                }
            }
            TransactionEntry::Abort { .. } => {}
        }
        None
    }

    pub(crate) fn finish(&mut self, id: &TransactionId) {
        if let Some(decision) = self.decisions.remove(id) {
            self.unfinished.remove(&decision.index);
        }
    }

    fn drop_below(&mut self, floor: DecisionFloor) {
        let over: Vec<TransactionId> = self.below(floor).collect();
        for id in &over {
            self.applied.remove(id);
        }
    }

    /// Applied transactions that are finished according to this floor.
    fn below(&self, floor: DecisionFloor) -> impl Iterator<Item = TransactionId> + '_ {
        let of_coordinator = self.applied.range(floor.hash_range.decides());
        of_coordinator.filter(move |(_, (decision, _))| *decision < floor.index).map(|(id, _)| *id)
    }

    fn add_staged(&mut self, id: StageId, staged: StagedItem) {
        self.take_staged(&id);
        self.bytes += staged.memory();
        self.staged_bytes += staged.bytes;
        self.staged.insert(id, staged);
    }

    fn take_staged(&mut self, id: &StageId) {
        if let Some(staged) = self.staged.remove(id) {
            self.bytes -= staged.memory();
            self.staged_bytes -= staged.bytes;
        }
    }

    /// The session table forgets these sessions. Decisions for them stay until all participants have carried them out.
    pub fn evict(&mut self, sessions: &[SessionId]) {
        if is_planted(Bug::DecisionEvictedWithSession) {
            let ids: Vec<TransactionId> =
                self.decisions.keys().filter(|id| sessions.contains(&id.session)).copied().collect();
            ids.iter().for_each(|id| self.finish(id));
        }
    }

    fn take_prepared(&mut self, id: &TransactionId) -> Option<Box<PreparedTransaction>> {
        let prepared = self.prepared.remove(id)?;
        self.bytes -= prepared.bytes();
        Some(prepared)
    }

    fn pin(&mut self, pinned: &[StageId], by: Option<TransactionId>) {
        for id in pinned {
            if let Some(staged) = self.staged.get_mut(id) {
                staged.pinned = by;
            }
        }
    }

    fn install(
        &mut self,
        id: TransactionId,
        timestamp: Timestamp,
        effect: Bytes,
        pinned: Vec<StageId>,
    ) -> Install {
        pinned.iter().for_each(|id| self.take_staged(id));
        Install { id, timestamp, effect, pinned }
    }

    /// The index of the oldest decision that is not finished, or the one above all that is applied.
    #[must_use]
    pub fn oldest_unfinished(&self) -> LogIndex {
        self.unfinished.first().copied().unwrap_or(self.last.next())
    }

    /// Whether a floor allows the state to forget any transaction.
    pub(crate) fn is_below(&self, floor: DecisionFloor) -> bool {
        self.below(floor).next().is_some()
    }

    /// Whether the log allows a keyspace to be split or deleted: there is no intent and no unfinished decision.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.prepared.is_empty() && self.decisions.is_empty()
    }

    /// Number of transactions that are prepared here, or decided here and not acknowledged by all.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.prepared.len() + self.decisions.len()
    }

    /// Whether the state is completely empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_quiet() && self.applied.is_empty() && self.staged.is_empty()
    }

    /// The changes of an `Apply` that names this `Prepare`; `None` if that `Prepare` is not in the state.
    #[must_use]
    pub fn effect_of(&self, id: &TransactionId, prepared: LogIndex) -> Option<Bytes> {
        let found = self.prepared.get(id).filter(|found| found.index == prepared)?;
        Some(found.effect.clone())
    }

    /// The staged pieces that an `Apply` which names this `Prepare` will release.
    #[must_use]
    pub fn pinned_of(&self, id: &TransactionId, prepared: LogIndex) -> &[StageId] {
        let found = self.prepared.get(id).filter(|found| found.index == prepared);
        found.map_or(&[], |found| &found.pinned)
    }

    /// Whether a staged piece exists.
    #[must_use]
    pub fn has_staged(&self, id: &StageId) -> bool {
        self.staged.contains_key(id)
    }

    /// The length of a staged piece whose bytes are a record; `None` if there is no such piece.
    #[must_use]
    pub fn staged_record_length(&self, id: &StageId) -> Option<u64> {
        self.staged.get(id).filter(|staged| staged.is_record).map(|staged| staged.bytes)
    }

    /// Number of staged pieces, and their bytes, in memory or as records.
    #[must_use]
    pub fn staged(&self) -> (usize, u64) {
        (self.staged.len(), self.staged_bytes)
    }

    /// Memory of prepared transactions and staged pieces, about, without records: an upper bound for a checkpoint with this
    /// state.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The highest timestamp in it: the clock of a new primary must be above it.
    #[must_use]
    pub fn newest(&self) -> Timestamp {
        let prepared = self.prepared.values().map(|one| one.proposal);
        let decided = self.decisions.values().map(|one| one.timestamp);
        let applied = self.applied.values().map(|(_, at)| *at);
        prepared.chain(decided).chain(applied).max().unwrap_or_default()
    }

    /// Checks the invariants that cost the same for every number of transactions.
    ///
    /// # Errors
    /// The broken one.
    pub(crate) fn check(&self) -> Result<(), BrokenInvariant> {
        let has_none = self.prepared.is_empty() && self.staged.is_empty();
        check_rules(
            STATE,
            [
                (self.unfinished.len() == self.decisions.len(), "each open decision has its own index"),
                (
                    !has_none || self.bytes == 0,
                    "the memory of prepared transactions and staged pieces is counted",
                ),
                (!self.staged.is_empty() || self.staged_bytes == 0, "the bytes of staged pieces are counted"),
            ],
        )
    }

    /// Checks all transactions and staged pieces.
    ///
    /// # Errors
    /// The broken invariant.
    pub(crate) fn check_all(&self) -> Result<(), BrokenInvariant> {
        let prepared: u64 = self.prepared.values().map(|one| one.bytes()).sum();
        let memory: u64 = self.staged.values().map(StagedItem::memory).sum();
        let staged: u64 = self.staged.values().map(|one| one.bytes).sum();
        check_rules(
            STATE,
            [
                (
                    self.decisions.values().all(|one| self.unfinished.contains(&one.index)),
                    "each open decision has its own index",
                ),
                (
                    self.bytes == prepared + memory,
                    "the memory of prepared transactions and staged pieces is counted",
                ),
                (self.staged_bytes == staged, "the bytes of staged pieces are counted"),
            ],
        )
    }

    /// Entries, with indices, from which [`ParticipantState::restore`] makes this state: for checkpoints and for members
    /// that install a complete state. The caller must add staged bytes that are not records, as `Stage` before all others.
    #[must_use]
    pub fn entries(&self) -> Vec<(LogIndex, TransactionEntry)> {
        let mut entries = Vec::new();
        // Before the entries that pin them.
        for (id, staged) in self.staged.iter().filter(|(_, staged)| staged.is_record) {
            entries.push((LogIndex(0), TransactionEntry::StagePiece { id: *id, bytes: staged.bytes }));
        }
        for (id, one) in &self.prepared {
            let entry = TransactionEntry::Prepare {
                id: *id,
                attempt: one.attempt,
                routing_key: one.routing_key,
                durability: one.durability,
                proposal: one.proposal,
                locks: one.locks.clone(),
                pinned: one.pinned.clone(),
                effect: one.effect.clone(),
                result: one.result.clone(),
            };
            entries.push((one.index, entry));
        }
        for (id, one) in &self.decisions {
            let entry = TransactionEntry::Commit {
                id: *id,
                attempt: one.attempt,
                timestamp: one.timestamp,
                durability: one.durability,
                participants: one.participants.clone(),
                pinned: Vec::new(),
                effect: Bytes::new(),
                results: Vec::new(),
            };
            entries.push((one.index, entry));
        }
        for (id, (decision, timestamp)) in &self.applied {
            let (prepared, decision, timestamp) = (LogIndex(0), *decision, *timestamp);
            // Not `last`: members with the same state must have the same entries, also those that have restored it as of
            // a later index.
            entries.push((LogIndex(0), TransactionEntry::Apply { id: *id, prepared, timestamp, decision }));
        }
        entries
    }

    /// The state as of a commit index, from the entries of [`ParticipantState::entries`].
    #[must_use]
    pub fn restore<'e>(
        last: LogIndex,
        entries: impl IntoIterator<Item = (LogIndex, &'e TransactionEntry)>,
    ) -> ParticipantState {
        let mut state = ParticipantState::default();
        for (index, entry) in entries {
            // Their changes are in the records already.
            let _ = state.apply(index, entry);
        }
        state.last = last;
        state
    }
}

/// Changes of the state by which tests break invariants.
#[cfg(test)]
impl ParticipantState {
    pub(crate) fn break_count_of_decisions(&mut self) {
        self.unfinished.insert(LogIndex(1_000));
    }

    pub(crate) fn break_bytes(&mut self, more: u64) {
        self.bytes += more;
    }

    pub(crate) fn break_staged_bytes(&mut self, more: u64) {
        self.staged_bytes += more;
    }
}
