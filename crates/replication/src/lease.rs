//! Leases, one per pair of instances, and the timestamp bound of an instance, which the same messages carry.
//!
//! A *holder* requests, a *granter* grants. The grant is a promise, valid for a fixed time from the moment of the request. Until
//! then the granter will not act as primary of any partition, except those whose primary it is under the named map epoch. The
//! holder uses the grant for every partition that both instances share.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_wire::ids::{InstanceId, MapEpoch, Timestamp};
use zerohop_wire::messages::{Member, PeerBody};

use super::limits::{
    BOUND_AGAIN_US, LEASE_RENEW_US, LEASE_US, LEASE_WAIT_US, ON_TIME_US, TIMESTAMP_BOUND_AHEAD_MS,
    TIMESTAMP_BOUND_STEP_MS,
};
use zerohop_partition::planted::{Bug, is_planted};

/// The grants of one instance. Times are microseconds of its own monotonic clock.
#[derive(Debug)]
pub struct Leases {
    this_member: Member,
    started_us: u64,
    /// When the instance last checked its leases, and since when it has done so without a pause.
    checked_us: u64,
    on_time_us: u64,
    map_epoch: MapEpoch,
    /// Instances of nodes that are down in that map.
    absent: BTreeSet<InstanceId>,
    received_leases: BTreeMap<InstanceId, ReceivedLease>,
    requested_us: BTreeMap<InstanceId, u64>,
    granted: BTreeMap<InstanceId, Vec<LastGrant>>,
    wanted_timestamp_bound: Timestamp,
    synced: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct ReceivedLease {
    from: Member,
    until_us: u64,
    map_epoch: MapEpoch,
    timestamp_bound: Timestamp,
}

/// The last grant under one map.
#[derive(Clone, Copy, Debug)]
struct LastGrant {
    map_epoch: MapEpoch,
    at_us: u64,
}

impl Leases {
    /// The leases of a process that has just started, with the timestamp bound that it finds on its disk.
    #[must_use]
    pub fn new(me: Member, now_us: u64, timestamp_bound: Timestamp) -> Leases {
        Leases {
            this_member: me,
            started_us: now_us,
            checked_us: now_us,
            on_time_us: now_us,
            map_epoch: MapEpoch(0),
            absent: BTreeSet::new(),
            received_leases: BTreeMap::new(),
            requested_us: BTreeMap::new(),
            granted: BTreeMap::new(),
            wanted_timestamp_bound: timestamp_bound,
            synced: timestamp_bound,
        }
    }

    /// A newer map is applied. All partitions of the instance apply it before anything else is done.
    pub fn set_map(&mut self, map_epoch: MapEpoch) {
        self.map_epoch = self.map_epoch.max(map_epoch);
    }

    /// Sets the instances whose nodes are down in the applied map. Their grants are not used, even if they still answer. A node
    /// that shuts down in order still answers for a while, but none of its replicas must be admitted.
    pub fn set_absent(&mut self, absent: impl IntoIterator<Item = InstanceId>) {
        self.absent = absent.into_iter().collect();
    }

    /// The epoch of the applied map.
    #[must_use]
    pub fn map_epoch(&self) -> MapEpoch {
        self.map_epoch
    }

    /// The lease requests to send to these members now. The caller calls this often. `newest` is the newest timestamp of the instance's
    /// partitions: a member whose timestamp bound is not above it is asked again soon, because a promoted replica, which starts at its own
    /// bound, answers nothing before.
    pub fn lease_requests(
        &mut self,
        now_us: u64,
        newest: Timestamp,
        of: impl IntoIterator<Item = Member>,
    ) -> Vec<(Member, PeerBody<'static>)> {
        self.on_time_us = self.on_time_since_us(now_us);
        self.checked_us = now_us;
        let mut calls = Vec::new();
        for member in of {
            let lease = self.received_leases.get(&member.instance).filter(|lease| lease.from == member);
            let is_bound_low =
                lease.is_some_and(|lease| now_us < lease.until_us && lease.timestamp_bound <= newest);
            let pause_us = if is_bound_low { BOUND_AGAIN_US } else { LEASE_RENEW_US };
            let last_request_us = self.requested_us.entry(member.instance).or_insert(0);
            if *last_request_us == 0 || now_us.saturating_sub(*last_request_us) >= pause_us {
                *last_request_us = now_us.max(1);
                let (map_epoch, timestamp_bound) = (self.map_epoch, self.wanted_timestamp_bound);
                calls.push((member, PeerBody::LeaseQuery { sent_us: now_us, map_epoch, timestamp_bound }));
            }
        }
        calls
    }

    /// Handles a lease message of another instance. Returns the answer to send.
    pub fn handle_message(
        &mut self,
        now_us: u64,
        from: Member,
        body: &PeerBody<'_>,
    ) -> Option<PeerBody<'static>> {
        match *body {
            PeerBody::LeaseQuery { sent_us, timestamp_bound, .. } => {
                self.wanted_timestamp_bound = self.wanted_timestamp_bound.max(timestamp_bound);
                self.grant(now_us, from.instance);
                let (map_epoch, timestamp_bound) = (self.map_epoch, self.synced);
                Some(PeerBody::LeaseGrant { sent_us, map_epoch, timestamp_bound })
            }
            PeerBody::LeaseGrant { sent_us, map_epoch, timestamp_bound } => {
                let since_us = if is_planted(Bug::LeaseCountedFromArrival) { now_us } else { sent_us };
                // No granter answers a request before it is sent. This grant answers a request of an earlier start of this
                // process.
                if sent_us < self.started_us || sent_us > now_us {
                    return None;
                }
                let until_us = since_us + LEASE_US;
                let lease = self.received_leases.get(&from.instance).filter(|lease| lease.from == from);
                if lease.is_none_or(|lease| lease.until_us < until_us) {
                    let timestamp_bound =
                        timestamp_bound.max(lease.map_or(Timestamp::ZERO, |lease| lease.timestamp_bound));
                    self.received_leases
                        .insert(from.instance, ReceivedLease { from, until_us, map_epoch, timestamp_bound });
                }
                None
            }
            _ => None,
        }
    }

    fn grant(&mut self, now_us: u64, to: InstanceId) {
        let given = self.granted.entry(to).or_default();
        given.retain(|one| one.map_epoch != self.map_epoch && now_us < one.at_us + LEASE_WAIT_US);
        given.push(LastGrant { map_epoch: self.map_epoch, at_us: now_us });
    }

    /// Whether a member's grant may be used now.
    #[must_use]
    pub fn is_valid(&self, now_us: u64, of: Member) -> bool {
        let Some(lease) = self.received_leases.get(&of.instance) else { return false };
        let is_known_map = lease.map_epoch <= self.map_epoch || is_planted(Bug::NewerMapLeaseUsed);
        let is_there = !self.absent.contains(&of.instance);
        lease.from == of && now_us < lease.until_us && is_known_map && is_there
    }

    /// Since when this instance has checked its leases without a pause of more than [`ON_TIME_US`]; now, if it is late. The
    /// instance cannot judge the behaviour of others before that time, because their answers may have waited here.
    #[must_use]
    pub fn on_time_since_us(&self, now_us: u64) -> u64 {
        if now_us.saturating_sub(self.checked_us) > ON_TIME_US { now_us } else { self.on_time_us }
    }

    /// When the request was sent that a member has granted last; 0: it has granted nothing yet.
    pub(crate) fn granted_us(&self, of: Member) -> u64 {
        let lease = self.received_leases.get(&of.instance).filter(|lease| lease.from == of);
        lease.map_or(0, |lease| lease.until_us.saturating_sub(LEASE_US))
    }

    /// The bound below which this instance's timestamps must stay, so that each of these members can take over.
    pub fn timestamp_bound(&self, of: impl IntoIterator<Item = Member>) -> Timestamp {
        of.into_iter().fold(self.synced, |timestamp_bound, member| {
            match self.received_leases.get(&member.instance) {
                Some(lease) if lease.from == member => timestamp_bound.min(lease.timestamp_bound),
                _ => Timestamp::ZERO,
            }
        })
    }

    /// When the last grant to a holder under a map older than this has certainly ended.
    pub(crate) fn ended_us(&self, holder: InstanceId, map_epoch: MapEpoch) -> u64 {
        let given = self.granted.get(&holder).into_iter().flatten();
        let given = given.filter(|one| one.map_epoch < map_epoch).map(|one| one.at_us).max().unwrap_or(0);
        let start = if is_planted(Bug::StartNotCountedAsGrant) { 0 } else { self.started_us };
        given.max(start) + LEASE_WAIT_US
    }

    /// All holders to which this process has ever granted a lease.
    pub(crate) fn holders(&self) -> impl Iterator<Item = InstanceId> + '_ {
        self.granted.keys().copied()
    }

    /// When all grants of an earlier start of this process have certainly ended.
    pub(crate) fn start_ended_us(&self) -> u64 {
        if is_planted(Bug::StartNotCountedAsGrant) { 0 } else { self.started_us + LEASE_WAIT_US }
    }

    /// Raises the wanted timestamp bound above the clock's time and the newest timestamp of the instance.
    pub fn raise_wanted_timestamp_bound(&mut self, now_ms: u64, newest: Timestamp) {
        let ahead_ms = (now_ms + TIMESTAMP_BOUND_AHEAD_MS).max(newest.millis() + TIMESTAMP_BOUND_STEP_MS);
        // The bound is rewritten once an eighth is used, and not every millisecond. With a quarter, clients that had seen a clock
        // that is ahead waited too long.
        if ahead_ms > self.wanted_timestamp_bound.millis() + TIMESTAMP_BOUND_AHEAD_MS / 8
            || self.wanted_timestamp_bound.millis() < newest.millis() + 5
        {
            self.wanted_timestamp_bound = self.wanted_timestamp_bound.max(Timestamp::from_millis(ahead_ms));
        }
    }

    /// The bound that the owner must write to disk with a sync, and then pass to [`Leases::synced`].
    #[must_use]
    pub fn to_sync(&self) -> Option<Timestamp> {
        (self.wanted_timestamp_bound > self.synced).then_some(self.wanted_timestamp_bound)
    }

    /// Records that this bound is on disk.
    pub fn synced(&mut self, timestamp_bound: Timestamp) {
        self.synced = self.synced.max(timestamp_bound);
    }

    /// The highest bound on its disk, its own or another's. A replica that is promoted here starts above it.
    #[must_use]
    pub fn begin_above(&self) -> Timestamp {
        self.synced
    }

    /// The instance that this process is.
    #[must_use]
    pub fn this_member(&self) -> Member {
        self.this_member
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use zerohop_wire::ids::Incarnation;

    fn member(instance: u32, incarnation: u64) -> Member {
        Member { instance: InstanceId(instance), incarnation: Incarnation(incarnation) }
    }

    /// A sends a request to B at `sent_us`. B answers at `granted_us` of its own clock.
    fn exchange(a: &mut Leases, b: &mut Leases, sent_us: u64, granted_us: u64, arrives_us: u64) {
        let (me, other) = (a.this_member(), b.this_member());
        for (_, body) in a.lease_requests(sent_us, Timestamp::ZERO, [other]) {
            if let Some(grant) = b.handle_message(granted_us, me, &body) {
                a.handle_message(arrives_us, other, &grant);
            }
        }
    }

    fn pair() -> (Leases, Leases) {
        let new = |instance| Leases::new(member(instance, 7), 1_000, Timestamp::ZERO);
        (new(1), new(2))
    }

    #[test]
    pub(crate) fn lease_counts_from_its_request() {
        let (mut a, mut b) = pair();
        exchange(&mut a, &mut b, 2_000, 50_000, 100_000);
        assert!(a.is_valid(2_000 + LEASE_US - 1, b.this_member()));
        assert!(!a.is_valid(2_000 + LEASE_US, b.this_member()));
        // The granter waits for longer than that, from a later moment on.
        assert!(b.ended_us(a.this_member().instance, MapEpoch(1)) > 50_000 + LEASE_US);
    }

    #[test]
    fn lease_is_requested_again_soon_from_a_member_with_a_low_bound() {
        let (mut a, mut b) = pair();
        b.synced(Timestamp::from_millis(50));
        exchange(&mut a, &mut b, 2_000, 2_000, 2_000);
        let (low, high) = (Timestamp::from_millis(49), Timestamp::from_millis(50));
        let other = b.this_member();
        let mut asks = |now_us: u64, newest| !a.lease_requests(now_us, newest, [other]).is_empty();
        assert!(!asks(2_000 + LEASE_RENEW_US - 1, low));
        assert!(!asks(2_000 + BOUND_AGAIN_US - 1, high));
        assert!(asks(2_000 + BOUND_AGAIN_US, high));
        assert!(!asks(2_000 + 2 * BOUND_AGAIN_US - 1, high), "a request is under way");
        b.synced(Timestamp::from_millis(51));
        let later_us = 2_000 + 2 * LEASE_RENEW_US;
        exchange(&mut a, &mut b, later_us, later_us, later_us);
        assert!(a.lease_requests(later_us + LEASE_RENEW_US - 1, high, [other]).is_empty());
        // A member that does not answer is asked as often as any other.
        let (mut a, b) = pair();
        assert_eq!(a.lease_requests(2_000, high, [b.this_member()]).len(), 1);
        assert!(a.lease_requests(2_000 + BOUND_AGAIN_US, high, [b.this_member()]).is_empty());
    }

    #[test]
    fn returning_instance_is_on_time_again() {
        let (mut a, _) = pair();
        for at in 1..=20 {
            a.lease_requests(1_000 + at * ON_TIME_US, Timestamp::ZERO, []);
        }
        let last_us = 1_000 + 20 * ON_TIME_US;
        assert_eq!(a.on_time_since_us(last_us + ON_TIME_US), 1_000);
        let back_us = last_us + ON_TIME_US + 1;
        assert_eq!(a.on_time_since_us(back_us), back_us, "before it looks again, too");
        a.lease_requests(back_us, Timestamp::ZERO, []);
        assert_eq!(a.on_time_since_us(back_us + ON_TIME_US), back_us);
    }

    #[test]
    fn lease_from_another_incarnation_is_ignored() {
        let (mut a, mut b) = pair();
        exchange(&mut a, &mut b, 2_000, 2_000, 2_000);
        assert!(!a.is_valid(3_000, member(2, 8)));
        // A grant that this start never requested is ignored.
        let old =
            PeerBody::LeaseGrant { sent_us: 500, map_epoch: MapEpoch(0), timestamp_bound: Timestamp::ZERO };
        let (mut a, b) = pair();
        a.handle_message(2_000, b.this_member(), &old);
        assert!(!a.is_valid(2_001, b.this_member()));
    }

    #[test]
    pub(crate) fn a_grant_under_a_newer_map_waits_until_that_is_applied() {
        let (mut a, mut b) = pair();
        b.set_map(MapEpoch(5));
        exchange(&mut a, &mut b, 2_000, 2_000, 2_000);
        assert!(!a.is_valid(3_000, b.this_member()));
        a.set_map(MapEpoch(5));
        assert!(a.is_valid(3_000, b.this_member()));
    }

    #[test]
    pub(crate) fn what_was_granted_under_the_new_map_is_not_waited_for_but_the_start_is() {
        let (mut a, mut b) = pair();
        exchange(&mut a, &mut b, 2_000, 2_000, 2_000);
        b.set_map(MapEpoch(5));
        exchange(&mut a, &mut b, 300_000, 300_000, 300_000);
        assert_eq!(b.ended_us(a.this_member().instance, MapEpoch(5)), 2_000 + LEASE_WAIT_US);
        assert_eq!(b.ended_us(InstanceId(9), MapEpoch(5)), 1_000 + LEASE_WAIT_US);
        assert!(b.ended_us(a.this_member().instance, MapEpoch(6)) > 300_000 + LEASE_US);
    }

    #[test]
    fn lease_from_down_node_is_unused_until_it_is_up() {
        let (mut a, mut b) = pair();
        exchange(&mut a, &mut b, 2_000, 2_000, 2_000);
        assert!(a.is_valid(3_000, b.this_member()));
        a.set_absent([b.this_member().instance]);
        assert!(!a.is_valid(3_000, b.this_member()), "though it has granted it");
        a.set_absent([]);
        assert!(a.is_valid(3_000, b.this_member()));
    }

    #[test]
    fn timestamp_bound_is_valid_once_all_successors_synced_it() {
        let (mut a, mut b) = pair();
        a.raise_wanted_timestamp_bound(10_000, Timestamp::ZERO);
        let timestamp_bound = a.to_sync().expect("wants one");
        assert_eq!(timestamp_bound.millis(), 10_000 + TIMESTAMP_BOUND_AHEAD_MS);
        a.synced(timestamp_bound);
        assert_eq!(a.timestamp_bound([]), timestamp_bound);
        exchange(&mut a, &mut b, 2_000, 2_000, 2_000);
        assert_eq!(a.timestamp_bound([b.this_member()]), Timestamp::ZERO, "b was asked, and has not synced");
        b.synced(b.to_sync().expect("has a bound to sync"));
        exchange(&mut a, &mut b, 202_000, 202_000, 202_000);
        assert_eq!(a.timestamp_bound([b.this_member()]), timestamp_bound);
        assert_eq!(b.begin_above(), timestamp_bound);
    }
}
