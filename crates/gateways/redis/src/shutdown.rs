//! The order of the shutdown of a node's Redis side, so that no client has a write in doubt.
//!
//! ```text
//!   serves ── yield ──> new writes wait, earlier ones end ──> others are primary: units go there
//!          ── end ────> no command is accepted, relayed units are answered; then connections close
//! ```

use tokio::sync::oneshot;
use zerohop_engine::disk::Disk;
use zerohop_placement::ClusterMap;
use zerohop_reactor::{Now, Replies};
use zerohop_resp::{PartitionPlace, Unit};
use zerohop_server::gateway::InstanceContext;
use zerohop_wire::ids::InstanceId;

use super::clients::Clients;
use super::limits::YIELD_MS;
use super::scheduler::UnitScheduler;

/// The progress of the shutdown.
#[derive(Debug, Default)]
pub(super) struct ShutdownProgress {
    /// Writes of partitions that others can take over wait until then, in milliseconds of the
    /// reactor's clock.
    yields_until_ms: Option<u64>,
    yielded: Option<oneshot::Sender<()>>,
    /// No command of a client is accepted any more.
    pub(super) ends: bool,
    ended: Option<oneshot::Sender<()>>,
}

impl ShutdownProgress {
    /// New writes wait; `done` is notified once those under way have ended.
    pub(super) fn yield_writes(&mut self, done: oneshot::Sender<()>, now: Now) {
        (self.yields_until_ms, self.yielded) = (Some(now.elapsed_ms + YIELD_MS), Some(done));
    }

    /// No command is accepted any more; `done` is notified once all accepted ones are answered.
    pub(super) fn end(&mut self, done: oneshot::Sender<()>) {
        (self.ends, self.ended) = (true, Some(done));
    }

    /// Whether a unit is not run here because another instance is about to be primary of its
    /// partition.
    pub(super) fn withholds(
        &self,
        (map, me): (&ClusterMap, InstanceId),
        to: PartitionPlace,
        unit: &Unit<'_>,
    ) -> bool {
        if self.yields_until_ms.is_none() || !unit.may_write() {
            return false;
        }
        let group = map.keyspace(to.keyspace).and_then(|found| found.group(to.partition));
        group.is_some_and(|group| group.primary == me && !group.in_sync.is_empty())
    }
}

impl Clients {
    /// Continues the shutdown; called at the end of each turn.
    pub(super) fn end_on<D: Disk>(&mut self, at: &mut InstanceContext<'_, '_, D>) {
        let now_ms = at.now.elapsed_ms;
        let farewell = &mut self.scheduler.farewell;
        if farewell.yields_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            // No instance has taken over.
            farewell.yields_until_ms = None;
        }
        if farewell.yielded.is_some() && !self.scheduler.is_writing() {
            // A receiver that is gone does not matter.
            self.scheduler.farewell.yielded.take().map(|done| done.send(()));
        }
        if self.scheduler.farewell.ended.is_some() && !self.scheduler.has_unfinished(at.has_answers()) {
            // The rest waits for records: nothing of it was executed.
            self.close(at.replies, true);
            self.scheduler.farewell.ended.take().map(|done| done.send(()));
        }
    }

    /// When the shutdown must continue even if no event comes.
    pub(super) fn next_end_ms(&self) -> Option<u64> {
        self.scheduler.farewell.yields_until_ms
    }

    /// Closes the connections of clients that wait for no answer, or of all.
    pub(super) fn close(&mut self, replies: &mut Replies<'_>, all: bool) {
        for client in self.clients().filter(|client| all || !client.connection.is_waiting()) {
            replies.close(client.id, &[]);
        }
    }
}

impl UnitScheduler {
    /// Whether the outcome of a write that runs here is still open.
    fn is_writing(&self) -> bool {
        self.under_way.values().any(|one| one.is_write())
    }

    /// Whether answers are missing that do not wait for a record.
    fn has_unfinished(&self, has_answers: bool) -> bool {
        let runs = self.under_way.values().any(|one| one.waiting_unit.is_none());
        let waits = !self.steps.is_empty() || !self.ready.is_empty() || has_answers;
        runs || waits || self.spanning_count > 0 || self.client_queues.has_unfinished()
    }
}
