//! The intents on each lock key, the queue for them, and the reads that wait for them. In memory only: prepared transactions
//! are in the state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zerohop_base::invariant::{BrokenInvariant, check_rules};
use zerohop_wire::ids::{PartitionId, Timestamp};

use crate::effect::Ticket;
use crate::id::TransactionId;
use crate::item::{Access, TransactionItem};
use crate::limits::READ_LOCKS_MAX;
use crate::planted::{Bug, is_planted};

/// Lock keys, each once, ascending, and their access.
pub(crate) type Locks = Vec<(u64, Access)>;

/// One acquisition of intents; a number that is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder(u64);

/// An entry of the wait queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueEntry {
    /// A transaction that goes along its chain.
    Chain(TransactionId),
    /// The coordinator's own part.
    Own(TransactionId),
    /// A write of one record.
    Write(Ticket),
}

#[derive(Debug, Default)]
struct LockEntry {
    holders: BTreeMap<Holder, Access>,
    queue: BTreeMap<u64, Access>,
    /// Read locks on it last at least until this time; 0: there is none.
    read_locked_until: u64,
}

#[derive(Debug)]
struct LockSet {
    locks: Locks,
    /// The holder commits at this timestamp or later; once the timestamp is known, exactly then.
    at: Timestamp,
}

#[derive(Debug)]
struct Waiter {
    holder: QueueEntry,
    locks: Locks,
}

#[derive(Debug)]
struct WaitingRead {
    ticket: Ticket,
    lock_key: u64,
    /// A read at this timestamp does not wait for transactions that commit later.
    limit: Timestamp,
    waits: BTreeSet<Holder>,
}

/// The owner of these invariants.
const INTENTS: &str = "the intents of a partition";

/// The table of one partition.
#[derive(Debug, Default)]
pub(crate) struct Intents {
    by_lock_key: BTreeMap<u64, LockEntry>,
    holdings: BTreeMap<Holder, LockSet>,
    /// By arrival.
    waiters: BTreeMap<u64, Waiter>,
    /// Arrivals that may have become ready.
    stirred: BTreeSet<u64>,
    reads: BTreeMap<u64, WaitingRead>,
    by_holder: BTreeMap<Holder, BTreeSet<u64>>,
    /// The holders that may change anything.
    changing: BTreeSet<Holder>,
    /// Reads of all records, by the last number that they wait for, and their own number.
    scans: BTreeMap<(u64, u64), Ticket>,
    /// Read locks with their time limits, in this order.
    read_locks: VecDeque<(u64, Holder)>,
    next: u64,
    /// The region, in an ordered keyspace.
    pub(crate) region: Option<PartitionId>,
}

/// The locks of the items of one transaction, combined: several accesses to one lock key become the strongest of them.
pub(crate) fn locks_of(items: &[TransactionItem]) -> Locks {
    let mut locks: Locks = items.iter().map(|item| (item.lock_key, item.access)).collect();
    locks.sort_unstable_by_key(|(lock_key, _)| *lock_key);
    locks.dedup_by(|(lock_key, access), (kept_key, kept)| {
        let is_same = lock_key == kept_key;
        if is_same && access != kept {
            *kept = Access::Write;
        }
        is_same
    });
    locks
}

fn are_compatible(one: Access, other: Access) -> bool {
    match (one, other) {
        (Access::Read, Access::Read) => true,
        (Access::Transform(one), Access::Transform(other)) => one == other,
        _ => false,
    }
}

impl Intents {
    /// Those of a partition; `region` is its number in an ordered keyspace.
    pub(crate) fn of(region: Option<PartitionId>) -> Intents {
        Intents { region, ..Intents::default() }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Whether no holder and no queue entry conflicts with these locks.
    pub(crate) fn are_free(&self, locks: &Locks) -> bool {
        self.are_free_before(locks, u64::MAX)
    }

    fn are_free_before(&self, locks: &Locks, arrival: u64) -> bool {
        locks.iter().all(|(lock_key, access)| {
            self.by_lock_key.get(lock_key).is_none_or(|entry| {
                let mut others =
                    entry.holders.values().chain(entry.queue.range(..arrival).map(|(_, access)| access));
                others.all(|other| are_compatible(*access, *other))
            })
        })
    }

    /// Acquires all of them. They must be free, or belong to a queue entry that was granted them.
    pub(crate) fn acquire(&mut self, locks: Locks, at: Timestamp) -> Holder {
        let holder = Holder(self.number());
        for (lock_key, access) in &locks {
            self.by_lock_key.entry(*lock_key).or_default().holders.insert(holder, *access);
        }
        if locks.iter().any(|(_, access)| *access != Access::Read) {
            self.changing.insert(holder);
        }
        self.holdings.insert(holder, LockSet { locks, at });
        holder
    }

    /// Puts a shared intent on a lock key until the given time, unless another transaction may change it or queues for it.
    pub(crate) fn add_read_lock(&mut self, lock_key: u64, until: u64) -> bool {
        if let Some(found) = self.by_lock_key.get(&lock_key) {
            let is_read = found.holders.values().all(|access| *access == Access::Read);
            if !is_read || !found.queue.is_empty() {
                return false;
            }
            if found.read_locked_until >= until {
                return true;
            }
        }
        let is_in_order = self.read_locks.back().is_none_or(|(last, _)| *last <= until);
        if self.read_locks.len() >= READ_LOCKS_MAX || !is_in_order {
            return false;
        }
        let holder = self.acquire(vec![(lock_key, Access::Read)], Timestamp::MAX);
        self.read_locks.push_back((until, holder));
        self.by_lock_key.entry(lock_key).or_default().read_locked_until = until;
        true
    }

    /// Releases read locks whose time limit is now or earlier. Returns whether there were any.
    pub(crate) fn expire_read_locks(&mut self, now: u64) -> bool {
        let before = self.read_locks.len();
        while let Some(&(until, holder)) = self.read_locks.front()
            && until <= now
        {
            self.read_locks.pop_front();
            // No read waits for it: it has changed nothing.
            self.release(holder, None);
        }
        self.read_locks.len() < before
    }

    /// The time limit of the first read lock.
    pub(crate) fn first_read_lock_end(&self) -> Option<u64> {
        self.read_locks.front().map(|(until, _)| *until)
    }

    /// The timestamp at which a holder commits is known.
    pub(crate) fn decided(&mut self, holder: Holder, at: Timestamp) {
        if let Some(holding) = self.holdings.get_mut(&holder) {
            holding.at = at;
        }
    }

    /// Whether a transform of this holder may be applied at `at`: no other holder may commit before `at` on any of its
    /// lock keys.
    pub(crate) fn is_lowest(&self, holder: Holder, at: Timestamp) -> bool {
        let Some(holding) = self.holdings.get(&holder) else { return true };
        let transforms = holding.locks.iter().filter(|(_, access)| matches!(access, Access::Transform(_)));
        transforms
            .filter_map(|(lock_key, _)| self.by_lock_key.get(lock_key))
            .flat_map(|entry| entry.holders.keys())
            .all(|other| *other == holder || self.holdings.get(other).is_none_or(|other| other.at >= at))
    }

    /// Releases the locks of a holder. `at` is its version, if it has changed anything. Returns the reads that waited for no
    /// other holder.
    pub(crate) fn release(&mut self, holder: Holder, at: Option<Timestamp>) -> Vec<Ticket> {
        let Some(holding) = self.holdings.remove(&holder) else { return Vec::new() };
        for (number, _) in &holding.locks {
            let Some(entry) = self.by_lock_key.get_mut(number) else { continue };
            entry.holders.remove(&holder);
            self.stirred.extend(entry.queue.keys());
            if entry.holders.is_empty() && entry.queue.is_empty() {
                self.by_lock_key.remove(number);
            }
        }
        self.changing.remove(&holder);
        let mut ready = self.scans_without(holder, &holding.locks, at);
        for number in self.by_holder.remove(&holder).unwrap_or_default() {
            let Some(reading) = self.reads.get_mut(&number) else { continue };
            reading.waits.remove(&holder);
            // Transforms beside it may have the same version: a read now would return that version without their changes.
            // Later transforms are proposed above it.
            if let Some(at) = at {
                let (lock_key, limit) = (reading.lock_key, reading.limit.min(at));
                let more = pending_holders(&self.by_lock_key, &self.holdings, lock_key, limit);
                for other in more {
                    reading.waits.insert(other);
                    self.by_holder.entry(other).or_default().insert(number);
                }
            }
            if reading.waits.is_empty() {
                ready.extend(self.reads.remove(&number).map(|reading| reading.ticket));
            }
        }
        ready
    }

    /// Scans that waited for no other holder than this one, which has ended.
    fn scans_without(&mut self, holder: Holder, locks: &Locks, at: Option<Timestamp>) -> Vec<Ticket> {
        if self.scans.is_empty() {
            return Vec::new();
        }
        if let Some(at) = at {
            // Transforms beside it that may have the same version, as for a read of one record.
            let transforms = locks.iter().filter(|(_, access)| matches!(access, Access::Transform(_)));
            let beside = transforms
                .flat_map(|(lock_key, _)| pending_holders(&self.by_lock_key, &self.holdings, *lock_key, at));
            let last = beside.max().map_or(0, |beside| beside.0).max(holder.0);
            let longer: Vec<(u64, u64)> =
                self.scans.range((holder.0, 0)..(last, 0)).map(|(scan, _)| *scan).collect();
            for scan in longer {
                let ticket = self.scans.remove(&scan);
                self.scans.extend(ticket.map(|ticket| ((last, scan.1), ticket)));
            }
        }
        let mut ready = Vec::new();
        while let Some(first) = self.scans.first_entry()
            && self.changing.range(..=Holder(first.key().0)).next().is_none()
        {
            ready.push(first.remove());
        }
        ready
    }

    /// Reads all records: at once (true), or once all holders that may change any of them now have ended. Its memory does
    /// not grow with their number: later holders have higher numbers.
    pub(crate) fn scan(&mut self, ticket: Ticket) -> bool {
        if self.changing.is_empty() || is_planted(Bug::ReadsIgnoreIntents) {
            return true;
        }
        let number = self.number();
        self.scans.insert((number, number), ticket);
        false
    }

    /// Queues behind all present entries.
    pub(crate) fn queue(&mut self, who: QueueEntry, locks: Locks) -> u64 {
        let arrival = self.number();
        for (lock_key, access) in &locks {
            self.by_lock_key.entry(*lock_key).or_default().queue.insert(arrival, *access);
        }
        self.waiters.insert(arrival, Waiter { holder: who, locks });
        arrival
    }

    /// Leaves the queue.
    pub(crate) fn unqueue(&mut self, arrival: u64) -> Option<(QueueEntry, Locks)> {
        let waiter = self.waiters.remove(&arrival)?;
        self.stirred.remove(&arrival);
        for (number, _) in &waiter.locks {
            let Some(entry) = self.by_lock_key.get_mut(number) else { continue };
            entry.queue.remove(&arrival);
            self.stirred.extend(entry.queue.range(arrival..).map(|(arrival, _)| *arrival));
            if entry.holders.is_empty() && entry.queue.is_empty() {
                self.by_lock_key.remove(number);
            }
        }
        Some((waiter.holder, waiter.locks))
    }

    /// Removes the first ready entry from the queue. The caller must acquire its intents, or abandon it, at once.
    pub(crate) fn pop_ready(&mut self) -> Option<(QueueEntry, Locks)> {
        while let Some(arrival) = self.stirred.pop_first() {
            let is_ready =
                self.waiters.get(&arrival).is_some_and(|waiter| self.are_free_before(&waiter.locks, arrival));
            if is_ready {
                return self.unqueue(arrival);
            }
        }
        None
    }

    /// Reads a record as it is (`limit` is [`Timestamp::MAX`]) or was at `limit`: at once (true), or once the present holders
    /// have ended.
    pub(crate) fn read(&mut self, ticket: Ticket, lock_key: u64, limit: Timestamp) -> bool {
        let waits = pending_holders(&self.by_lock_key, &self.holdings, lock_key, limit);
        let is_at_past = limit < Timestamp::MAX;
        if waits.is_empty()
            || is_planted(Bug::ReadsIgnoreIntents) && !is_at_past
            || is_planted(Bug::ReadIgnoresLowerProposals) && is_at_past
        {
            return true;
        }
        let number = self.number();
        for holder in &waits {
            self.by_holder.entry(*holder).or_default().insert(number);
        }
        self.reads.insert(number, WaitingRead { ticket, lock_key, limit, waits });
        false
    }

    /// Whether any holder is about to change a record.
    pub(crate) fn has_changes_pending(&self) -> bool {
        !self.changing.is_empty() && !is_planted(Bug::ReadsIgnoreIntents)
    }

    /// Whether a holder is about to change a record.
    pub(crate) fn has_change_pending(&self, lock_key: u64) -> bool {
        !pending_holders(&self.by_lock_key, &self.holdings, lock_key, Timestamp::MAX).is_empty()
    }

    /// Whether any holder may change its records at or below a timestamp.
    pub(crate) fn may_commit_by(&self, limit: Timestamp) -> bool {
        self.lowest_commit().is_some_and(|lowest| lowest <= limit)
    }

    /// The lowest timestamp at which a holder may change its records; `None`: no holder changes any.
    pub(crate) fn lowest_commit(&self) -> Option<Timestamp> {
        let changes = |holding: &&LockSet| holding.locks.iter().any(|(_, access)| *access != Access::Read);
        self.holdings.values().filter(changes).map(|holding| holding.at).min()
    }

    /// Number of transactions and writes in the queue, and of reads that wait.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.waiters.len(), self.reads.len() + self.scans.len())
    }

    /// The number of holders, read locks included.
    pub(crate) fn holders(&self) -> usize {
        self.holdings.len()
    }

    /// The number of holders that are read locks.
    pub(crate) fn read_locks(&self) -> usize {
        self.read_locks.len()
    }

    /// Whether a holder has not been released.
    pub(crate) fn has_holder(&self, holder: Holder) -> bool {
        self.holdings.contains_key(&holder)
    }

    /// Whether a queue entry is waiting.
    pub(crate) fn has_waiter(&self, arrival: u64) -> bool {
        self.waiters.contains_key(&arrival)
    }

    /// Checks the invariants that cost the same for every number of intents.
    ///
    /// # Errors
    /// The broken one.
    pub(crate) fn check(&self) -> Result<(), BrokenInvariant> {
        check_rules(
            INTENTS,
            [
                (self.changing.len() <= self.holdings.len(), "only holders change records"),
                (self.read_locks.len() <= self.holdings.len(), "each read lock is a holder"),
                (
                    !(self.holdings.is_empty() && self.waiters.is_empty()) || self.by_lock_key.is_empty(),
                    "a lock key has a holder or a waiter",
                ),
            ],
        )
    }

    /// Checks all intents and all lock keys.
    ///
    /// # Errors
    /// The broken invariant.
    pub(crate) fn check_all(&self) -> Result<(), BrokenInvariant> {
        let has_entries = |holder: &Holder, of_holder: &LockSet| {
            of_holder.locks.iter().all(|(number, access)| {
                self.by_lock_key.get(number).is_some_and(|entry| entry.holders.get(holder) == Some(access))
            })
        };
        let waits = |arrival: &u64, waiter: &Waiter| {
            waiter.locks.iter().all(|(number, access)| {
                self.by_lock_key.get(number).is_some_and(|entry| entry.queue.get(arrival) == Some(access))
            })
        };
        let locks = self.holdings.values().map(|of_holder| of_holder.locks.len()).sum::<usize>();
        let of_entries = self.by_lock_key.values().map(|entry| entry.holders.len()).sum::<usize>();
        check_rules(
            INTENTS,
            [
                (
                    self.holdings.iter().all(|(holder, of_holder)| has_entries(holder, of_holder)),
                    "the lock keys of a holder name it",
                ),
                (locks == of_entries, "a lock key names only holders that have not been released"),
                (
                    self.waiters.iter().all(|(arrival, one)| waits(arrival, one)),
                    "the lock keys of a waiter name it",
                ),
                (
                    self.changing.iter().all(|holder| self.holdings.contains_key(holder)),
                    "only holders change records",
                ),
                (
                    self.reads
                        .values()
                        .flat_map(|read| &read.waits)
                        .all(|one| self.holdings.contains_key(one)),
                    "a read waits only for holders",
                ),
            ],
        )
    }

    /// Whether there is no holder and no waiter.
    pub(crate) fn is_empty(&self) -> bool {
        self.holdings.is_empty() && self.waiters.is_empty() && self.reads.is_empty() && self.scans.is_empty()
    }
}

/// The holders that may change a record at or below `limit`.
fn pending_holders(
    entries: &BTreeMap<u64, LockEntry>,
    holdings: &BTreeMap<Holder, LockSet>,
    lock_key: u64,
    limit: Timestamp,
) -> BTreeSet<Holder> {
    let of_holder = entries.get(&lock_key).into_iter().flat_map(|entry| &entry.holders);
    let changing = of_holder.filter(|(_, access)| **access != Access::Read).map(|(holder, _)| *holder);
    changing.filter(|holder| holdings.get(holder).is_some_and(|one| one.at <= limit)).collect()
}

/// Changes of the state by which tests break invariants.
#[cfg(test)]
impl Intents {
    pub(crate) fn break_changing(&mut self) {
        self.changing.extend((1_000..1_010).map(Holder));
    }

    pub(crate) fn break_entry(&mut self, lock_key: u64) {
        self.by_lock_key.entry(lock_key).or_default().holders.clear();
    }

    pub(crate) fn break_queue_of_entry(&mut self, lock_key: u64) {
        self.by_lock_key.entry(lock_key).or_default().queue.clear();
    }
}

#[cfg(test)]
impl Holder {
    pub(crate) fn of_test(number: u64) -> Holder {
        Holder(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Ticket = Ticket(1);

    fn acquire(intents: &mut Intents, access: Access, at: u64) -> Holder {
        intents.acquire(vec![(7, access)], Timestamp(at))
    }

    #[test]
    fn scan_waits_for_earlier_changers_only() {
        let mut intents = Intents::default();
        let reads = intents.acquire(vec![(1, Access::Read)], Timestamp(1));
        assert!(intents.scan(T), "a shared intent changes nothing");
        let first = intents.acquire(vec![(2, Access::Write)], Timestamp(2));
        let second = intents.acquire(vec![(3, Access::Write)], Timestamp(3));
        assert!(!intents.scan(T));
        let behind = intents.acquire(vec![(4, Access::Write)], Timestamp(4));
        assert_eq!(intents.waiting(), (0, 1));
        assert!(intents.release(second, Some(Timestamp(9))).is_empty());
        assert!(intents.release(reads, None).is_empty());
        assert_eq!(intents.release(first, None), [T]);
        assert!(intents.release(behind, None).is_empty());
        assert!(intents.is_empty());
    }

    #[test]
    fn read_lock_blocks_writers_and_yields_to_waiters() {
        let mut intents = Intents::default();
        assert!(
            intents.add_read_lock(7, 10)
                && intents.add_read_lock(7, 10)
                && intents.add_read_lock(7, 12)
                && intents.add_read_lock(8, 12)
        );
        assert!(!intents.has_change_pending(7), "no holder is about to change it");
        let write = vec![(7, Access::Write)];
        assert!(!intents.are_free(&write));
        let shared = intents.acquire(vec![(7, Access::Read)], Timestamp(1));
        intents.queue(QueueEntry::Write(T), write.clone());
        assert!(!intents.add_read_lock(7, 13), "a holder waits to change it");
        assert!(intents.expire_read_locks(10) && !intents.expire_read_locks(11), "the second one stands");
        assert_eq!((intents.pop_ready().is_none(), intents.first_read_lock_end()), (true, Some(12)));
        intents.release(shared, None);
        assert!(intents.pop_ready().is_none());
        assert!(intents.expire_read_locks(12));
        assert_eq!(intents.pop_ready(), Some((QueueEntry::Write(T), write.clone())));
        assert!(intents.is_empty());
        let writer = intents.acquire(write, Timestamp(2));
        assert!(!intents.add_read_lock(7, 20));
        intents.release(writer, None);
        assert!(intents.add_read_lock(7, 20) && !intents.add_read_lock(9, 19), "the clock went back");
    }

    #[test]
    fn scan_waits_for_transforms_that_may_share_version() {
        let mut intents = Intents::default();
        let first = acquire(&mut intents, Access::Transform(1), 5);
        assert!(!intents.scan(T));
        let beside = acquire(&mut intents, Access::Transform(1), 7);
        let above = acquire(&mut intents, Access::Transform(1), 11);
        assert!(intents.release(first, Some(Timestamp(9))).is_empty(), "the second may be of 9 too");
        assert_eq!(intents.release(beside, Some(Timestamp(9))), [T]);
        assert!(intents.release(above, None).is_empty());
    }
}
