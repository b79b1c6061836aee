//! Consistent reads of several records.
//!
//! The session reads all records in parallel and requests a read lock with a time limit from their primaries. A lock prevents changes of the record
//! for a moment. If all primaries grant it and the last answer arrives before the first lock ends, all results were true when that answer arrived.
//! The session measures the locks by its own clock, from the time of each request.
//!
//! Otherwise the session confirms all records: each primary says that the version is unchanged and that no change is pending. A record that was the
//! same when it was read and when it was confirmed was the same in between. Between the two rounds there is a moment that is in between for all
//! records. An absent record has no version, and could have existed in between. If a record is absent, and after two failures, the read therefore
//! becomes a transaction of reads.

use bytes::Bytes;
use zerohop_placement::ClusterMap;
use zerohop_transaction::limits::{ITEMS_MAX, RESULT_BYTES_MAX};
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::limits::BODY_BYTES_MAX;
use zerohop_wire::messages::{Confirm, Query, ReadChunk, RecordOperation, RecordRead};
use zerohop_wire::{AbortReason, Failure, pack};

use super::commit::Commit;
use super::counts::CompositePath;
use super::item::CompositeItem;
use super::{CompositeStep, ItemRequest, ItemResult};
use crate::coalescing::{Coalescing, Collect};
use crate::error::SessionError;
use crate::invalid_transaction::InvalidTransaction;
use crate::limits::{CHECKS_MAX, CONFIRMS_MAX, SEPARATE_PART_BYTES_MIN};
use crate::planted::{Bug, is_planted};
use crate::reply::Reply;
use crate::request_kind::RequestKind;
use zerohop_base::time::Time;

/// Maximum size in bytes of values that a transaction reads again, because a transaction stores the results of its operations.
const SHARED_BYTES_MAX: usize = RESULT_BYTES_MAX / 2;

/// A read of several records in progress.
#[derive(Clone, Debug)]
pub(crate) struct ConsistentRead {
    items: Vec<CompositeItem>,
    got: Vec<Option<Result<Reply, Failure<'static>>>>,
    phase: ReadPhase,
    /// Number of rounds in which a record had changed.
    failures: u32,
    /// Until when read locks protect everything that was read; `None`: some of it is not protected.
    read_locked_until: Option<Time>,
    /// The records are read in one round, and the reply says whether the results are of one moment.
    is_unconfirmed: bool,
    was_read_locked: bool,
}

#[derive(Clone, Debug)]
enum ReadPhase {
    Beginning,
    /// This many have not been read yet.
    Fetching {
        left: usize,
    },
    /// This many have not been confirmed yet; those in the list are known to have changed.
    Confirming {
        left: usize,
        changed: Vec<usize>,
    },
    /// As a transaction: of the reads themselves, or of checks whether the versions are unchanged.
    Transaction {
        commit: Box<Commit>,
        is_check: bool,
    },
}

impl ConsistentRead {
    pub(crate) fn new(items: Vec<CompositeItem>) -> Result<Self, InvalidTransaction> {
        if items.len() > ITEMS_MAX {
            return Err(InvalidTransaction::Items { count: items.len(), limit: ITEMS_MAX });
        }
        if !items.iter().all(CompositeItem::is_read) {
            return Err(InvalidTransaction::Writes);
        }
        let got = vec![None; items.len()];
        let locked_until = Some(Time::NEVER);
        let phase = ReadPhase::Beginning;
        Ok(Self {
            items,
            got,
            phase,
            failures: 0,
            read_locked_until: locked_until,
            is_unconfirmed: false,
            was_read_locked: false,
        })
    }

    /// A read that does not make sure that its results are of one moment, but says whether they are.
    pub(crate) fn unconfirmed(items: Vec<CompositeItem>) -> Result<Self, InvalidTransaction> {
        Ok(Self { is_unconfirmed: true, ..Self::new(items)? })
    }

    pub(crate) fn bytes(&self) -> usize {
        CompositeItem::bytes_of(&self.items)
    }

    pub(crate) fn begin(&mut self, map: &ClusterMap, is_newest: bool) -> CompositeStep {
        match &mut self.phase {
            ReadPhase::Transaction { commit, .. } => commit.begin(map, is_newest),
            _ if self.items.is_empty() => CompositeStep::End(Ok(Reply::Many(Vec::new()))),
            _ => self.read_records((0..self.items.len()).collect()),
        }
    }

    pub(crate) fn ended(
        &mut self,
        (map, now): (&ClusterMap, Time),
        slot: u32,
        (result, locked_until): ItemResult,
    ) -> CompositeStep {
        match &mut self.phase {
            ReadPhase::Beginning => CompositeStep::Wait,
            ReadPhase::Fetching { left } => {
                *left -= 1;
                let is_last = *left == 0;
                let got = match result {
                    Ok(reply) => Ok(reply),
                    Err(SessionError::Answer { failure }) if is_record_failure(&failure) => Err(failure),
                    Err(error) => return CompositeStep::End(Err(error)),
                };
                if let Some(place) = self.got.get_mut(slot as usize) {
                    *place = Some(got);
                }
                self.read_locked_until =
                    self.read_locked_until.zip(locked_until).map(|(all, one)| all.min(one));
                if is_last { self.finish_unconfirmed(map, now) } else { CompositeStep::Wait }
            }
            ReadPhase::Confirming { left, changed } => {
                *left -= 1;
                match result {
                    Ok(Reply::Done { number: 1, .. }) => {}
                    Ok(_) => changed.push(slot as usize),
                    Err(error) => return CompositeStep::End(Err(error)),
                }
                if *left > 0 {
                    return CompositeStep::Wait;
                }
                let changed = std::mem::take(changed);
                self.all_confirmed(map, changed)
            }
            ReadPhase::Transaction { commit, is_check } => {
                let is_check = *is_check;
                match commit.ended(slot, result) {
                    CompositeStep::End(result) => self.transacted(result, is_check),
                    step => step,
                }
            }
        }
    }

    pub(crate) fn releases(&mut self, has_failed: bool) -> Vec<ItemRequest> {
        match &mut self.phase {
            ReadPhase::Transaction { commit, .. } => commit.releases(has_failed),
            _ => Vec::new(),
        }
    }

    /// Whether a part was read again, and whether it ran as a transaction in the end.
    pub(super) fn path(&self) -> CompositePath {
        match self.phase {
            ReadPhase::Transaction { .. } => CompositePath::Transacted,
            _ if self.failures > 0 => CompositePath::ReadAgain,
            _ if self.was_read_locked => CompositePath::ReadLocked,
            _ if self.is_unconfirmed => CompositePath::Unconfirmed,
            _ => CompositePath::Confirmed,
        }
    }

    /// Reads these records.
    fn read_records(&mut self, which: Vec<usize>) -> CompositeStep {
        self.phase = ReadPhase::Fetching { left: which.len() };
        // A record that has just changed gets no read lock.
        let wants_read_lock = self.failures == 0 && self.items.len() > 1;
        let sending = |at: usize| {
            let item = &self.items[at];
            let sending = in_shared_frame(at, record(item.keyspace, item.packed.clone()));
            let collecting = if is_long(item) { Coalescing::Never } else { sending.collecting };
            ItemRequest { collecting, wants_read_lock, ..sending }
        };
        CompositeStep::Send(which.into_iter().map(sending).collect())
    }

    fn finish_unconfirmed(&mut self, map: &ClusterMap, now: Time) -> CompositeStep {
        let is_in_time =
            is_planted(Bug::ExpiredReadLockUsed) || self.read_locked_until.is_some_and(|until| now < until);
        self.was_read_locked = self.failures == 0 && self.read_locked_until.is_some() && is_in_time;
        if self.was_read_locked || self.is_unconfirmed {
            return self.end();
        }
        // A single item was true at one moment.
        if self.items.len() == 1 || is_planted(Bug::ConfirmingRoundSkipped) {
            return self.end();
        }
        let is_versioned = self.got.iter().all(|got| version_of(got.as_ref()).is_some());
        if self.failures < CONFIRMS_MAX && is_versioned { self.confirm() } else { self.transact(map) }
    }

    fn confirm(&mut self) -> CompositeStep {
        let mut sendings = Vec::with_capacity(self.items.len());
        for (at, item) in self.items.iter().enumerate() {
            let version = version_of(self.got[at].as_ref()).unwrap_or_default();
            match packed(item.key(), Query::Confirm(Confirm { version })) {
                Ok(packed) => sendings.push(in_shared_frame(at, record(item.keyspace, packed))),
                Err(failure) => return CompositeStep::End(Err(SessionError::Answer { failure })),
            }
        }
        self.phase = ReadPhase::Confirming { left: sendings.len(), changed: Vec::new() };
        CompositeStep::Send(sendings)
    }

    fn all_confirmed(&mut self, map: &ClusterMap, changed: Vec<usize>) -> CompositeStep {
        if changed.is_empty() {
            return self.end();
        }
        self.failures += 1;
        if is_planted(Bug::ChangedRecordNotReread) {
            return self.end();
        }
        match self.failures >= CONFIRMS_MAX && self.is_short() {
            true => self.transact(map),
            false => self.read_records(changed),
        }
    }

    /// Continues as a transaction: of the reads themselves if their values are short, otherwise of checks of what was read.
    fn transact(&mut self, map: &ClusterMap) -> CompositeStep {
        let is_check = !self.is_short();
        let items = match is_check {
            false => Ok(self.items.clone()),
            true => self.items.iter().zip(&self.got).map(|(item, got)| checked(item, got.as_ref())).collect(),
        };
        match items.and_then(Commit::new) {
            Ok(commit) => {
                let mut commit = Box::new(commit);
                let step = commit.begin(map, false);
                self.phase = ReadPhase::Transaction { commit, is_check };
                step
            }
            Err(invalid) => CompositeStep::End(Err(SessionError::InvalidTransaction(invalid))),
        }
    }

    fn transacted(&mut self, result: Result<Reply, SessionError>, is_check: bool) -> CompositeStep {
        match result {
            Ok(Reply::Transacted { answers, .. }) if !is_check => {
                CompositeStep::End(Ok(Reply::Many(answers)))
            }
            Ok(_) => self.end(),
            Err(SessionError::Aborted { reason: AbortReason::ReadChanged, .. })
                if self.failures < CHECKS_MAX =>
            {
                self.failures += 1;
                self.read_records((0..self.items.len()).collect())
            }
            // The transaction has only reads, so an unknown outcome does no harm.
            Err(SessionError::Unknown { why }) => CompositeStep::End(Err(SessionError::Unread { why })),
            Err(error) => CompositeStep::End(Err(error)),
        }
    }

    fn end(&mut self) -> CompositeStep {
        let got = std::mem::take(&mut self.got);
        let answers = got.into_iter().map(|got| got.unwrap_or(Err(Failure::NotFound))).collect();
        CompositeStep::End(Ok(match self.is_unconfirmed {
            true => Reply::UnconfirmedReads {
                answers,
                is_one_moment: self.was_read_locked || self.items.len() == 1,
            },
            false => Reply::Many(answers),
        }))
    }

    fn is_short(&self) -> bool {
        let bytes = |reply: &Reply| match reply {
            Reply::Value { bytes, .. } => bytes.len(),
            Reply::Chunk { bytes, .. } => bytes.len(),
            Reply::List { values, .. } => values.iter().map(|value| value.len() + 4).sum(),
            _ => 0,
        };
        const ANSWER_BYTES: usize = 64;
        let all = self.got.iter().flatten().map(|got| ANSWER_BYTES + got.as_ref().map_or(0, bytes));
        all.sum::<usize>() <= SHARED_BYTES_MAX.max(ANSWER_BYTES * self.items.len())
    }
}

/// Errors that describe the record, and are therefore as good a result as its value.
fn is_record_failure(failure: &Failure<'_>) -> bool {
    matches!(failure, Failure::NotFound | Failure::WrongType { .. })
}

/// The version that was read; `None` if the record is absent, or if the result has no version.
fn version_of(got: Option<&Result<Reply, Failure<'static>>>) -> Option<Timestamp> {
    let reply = got?.as_ref().ok()?;
    Some(reply.version()).filter(|version| *version != Timestamp::ZERO)
}

/// The check of whether a record is unchanged, as an operation of a transaction.
fn checked(
    item: &CompositeItem,
    got: Option<&Result<Reply, Failure<'static>>>,
) -> Result<CompositeItem, InvalidTransaction> {
    // An error other than the record's absence has no version: the check is that the same error occurs again.
    let seen = match got {
        Some(Err(Failure::NotFound)) => Some(Timestamp::ZERO),
        got => version_of(got),
    };
    CompositeItem::new(
        item.keyspace,
        &RecordOperation::Read(RecordRead { key: item.key(), query: Query::Inspect }),
        seen,
    )
}

fn packed(key: &[u8], query: Query<'_>) -> Result<Bytes, Failure<'static>> {
    let mut bytes = Vec::new();
    pack(&RecordOperation::Read(RecordRead { key, query }), &mut bytes)?;
    Ok(bytes.into())
}

fn record(keyspace: KeyspaceId, item: Bytes) -> RequestKind {
    RequestKind::Record { keyspace, item, write: false, wait: false }
}

/// The operation shares a frame with all others of the same partition.
fn in_shared_frame(at: usize, query: RequestKind) -> ItemRequest {
    let collecting = Coalescing::Within(Collect { delay_us: 0, bytes: BODY_BYTES_MAX as u32 });
    ItemRequest { slot: at as u32, operation: query, collecting, wants_read_lock: false }
}

/// Whether the result is so long that the server should send it without a copy.
fn is_long(item: &CompositeItem) -> bool {
    match item.operation() {
        RecordOperation::Read(RecordRead { query: Query::ReadChunk(ReadChunk { length, .. }), .. }) => {
            length >= SEPARATE_PART_BYTES_MIN
        }
        _ => false,
    }
}
