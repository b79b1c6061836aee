//! Changes of groups that wait for each other, so that the leader proposes them as one entry, which changes
//! the map once.
//!
//! An event that concerns a node concerns hundreds of groups, and their primaries send requests within a few
//! milliseconds. The leader proposes the first request at once. Requests that arrive shortly after it wait
//! until [`REGROUP_DELAY_MS`] have passed since.

use crate::command::{CommandRequest, ControlCommand, Entry, GroupStep, Regroup};
use crate::limits::{BATCH_BYTES_MAX, BATCH_REQUESTS_MAX, REGROUP_DELAY_IDLE_MS, REGROUP_DELAY_MS};
use crate::state::ControlState;
use zerohop_base::time::Time;

/// Overhead of a request in an entry, beside its own bytes: the field's number and the length.
const FIELD_BYTES: usize = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct RegroupGather {
    /// Each request with its encoded length.
    requests: Vec<(CommandRequest, usize)>,
    /// The time at which the requests are to be proposed; `Time::NEVER` if there are none.
    due: Time,
    /// Until this time new requests wait, because an entry was proposed shortly before.
    busy_until: Time,
}

impl Default for RegroupGather {
    fn default() -> RegroupGather {
        RegroupGather { requests: Vec::new(), due: Time::NEVER, busy_until: Time(0) }
    }
}

impl RegroupGather {
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Adds a change that a primary requests.
    pub(super) fn add(&mut self, now: Time, request: CommandRequest, bytes: usize, is_awaited: bool) {
        let at = match is_awaited {
            true => now.max(self.busy_until),
            false => now.after_ms(REGROUP_DELAY_IDLE_MS),
        };
        self.due = self.due.min(at);
        self.requests.push((request, bytes));
    }

    /// Adds a change of the leader's own plan; all gathered requests are then due at once.
    pub(super) fn add_planned(&mut self, now: Time, request: CommandRequest, bytes: usize) {
        self.due = now;
        self.requests.push((request, bytes));
    }

    /// Returns what is to be proposed now: as few entries as the limits allow, or one for each request if
    /// `batches` is false.
    pub(super) fn take_due(&mut self, now: Time, batches: bool) -> Vec<Entry> {
        if self.due > now {
            return Vec::new();
        }
        self.due = Time::NEVER;
        self.busy_until = now.after_ms(REGROUP_DELAY_MS);
        let (mut entries, mut batch, mut length) = (Vec::new(), Vec::new(), 0);
        for (request, bytes) in std::mem::take(&mut self.requests) {
            let is_full = length + bytes + FIELD_BYTES > BATCH_BYTES_MAX || batch.len() == BATCH_REQUESTS_MAX;
            if !batch.is_empty() && (is_full || !batches) {
                entries.push(entry_of(std::mem::take(&mut batch)));
                length = 0;
            }
            length += bytes + FIELD_BYTES;
            batch.push(request);
        }
        if !batch.is_empty() {
            entries.push(entry_of(batch));
        }
        entries
    }

    /// Discards the requests of another term.
    pub(super) fn clear(&mut self) {
        *self = RegroupGather::default();
    }
}

/// A single request is logged in the format of programs without batches.
fn entry_of(mut requests: Vec<CommandRequest>) -> Entry {
    match requests.pop() {
        Some(one) if requests.is_empty() => Entry::One(one),
        last => {
            requests.extend(last);
            Entry::Batch(requests)
        }
    }
}

/// Whether clients may wait for this change. False for an admission where the group has enough in-sync
/// replicas already.
pub(super) fn is_awaited(state: &ControlState, regroup: &Regroup) -> bool {
    let found = state.map().keyspace(regroup.keyspace);
    match (regroup.step, found) {
        (GroupStep::Admit(_), Some(found)) => {
            let in_sync = found.group(regroup.partition).map_or(0, |group| group.in_sync.len() + 1);
            in_sync < usize::from(found.config().min_in_sync)
        }
        _ => true,
    }
}

/// The change of a group in a request, if the request is one.
pub(super) fn regroup_of(request: &CommandRequest) -> Option<&Regroup> {
    match &request.command {
        ControlCommand::Regroup(regroup) => Some(regroup),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId};

    use super::*;
    use crate::command::{RegroupOrigin, RequestId};

    fn request(number: u64) -> CommandRequest {
        let (keyspace, partition, epoch) = (KeyspaceId(1), PartitionId(number as u32), PartitionEpoch(1));
        let regroup =
            Regroup { keyspace, partition, epoch, by: RegroupOrigin::Control, step: GroupStep::RaiseEpoch };
        CommandRequest {
            id: RequestId { origin: 1, number },
            after: 0,
            command: ControlCommand::Regroup(regroup),
        }
    }

    fn sizes(entries: &[Entry]) -> Vec<usize> {
        entries.iter().map(|entry| entry.requests().len()).collect()
    }

    fn add(gather: &mut RegroupGather, now: Time, number: u64, is_awaited: bool) {
        let request = request(number);
        let bytes = request.encode().len();
        gather.add(now, request, bytes, is_awaited);
    }

    #[test]
    fn single_regroup_is_proposed_at_once_and_later_ones_are_batched() {
        let (mut gather, start) = (RegroupGather::default(), Time(1_000_000));
        assert_eq!(gather.due(), Time::NEVER);
        add(&mut gather, start, 1, true);
        assert_eq!(gather.due(), start);
        assert_eq!(sizes(&gather.take_due(start, true)), [1]);
        for number in 2..100 {
            add(&mut gather, start.after_us(number * 100), number, true);
        }
        assert_eq!(gather.due(), start.after_ms(REGROUP_DELAY_MS));
        assert_eq!(gather.take_due(start.after_ms(REGROUP_DELAY_MS - 1), true), []);
        assert_eq!(sizes(&gather.take_due(start.after_ms(REGROUP_DELAY_MS), true)), [98]);
        assert_eq!(gather.due(), Time::NEVER);
    }

    #[test]
    fn unawaited_regroup_is_proposed_with_next_awaited_regroup() {
        let (mut gather, start) = (RegroupGather::default(), Time(1_000_000));
        add(&mut gather, start, 1, false);
        assert_eq!(gather.due(), start.after_ms(REGROUP_DELAY_IDLE_MS));
        add(&mut gather, start.after_ms(1), 2, true);
        assert_eq!(sizes(&gather.take_due(start.after_ms(1), true)), [2]);
        let now = start.after_ms(2);
        add(&mut gather, now, 3, false);
        gather.add_planned(now, request(4), 10);
        assert_eq!(sizes(&gather.take_due(now, true)), [2]);
    }

    #[test]
    fn regroup_batch_respects_limits_and_manager_support() {
        let (mut gather, now) = (RegroupGather::default(), Time(0));
        let count = BATCH_REQUESTS_MAX as u64 + 3;
        for number in 0..count {
            gather.add_planned(now, request(number), 10);
        }
        assert_eq!(sizes(&gather.take_due(now, true)), [BATCH_REQUESTS_MAX, 3]);
        // Together exactly one byte more than the limit allows.
        for number in 0..3 {
            gather.add_planned(now, request(number), BATCH_BYTES_MAX / 2 - FIELD_BYTES);
        }
        assert_eq!(sizes(&gather.take_due(now, true)), [2, 1]);
        // A member may run a program that does not know batches.
        for number in 0..3 {
            gather.add_planned(now, request(number), 10);
        }
        let alone = gather.take_due(now, false);
        assert_eq!(alone, (0..3).map(|number| Entry::One(request(number))).collect::<Vec<_>>());
        add(&mut gather, now, 1, true);
        gather.clear();
        assert_eq!((gather.due(), gather.take_due(now, true)), (Time::NEVER, Vec::new()));
    }
}
