//! The order of the shutdown of a node's Redis side, so that no client has a write in doubt.
//!
//! ```text
//!   serves ── yield ──> new writes wait, earlier ones end ──> others are primary: units go there
//!          ── end ────> no command is accepted, relayed units are answered; then connections close
//! ```

use zerohop_base::connection::ConnectionId;

use super::RelayContext;
use super::clients::Clients;
use super::limits::YIELD_MS;
use super::planted::{Bug, is_planted};
use super::redis_client::RedisClient;
use super::scheduler::UnitScheduler;
use super::shutdown_progress::StepProgress;

impl Clients {
    /// From now on new writes wait for other instances to become primary, at most
    /// [`super::limits::YIELD_MS`].
    pub fn yield_writes(&mut self, now_ms: u64) {
        let farewell = &mut self.scheduler.farewell;
        (farewell.yields_until_ms, farewell.yielding) =
            (Some(now_ms + YIELD_MS), Some(StepProgress::UnderWay));
    }

    /// Whether the writes that were under way when new ones began to wait have ended: once.
    pub fn take_yielded(&mut self) -> bool {
        self.scheduler.farewell.yielding.take_if(|step| *step == StepProgress::Done).is_some()
    }

    /// No command is accepted any more. Returns the clients that wait for no answer: their
    /// connections close now, the others once all accepted commands are answered.
    pub fn end(&mut self) -> Vec<ConnectionId> {
        let farewell = &mut self.scheduler.farewell;
        (farewell.ends, farewell.ending) = (true, Some(StepProgress::UnderWay));
        let idle = self.clients().filter(|client| !client.connection.is_waiting());
        idle.map(|client| client.id).collect()
    }

    /// Whether all accepted commands are answered after [`Clients::end`]: once.
    pub fn take_ended(&mut self) -> bool {
        self.scheduler.farewell.ending.take_if(|step| *step == StepProgress::Done).is_some()
    }

    /// Continues the shutdown; called at the end of each turn.
    pub(super) fn end_on(&mut self, at: &mut impl RelayContext) {
        let now_ms = at.now().elapsed_ms;
        let farewell = &mut self.scheduler.farewell;
        if farewell.yields_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            // No instance has taken over.
            farewell.yields_until_ms = None;
        }
        if farewell.yielding == Some(StepProgress::UnderWay) && !self.scheduler.is_writing() {
            self.scheduler.farewell.yielding = Some(StepProgress::Done);
        }
        if self.scheduler.farewell.ending == Some(StepProgress::UnderWay)
            && (is_planted(Bug::EndsUnanswered) || !self.has_unfinished(at.has_answers()))
        {
            // The rest waits for records: nothing of it was executed.
            self.clients().for_each(|client| at.close(client.id, &[]));
            self.scheduler.farewell.ending = Some(StepProgress::Done);
        }
    }

    /// Whether answers are missing that do not wait for a record, or a long reply waits for its client to read it.
    fn has_unfinished(&self, has_answers: bool) -> bool {
        let is_sending = |client: &RedisClient| client.connection.awaits_output_space();
        self.scheduler.has_unfinished(has_answers) || self.clients().any(is_sending)
    }

    /// When the shutdown must continue even if no event comes.
    pub(super) fn next_end_ms(&self) -> Option<u64> {
        self.scheduler.farewell.yields_until_ms
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
        runs || waits || self.cross_partition_count > 0 || self.client_queues.has_unfinished()
    }
}
