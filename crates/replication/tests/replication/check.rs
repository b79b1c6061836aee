//! Checks of the histories that clients see.
//!
//! Keys are of three sorts. *Lists* get values that are all different, and are read. All reads are prefixes of one list, in real
//! time, and have each value acknowledged before them once. *Counters* are incremented. Every outcome is a different number, and
//! the numbers rise in real time. *Locks* are inserted if absent. Each is inserted once, and is never absent after a client has
//! learned of it.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_wire::ids::{PartitionEpoch, Timestamp};

/// The history of one key.
#[derive(Debug, Default)]
struct KeyHistory {
    /// Values by acknowledgement; the last time counts.
    acknowledged: BTreeMap<u64, u64>,
    /// When each value was first sent.
    sent: BTreeMap<u64, u64>,
    /// The longest list seen, and when each of its places was first seen.
    longest: Vec<u64>,
    seen_at: Vec<u64>,
    /// For counters: outcomes by the time of the answer, and their requests.
    counted: Vec<(u64, u64, i64)>,
    /// For locks: the client that acquired it first, and when a client first learned of it.
    holder: Option<u64>,
    there_since: Option<u64>,
    versions: BTreeMap<Timestamp, Vec<u64>>,
}

#[derive(Debug, Default)]
pub struct Checker {
    keys: BTreeMap<(usize, String), KeyHistory>,
    /// For each partition: the newest epoch that has answered, and the instance.
    answered: BTreeMap<usize, (PartitionEpoch, u32)>,
    /// When writes of a partition may have been lost.
    lost_at: BTreeMap<usize, u64>,
    /// For each partition: the highest version that was answered, by time.
    versions: BTreeMap<usize, BTreeMap<u64, Timestamp>>,
    pub violations: Vec<String>,
    pub operations: u64,
}

impl Checker {
    fn violation(&mut self, text: String) {
        if self.violations.len() < 5 {
            self.violations.push(text);
        }
    }

    fn key(&mut self, partition: usize, key: &str) -> &mut KeyHistory {
        self.keys.entry((partition, key.to_owned())).or_default()
    }

    /// From now on up to an interval of this partition may be missing, or all of it, together with the timestamp bounds on its
    /// disks.
    pub fn may_lose(&mut self, partition: usize, now: u64, is_all_gone: bool) {
        if is_all_gone {
            self.versions.remove(&partition);
        }
        self.lost_at.insert(partition, now);
        for ((of, _), key) in &mut self.keys {
            if *of == partition {
                let versions = std::mem::take(&mut key.versions);
                let versions = if is_all_gone { BTreeMap::new() } else { versions };
                let sent = std::mem::take(&mut key.sent);
                *key = KeyHistory { versions, sent, ..KeyHistory::default() };
            }
        }
    }

    fn is_before_loss(&self, partition: usize, begun: u64) -> bool {
        self.lost_at.get(&partition).is_some_and(|at| begun <= *at)
    }

    /// An instance has answered as a group's primary.
    pub fn answered(&mut self, partition: usize, epoch: PartitionEpoch, instance: u32, now: u64) {
        let newest = self.answered.entry(partition).or_insert((epoch, instance));
        if epoch > newest.0 {
            *newest = (epoch, instance);
        } else if epoch < newest.0 && instance != newest.1 {
            let newest = *newest;
            self.violation(format!(
                "I4: at {now} instance {instance} answers for {partition} in epoch {epoch}, after {newest:?}"
            ));
        }
    }

    /// A write got this version. It must be above all versions that were answered before it was sent, whatever was lost since.
    pub fn wrote(&mut self, partition: usize, version: Timestamp, (begun, now): (u64, u64)) {
        if self.is_before_loss(partition, begun) {
            return;
        }
        let versions = self.versions.entry(partition).or_default();
        let before = versions.range(..begun).next_back().map(|(at, version)| (*at, *version));
        let highest = versions.last_key_value().map_or(version, |(_, highest)| version.max(*highest));
        versions.insert(now, highest);
        if let Some((at, before)) = before.filter(|(_, before)| *before >= version) {
            self.violation(format!(
                "I2: version {version} of {partition}, {begun} to {now}, though {before} was answered at {at}"
            ));
        }
    }

    pub fn append_sent(&mut self, partition: usize, key: &str, value: u64, now: u64) {
        self.key(partition, key).sent.entry(value).or_insert(now);
    }

    pub fn append_done(&mut self, partition: usize, key: &str, value: u64, (begun, now): (u64, u64)) {
        if self.is_before_loss(partition, begun) {
            return;
        }
        self.key(partition, key).acknowledged.insert(value, now);
    }

    pub fn list_read(
        &mut self,
        partition: usize,
        name: &str,
        list: &[u64],
        version: Timestamp,
        (begun, now): (u64, u64),
    ) {
        let is_before_loss = self.is_before_loss(partition, begun);
        let mut wrong = Vec::new();
        let key = self.key(partition, name);
        let set: BTreeSet<u64> = list.iter().copied().collect();
        if set.len() != list.len() {
            wrong.push("I3: a value twice".to_owned());
        }
        if let Some(value) = list.iter().find(|value| !key.sent.contains_key(value)) {
            wrong.push(format!("I7: value {value} was never sent"));
        }
        let known = key.versions.entry(version).or_insert_with(|| list.to_vec());
        if known != list {
            wrong.push(format!("I2: version {version} was {known:?}"));
        }
        if !is_before_loss {
            let missing = key.acknowledged.iter().find(|(value, at)| **at < begun && !set.contains(value));
            if let Some((value, at)) = missing {
                wrong.push(format!("I1: value {value}, acknowledged at {at}, is missing"));
            }
            let common = list.len().min(key.longest.len());
            if list[..common] != key.longest[..common] {
                wrong.push(format!("I2: not one list: {:?}", key.longest));
            }
            // Values that a client had seen before this read started must be present.
            if key.seen_at.get(list.len()).is_some_and(|at| *at < begun) {
                wrong.push(format!("I2: an old list; {} values were seen before", key.longest.len()));
            }
            for value in &list[key.longest.len().min(list.len())..] {
                key.longest.push(*value);
                key.seen_at.push(now);
            }
        }
        for what in wrong {
            self.violation(format!("{what}: {name} of {partition}, read {begun} to {now}: {list:?}"));
        }
    }

    pub fn counted(&mut self, partition: usize, name: &str, value: i64, (begun, now): (u64, u64)) {
        if self.is_before_loss(partition, begun) {
            return;
        }
        let key = self.key(partition, name);
        let twice = key.counted.iter().any(|(_, _, other)| *other == value);
        let falls = key.counted.iter().any(|(_, ended, other)| *ended < begun && *other > value);
        let known = (twice || falls).then(|| key.counted.clone());
        key.counted.push((begun, now, value));
        if let Some(known) = known {
            let last: Vec<_> = known.iter().rev().take(4).collect();
            self.violation(format!("I1/I3: {name} of {partition} at {now} counts {value} after {last:?}"));
        }
    }

    /// A client has learned that a lock exists; `by` if this request has inserted it.
    pub fn lock_there(&mut self, partition: usize, name: &str, by: Option<u64>, (begun, now): (u64, u64)) {
        if self.is_before_loss(partition, begun) {
            return;
        }
        let key = self.key(partition, name);
        key.there_since.get_or_insert(now);
        let Some(by) = by else { return };
        if let Some(other) = key.holder.replace(by).filter(|other| *other != by) {
            self.violation(format!("I3: lock {name} of {partition} was acquired by {other} and by {by}"));
        }
    }

    pub fn lock_absent(&mut self, partition: usize, name: &str, (begun, now): (u64, u64)) {
        if self.is_before_loss(partition, begun) {
            return;
        }
        if let Some(at) = self.key(partition, name).there_since.filter(|at| *at < begun) {
            self.violation(format!(
                "I1: lock {name} of {partition} was there at {at}, and is not, {begun} to {now}"
            ));
        }
    }
}
