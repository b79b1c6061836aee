//! Decision notices: decisions are sent to all participants until all have acknowledged them.
//!
//! A participant is the slice that it had when it prepared. It may have been split since, once or more. Then each partition
//! that owns a part of that slice has the `Prepare` in its log, gets the decision, and acknowledges for its own slice. A
//! decision is finished once the acknowledged slices cover the participants' slices. No map is needed: the owner of the
//! first unacknowledged hash gets the next notice. If a slice answers that it does not have the prepared changes, the
//! coordinator repeats the notice for a while before they count as lost ([`LOSS_US`]). The slices behind it get notices
//! meanwhile, so that all parts of a participant are lost in the time of one.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_wire::ids::LogIndex;

use super::{Transactions, send};
use crate::effect::TransactionEffect;
use crate::entry::{Participant, TransactionEntry};
use crate::id::{Durability, KeyspaceRange, RoutingKey, TransactionId};
use crate::limits::{LOSS_REPORTS_MIN, LOSS_US};
use crate::message::TransactionMessage;
use crate::planted::{Bug, is_planted};
use zerohop_base::time::Time;

/// A decision that is being sent.
#[derive(Debug)]
pub(super) struct DecisionNotice {
    acknowledged: CoveredRanges,
    /// The decision's participants that have not acknowledged all of what they prepared.
    open: Vec<u32>,
    /// The places that have answered `NotPrepared`.
    not_prepared: BTreeMap<RoutingKey, LostParticipant>,
    /// Slices that have acknowledged, or have answered `NotPrepared`.
    reached: CoveredRanges,
    pub(super) resend_at: Time,
    pub(super) is_finishing: bool,
}

/// The `NotPrepared` answers of a place.
#[derive(Clone, Copy, Debug)]
struct LostParticipant {
    since: Time,
    /// Number of these answers.
    report_count: u32,
}

impl DecisionNotice {
    /// For a decision with so many participants.
    pub(super) fn new(resend_at: Time, participants: usize) -> DecisionNotice {
        DecisionNotice {
            acknowledged: CoveredRanges::default(),
            open: (0..participants as u32).collect(),
            not_prepared: BTreeMap::new(),
            reached: CoveredRanges::default(),
            resend_at,
            is_finishing: false,
        }
    }

    /// A slice has acknowledged. It can cover only participants of which it has a hash.
    fn add(&mut self, hash_range: KeyspaceRange, participants: &[Participant]) {
        self.acknowledged.add(hash_range);
        self.reached.add(hash_range);
        let DecisionNotice { acknowledged, open, .. } = self;
        open.retain(|at| {
            participants
                .get(*at as usize)
                .is_some_and(|one| !one.hash_range.meets(hash_range) || acknowledged.open(one).is_some())
        });
    }

    /// The places of a participant that get the next notices: the first that has not acknowledged, each that has answered
    /// `NotPrepared`, and the first that has not answered.
    fn notice_targets(&self, participant: &Participant) -> BTreeSet<RoutingKey> {
        let Some(first) = self.acknowledged.open(participant) else { return BTreeSet::new() };
        let is_open = |place: &&RoutingKey| {
            let (keyspace, point) = (place.keyspace.0, place.point);
            participant.hash_range.has(**place) && self.acknowledged.end(keyspace, point) == Some(point)
        };
        let lost = self.not_prepared.keys().filter(is_open).copied();
        lost.chain([first]).chain(self.reached.open(participant)).collect()
    }
}

/// Slices that have acknowledged, merged where they touch: keyspace and first hash, and the last one.
#[derive(Debug, Default)]
struct CoveredRanges(BTreeMap<(u32, u64), u64>);

impl CoveredRanges {
    fn add(&mut self, hash_range: KeyspaceRange) {
        let (keyspace, mut first, mut last) = (hash_range.keyspace.0, hash_range.first, hash_range.last);
        if let Some((begin, end)) = self.before(keyspace, first)
            && end >= first.saturating_sub(1)
        {
            (first, last) = (begin, last.max(end));
        }
        while let Some((begin, end)) =
            self.before(keyspace, last.saturating_add(1)).filter(|(begin, _)| *begin >= first)
        {
            self.0.remove(&(keyspace, begin));
            last = last.max(end);
        }
        self.0.insert((keyspace, first), last);
    }

    /// The last slice that starts at or before this hash.
    fn before(&self, keyspace: u32, at: u64) -> Option<(u64, u64)> {
        let (begin, end) = self.0.range((keyspace, 0)..=(keyspace, at)).next_back()?;
        Some((begin.1, *end))
    }

    /// The first hash at or behind `from` that is in none of them.
    fn end(&self, keyspace: u32, from: u64) -> Option<u64> {
        match self.before(keyspace, from) {
            Some((_, last)) if last >= from => last.checked_add(1),
            _ => Some(from),
        }
    }

    /// The place of a participant that gets the next notice: its own routing key first. `None`: all of it has acknowledged.
    fn open(&self, of: &Participant) -> Option<RoutingKey> {
        let keyspace = of.routing_key.keyspace;
        if self.end(keyspace.0, of.routing_key.point) == Some(of.routing_key.point) {
            return Some(of.routing_key);
        }
        if is_planted(Bug::SiblingsNotNotified) {
            return None;
        }
        let point = self
            .end(keyspace.0, of.hash_range.first)
            .filter(|point| of.hash_range.contains_lock_key(*point))?;
        Some(RoutingKey { keyspace, point })
    }
}

impl Transactions {
    /// Sends a decision to all that have not acknowledged it.
    pub(super) fn send_decision(&self, id: TransactionId, effects: &mut Vec<TransactionEffect>) {
        let (Some(decision), Some(notice)) = (self.state.decisions.get(&id), self.decision_notices.get(&id))
        else {
            return;
        };
        for participant in &decision.participants {
            for place in notice.notice_targets(participant) {
                effects.push(self.send_commit(id, (place, participant.prepared)));
            }
        }
    }

    pub(super) fn send_commit(
        &self,
        id: TransactionId,
        (place, prepared): (RoutingKey, LogIndex),
    ) -> TransactionEffect {
        let decision = &self.state.decisions[&id];
        let what = TransactionMessage::Commit {
            attempt: decision.attempt,
            prepared,
            timestamp: decision.timestamp,
            decision: decision.index,
            durability: decision.durability,
            floor: self.floor(),
        };
        send(place, id.coordinator, id, what)
    }

    /// The decision is carried out in this slice.
    pub(super) fn acknowledged(
        &mut self,
        (from, hash_range): (RoutingKey, KeyspaceRange),
        id: TransactionId,
        index: LogIndex,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let decision = self.state.decisions.get(&id).filter(|decision| decision.index == index);
        let (Some(decision), Some(notice)) = (decision, self.decision_notices.get_mut(&id)) else {
            // Finished long ago: the participant may forget it.
            return effects.push(send(
                from,
                id.coordinator,
                id,
                TransactionMessage::Drop { floor: self.floor() },
            ));
        };
        notice.add(hash_range, &decision.participants);
        let own = decision.participants.iter().find(|one| {
            hash_range.has(one.routing_key) || one.hash_range.has(hash_range.default_routing_key())
        });
        let sibling = own.and_then(|one| Some((notice.acknowledged.open(one)?, one.prepared)));
        if notice.open.is_empty() && !notice.is_finishing {
            notice.is_finishing = true;
            effects.push(TransactionEffect::Append {
                entry: TransactionEntry::Finish { id },
                durability: Durability::Memory,
            });
        } else if let Some(sibling) = sibling {
            // The participant was split since it prepared: the next part of it has no notice yet.
            effects.push(self.send_commit(id, sibling));
        }
    }

    /// The prepared changes are missing. The operator is notified, and the coordinator repeats the notice for a while: a deposed
    /// primary that does not know of its successor lacks them too. A place that keeps answering `NotPrepared` speaks for the
    /// partition, which has lost the changes, through a power failure or a loss that an operator has accepted. The decision
    /// then counts as carried out there, so that nothing is kept permanently.
    pub(super) fn handle_not_prepared(
        &mut self,
        now: Time,
        (from, hash_range): (RoutingKey, KeyspaceRange),
        id: TransactionId,
        index: LogIndex,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let decision = self.state.decisions.get(&id).filter(|decision| decision.index == index);
        let (Some(decision), Some(notice)) = (decision, self.decision_notices.get_mut(&id)) else { return };
        let is_participant = decision.participants.iter().any(|one| one.hash_range.has(from));
        let is_open = notice.acknowledged.end(from.keyspace.0, from.point) == Some(from.point);
        if !is_participant || !is_open {
            return;
        }
        let lost = notice.not_prepared.entry(from).or_insert(LostParticipant { since: now, report_count: 0 });
        lost.report_count = lost.report_count.saturating_add(1);
        if lost.report_count == 1 {
            effects.push(TransactionEffect::Loss { id, routing_key: from });
            // The participant was split since it prepared: the next part of it need not wait until the loss of this part is
            // certain.
            notice.reached.add(hash_range);
            let own = decision.participants.iter().find(|one| one.hash_range.has(from));
            if let Some((place, prepared)) =
                own.and_then(|one| Some((notice.reached.open(one)?, one.prepared)))
            {
                effects.push(self.send_commit(id, (place, prepared)));
            }
        } else if lost.since.after_us(LOSS_US) <= now && lost.report_count >= LOSS_REPORTS_MIN {
            self.acknowledged((from, hash_range), id, index, effects);
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::KeyspaceId;

    use super::*;

    fn hash_range(keyspace: u32, first: u64, last: u64) -> KeyspaceRange {
        KeyspaceRange { keyspace: KeyspaceId(keyspace), first, last }
    }

    #[test]
    fn covered_slices_equal_union_in_any_order() {
        let spans = [
            hash_range(1, 0, 3),
            hash_range(1, 4, 7),
            hash_range(1, 8, 15),
            hash_range(1, 4, 5),
            hash_range(1, u64::MAX - 7, u64::MAX),
            hash_range(1, u64::MAX - 3, u64::MAX),
            hash_range(2, 0, u64::MAX),
        ];
        let points = [0, 3, 4, 6, 8, 15, 16, u64::MAX - 8, u64::MAX - 7, u64::MAX];
        for set in 0..1_u32 << spans.len() {
            for turned in 0..spans.len() {
                let chosen = (0..spans.len()).map(|n| (n + turned) % spans.len());
                let chosen: Vec<KeyspaceRange> =
                    chosen.filter(|n| set & (1 << n) != 0).map(|n| spans[n]).collect();
                let mut covered = CoveredRanges::default();
                chosen.iter().for_each(|one| covered.add(*one));
                for (keyspace, from) in [1, 2, 3].into_iter().flat_map(|n| points.map(|point| (n, point))) {
                    let mut expected = Some(from);
                    while let Some(at) = expected
                        && let Some(one) =
                            chosen.iter().find(|one| one.keyspace.0 == keyspace && one.contains_lock_key(at))
                    {
                        expected = one.last.checked_add(1);
                    }
                    assert_eq!(covered.end(keyspace, from), expected, "{from} of {chosen:?}");
                }
            }
        }
    }

    #[test]
    fn decision_is_sent_until_all_ranges_acknowledge() {
        let one = |first, last, point| Participant {
            routing_key: RoutingKey { keyspace: KeyspaceId(1), point },
            hash_range: hash_range(1, first, last),
            prepared: LogIndex(1),
        };
        let participants = [one(0, 7, 0), one(8, 15, 12), one(16, 23, 16)];
        let mut notice = DecisionNotice::new(Time(0), 3);
        notice.add(hash_range(1, 8, 11), &participants);
        assert_eq!(notice.open, [0, 1, 2], "half of it has not heard");
        notice.add(hash_range(1, 12, 15), &participants);
        assert_eq!(notice.open, [0, 2]);
        notice.add(hash_range(2, 0, u64::MAX), &participants);
        assert_eq!(notice.open, [0, 2], "another keyspace");
        // A slice may cover more than one participant.
        notice.add(hash_range(1, 0, u64::MAX), &participants);
        assert_eq!(notice.open, [0; 0]);
    }
}
