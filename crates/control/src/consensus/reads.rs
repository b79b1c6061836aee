//! What other managers can read beyond the basic format: the leader proposes nothing that a member cannot
//! read.

use std::collections::BTreeMap;

use crate::command::ManagerId;
use crate::limits::MESSAGES_PIECED_MAX;

/// A capability bit: the manager can read entries of several requests.
const BATCHES: u32 = 1;

/// The capabilities of this program, sent in every message.
pub(super) const READS: u32 = BATCHES;

/// The voters and the learners.
type Members = (Vec<ManagerId>, Vec<ManagerId>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// The capabilities in each manager's newest message; for a manager that was not heard yet, what the log
    /// shows.
    known: BTreeMap<ManagerId, u32>,
}

impl Reads {
    /// Records the capabilities in a message.
    pub(super) fn record_capabilities(&mut self, from: ManagerId, reads: u32, (voters, learners): &Members) {
        if self.known.len() >= MESSAGES_PIECED_MAX {
            self.known.retain(|id, _| voters.contains(id) || learners.contains(id));
        }
        if self.known.len() < MESSAGES_PIECED_MAX || self.known.contains_key(&from) {
            self.known.insert(from, reads);
        }
    }

    /// An entry of several requests was decided under these members, so that all of them could read it then.
    pub(super) fn batch_decided(&mut self, (voters, learners): &Members) {
        for id in voters.iter().chain(learners) {
            self.known.entry(*id).or_insert(BATCHES);
        }
    }

    /// Whether all of these can read entries of several requests; `me` runs this program. A member of which
    /// nothing is known may run an older program.
    pub(super) fn all_read_batches(&self, me: ManagerId, (voters, learners): &Members) -> bool {
        let reads = |id: &ManagerId| self.known.get(id).is_some_and(|reads| reads & BATCHES != 0);
        voters.iter().chain(learners).all(|id| *id == me || reads(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_need_all_members_and_own_report_overrides_log() {
        let [me, one, other] = [1, 2, 3].map(ManagerId);
        let all = (vec![me, one], vec![other]);
        let mut reads = Reads::default();
        assert!(reads.all_read_batches(me, &(vec![me], Vec::new())));
        assert!(!reads.all_read_batches(me, &all));
        reads.record_capabilities(one, READS, &all);
        assert!(!reads.all_read_batches(me, &all), "a learner takes entries too");
        reads.batch_decided(&all);
        assert!(reads.all_read_batches(me, &all));
        reads.record_capabilities(other, 0, &all);
        reads.batch_decided(&all);
        assert!(!reads.all_read_batches(me, &all), "it says so itself");
        reads.record_capabilities(other, READS, &all);
        assert!(reads.all_read_batches(me, &all));
        // Former and foreign managers do not displace members.
        for id in 10..100 {
            reads.record_capabilities(ManagerId(id), READS, &all);
            assert!(reads.known.len() <= MESSAGES_PIECED_MAX);
        }
        assert!(reads.all_read_batches(me, &all));
        let next = (vec![me, one, ManagerId(200)], Vec::new());
        assert!(!reads.all_read_batches(me, &next));
        reads.record_capabilities(ManagerId(200), READS, &next);
        assert!(reads.all_read_batches(me, &next));
    }
}
