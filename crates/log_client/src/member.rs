//! A member of a group, which reads the partitions that the group assigns to it.

use std::collections::BTreeMap;
use std::time::Duration;

use zerohop_layer_log::{
    CommitOffsets, GroupOwner, GroupRecord, JoinGroup, LogError, MemberId, Membership, keys,
};
use zerohop_layer_procedure::{Record, Version};

use crate::client::LogClient;
use crate::layer::failed;
use crate::reader::{LogReader, PlacedRecord};

/// The pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(50);
/// A member sends so many heartbeats before its time is over.
const HEARTBEATS: u64 = 3;

/// A member of a group. It sends heartbeats while it is polled: a member that is not polled for the time of its session leaves the
/// group, and others read its partitions.
///
/// A partition is read from the offset that the group has committed, else from its first record. So records that a member has read
/// and not committed are read again by the next member.
#[derive(Debug)]
pub struct LogMember {
    group: String,
    id: MemberId,
    /// For how many milliseconds it stays without a heartbeat.
    session: u64,
    /// For how long a request is repeated while the cluster does not answer.
    patience: Duration,
    membership: Option<Membership>,
    reader: LogReader,
    /// Where it began to read in each of its partitions, as of the last join.
    begun: BTreeMap<u32, u64>,
    /// When it sends the next heartbeat.
    beats: u64,
}

impl LogMember {
    /// A member that has not joined its group yet.
    #[must_use]
    pub fn new(log: LogClient, group: String, session: u64, patience: Duration) -> Self {
        let id = log.new_member();
        let reader = LogReader::new(log, BTreeMap::new());
        Self { group, id, session, patience, membership: None, reader, begun: BTreeMap::new(), beats: 0 }
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &LogClient {
        self.reader.log()
    }

    /// Its partitions, and the generation of the group; nothing before it joins, and after it leaves.
    #[must_use]
    pub const fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// Joins the group, or joins it again after a change of its members.
    ///
    /// # Errors
    /// [`LogError::BadName`], [`LogError::GroupFull`], and those of the store.
    pub async fn join(&mut self) -> Result<Membership, LogError> {
        let (log, until) = (self.log().clone(), self.until());
        loop {
            let join = JoinGroup { group: self.group.clone(), member: self.id, session: self.session };
            let membership = patiently(&log, until, || log.join(join.clone())).await?;
            self.beats = log.now().saturating_add(self.session / HEARTBEATS);
            match self.take_partitions(&membership, until).await {
                Ok(()) => {
                    self.membership = Some(membership.clone());
                    return Ok(membership);
                }
                // Another member has joined or left meanwhile.
                Err(LogError::OldGeneration { .. } | LogError::UnknownMember) if log.now() < until => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes on in the partitions that it has had, and begins with the others where the group has come to.
    async fn take_partitions(&mut self, membership: &Membership, until: u64) -> Result<(), LogError> {
        let committed = self.committed(membership, until).await?;
        let mut offsets = BTreeMap::new();
        for partition in membership.partitions.clone() {
            // Others may have read it meanwhile, and come further.
            let reached = self.reader.offsets().get(&partition).max(committed.get(&partition)).copied();
            let offset = match reached {
                Some(offset) => offset,
                None => {
                    let log = self.log();
                    patiently(log, until, || log.bounds(partition)).await?.first
                }
            };
            offsets.insert(partition, offset);
        }
        self.begun = offsets.clone();
        self.reader = LogReader::new(self.log().clone(), offsets);
        Ok(())
    }

    /// Reads again what the caller has not received, as the answer to a call that was given up: `received` has the offsets of the next
    /// records behind those that it has received.
    pub fn resume(&mut self, received: &BTreeMap<u32, u64>) {
        let mut offsets = self.reader.offsets().clone();
        for (partition, offset) in &mut offsets {
            let known = received.get(partition).or_else(|| self.begun.get(partition));
            *offset = known.map_or(*offset, |known| (*known).min(*offset));
        }
        self.reader = LogReader::new(self.log().clone(), offsets);
    }

    /// What the group has committed in the partitions of the member.
    async fn committed(&self, membership: &Membership, until: u64) -> Result<BTreeMap<u32, u64>, LogError> {
        let (log, owner) = (self.log(), self.owner(membership));
        let partitions: Vec<u32> = membership.partitions.clone().collect();
        let fetch = || log.fetch(self.group.clone(), Some(owner), partitions.clone());
        let found = patiently(log, until, fetch).await?;
        let offsets = partitions.iter().zip(found);
        Ok(offsets.filter_map(|(partition, found)| Some((*partition, found?.offset))).collect())
    }

    /// Sends a heartbeat, and lets members whose time is over leave the group. A member that the group has no more joins it again.
    ///
    /// # Errors
    /// As [`Self::join`].
    pub async fn keep(&mut self) -> Result<Membership, LogError> {
        let Some(membership) = self.membership.clone() else { return self.join().await };
        let (log, until, owner) = (self.log().clone(), self.until(), self.owner(&membership));
        let beat = || log.heartbeat(self.group.clone(), owner, self.session);
        match patiently(&log, until, beat).await {
            Ok(_) => self.beats = log.now().saturating_add(self.session / HEARTBEATS),
            Err(LogError::OldGeneration { .. } | LogError::UnknownMember) => return self.join().await,
            Err(error) => return Err(error),
        }
        match patiently(&log, until, || log.expire(self.group.clone())).await? {
            0 => Ok(membership),
            _ => self.join().await,
        }
    }

    /// The next records of its partitions, about `bytes` of batches of each at most. If there is none, it waits for one until
    /// `wait_until`, in milliseconds since 1970, and returns nothing after that. It joins the group if necessary.
    ///
    /// Records that the log has removed before the group has read them are left out.
    ///
    /// # Errors
    /// As [`Self::join`]. The next call returns the same records.
    pub async fn poll(&mut self, bytes: usize, wait_until: u64) -> Result<Vec<PlacedRecord>, LogError> {
        loop {
            let log = self.log().clone();
            let membership = match &self.membership {
                Some(membership) if log.now() < self.beats => membership.clone(),
                _ => self.keep().await?,
            };
            let Some(group) = self.seen(&membership).await? else {
                self.join().await?;
                continue;
            };
            let partitions: Vec<u32> = membership.partitions.clone().collect();
            let waits = wait_until > log.now();
            let until = self.until();
            // What changes behind this ends the wait.
            let tails =
                if waits { patiently(&log, until, || log.tails(&partitions)).await? } else { Vec::new() };
            let records = self.read(bytes, until).await?;
            if !records.is_empty() || !waits {
                return Ok(records);
            }
            let tails = tails.into_iter().map(|(partition, version)| (keys::tail(partition), version));
            let watched = tails.chain([(keys::group(&self.group), group)]).collect();
            let waited = log.store.wait_any_changed(watched, wait_until.min(self.beats)).await;
            match waited.map_err(failed) {
                Ok(()) | Err(LogError::Unavailable(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The version of the group's record; nothing if the membership is none of its generation.
    async fn seen(&self, membership: &Membership) -> Result<Option<Version>, LogError> {
        let (log, key) = (self.log(), keys::group(&self.group));
        let keys = std::slice::from_ref(&key);
        let read = || async move { log.store.read(keys).await.map_err(failed) };
        let found = patiently(log, self.until(), read).await?.pop().flatten();
        let Some(found) = found else { return Ok(None) };
        let group = GroupRecord::decode(&found.value).ok_or_else(|| LogError::Corrupt(key.clone()))?;
        Ok((group.membership(self.id).as_ref() == Some(membership)).then_some(found.version))
    }

    async fn read(&mut self, bytes: usize, until: u64) -> Result<Vec<PlacedRecord>, LogError> {
        let log = self.log().clone();
        loop {
            match self.reader.next(bytes, 0).await {
                Err(LogError::OutOfRange { .. }) => {}
                Err(LogError::Unavailable(_) | LogError::Busy) if log.now() < until => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                read => return read,
            }
            let mut offsets = self.reader.offsets().clone();
            for (partition, offset) in &mut offsets {
                let first = patiently(&log, until, || log.bounds(*partition)).await?.first;
                *offset = first.max(*offset);
            }
            if offsets == *self.reader.offsets() {
                return self.reader.next(bytes, 0).await;
            }
            self.reader = LogReader::new(log.clone(), offsets);
        }
    }

    /// Commits offsets of its partitions: each is that of the next record to read.
    ///
    /// # Errors
    /// [`LogError::NotAssigned`] if the group has assigned one of the partitions to another member, which reads its records again:
    /// the offsets of the others are committed. And those of the store.
    pub async fn commit(&mut self, offsets: &BTreeMap<u32, u64>) -> Result<(), LogError> {
        let (log, until) = (self.log().clone(), self.until());
        let mut membership = match self.membership.clone() {
            Some(membership) => membership,
            None => self.join().await?,
        };
        let mut committed = BTreeMap::new();
        loop {
            let is_own = |partition: &u32| membership.partitions.contains(partition);
            let lost = offsets.keys().copied().find(|partition| !is_own(partition));
            let own = offsets.iter().filter(|(partition, _)| is_own(partition));
            // Another member may have had the partition meanwhile, and come further.
            let own = own.filter(|(partition, offset)| committed.get(*partition) <= Some(*offset));
            let own: Vec<(u32, u64)> = own.map(|(partition, offset)| (*partition, *offset)).collect();
            let owner = Some(self.owner(&membership));
            let commit = CommitOffsets { group: self.group.clone(), owner, offsets: own };
            let done = match commit.offsets.is_empty() {
                true => Ok(()),
                false => patiently(&log, until, || log.commit(commit.clone())).await,
            };
            match (done, lost) {
                (Ok(()), Some(partition)) => return Err(LogError::NotAssigned { partition }),
                (Ok(()), None) => return Ok(()),
                (Err(LogError::OldGeneration { .. } | LogError::UnknownMember), _) if log.now() < until => {
                    membership = self.join().await?;
                    committed = self.committed(&membership, until).await.or_else(|error| match error {
                        // The commit finds it too.
                        LogError::OldGeneration { .. } | LogError::UnknownMember => Ok(BTreeMap::new()),
                        error => Err(error),
                    })?;
                }
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// Leaves the group. Other members read its partitions from what the group has committed.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn leave(&mut self) -> Result<(), LogError> {
        let (log, until) = (self.log().clone(), self.until());
        self.membership = None;
        self.begun.clear();
        self.reader = LogReader::new(log.clone(), BTreeMap::new());
        patiently(&log, until, || log.leave(self.group.clone(), self.id)).await
    }

    const fn owner(&self, membership: &Membership) -> GroupOwner {
        GroupOwner { member: self.id, generation: membership.generation }
    }

    fn until(&self) -> u64 {
        let patience = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        self.log().now().saturating_add(patience)
    }
}

/// Repeats a request that may be done twice, until `until`, in milliseconds since 1970, while the cluster does not answer.
async fn patiently<T, F: Future<Output = Result<T, LogError>>>(
    log: &LogClient,
    until: u64,
    mut request: impl FnMut() -> F,
) -> Result<T, LogError> {
    loop {
        match request().await {
            Err(LogError::Unavailable(_) | LogError::Busy) if log.now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}
