//! The commit of a transaction, from its operations to its outcome.

use zerohop_placement::ClusterMap;
use zerohop_transaction::codec::encode_release;
use zerohop_transaction::limits::{EXPIRED_PER_ENTRY_MAX, ITEMS_MAX, TRANSACTION_BYTES_MAX};
use zerohop_transaction::{RoutingKey, StageId};
use zerohop_wire::ids::{MapEpoch, Sequence};
use zerohop_wire::{AbortReason, Failure};

use super::item::CompositeItem;
use super::plan::{PlanFailure, TransactionPlan};
use super::{CompositeStep, ItemRequest};
use crate::coalescing::Coalescing;
use crate::error::{AttemptFailure, SessionError};
use crate::invalid_transaction::InvalidTransaction;
use crate::limits::REPLANS_MAX;
use crate::planted::{Bug, is_planted};
use crate::reply::Reply;
use crate::request_kind::{PointMessage, RequestKind};

/// A transaction in progress.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    items: Vec<CompositeItem>,
    plan: Option<TransactionPlan>,
    phase: CommitPhase,
    /// The epoch of the map that the plan uses.
    epoch: MapEpoch,
    /// How often it was planned again from one and the same map.
    replans: u32,
    /// The first failure to stage something: the commit ends with it once all other pieces are answered, and their ids known.
    staging_failure: Option<SessionError>,
    /// Pieces that the session has staged for plans that are given up.
    abandoned: Vec<(RoutingKey, StageId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitPhase {
    Planning,
    /// This many operations are not staged yet.
    Pieces(usize),
    /// This many lists are not staged yet.
    Lists(usize),
    Deciding,
}

impl Commit {
    pub(crate) fn new(items: Vec<CompositeItem>) -> Result<Self, InvalidTransaction> {
        if items.is_empty() {
            return Err(InvalidTransaction::Empty);
        }
        if items.len() > ITEMS_MAX {
            return Err(InvalidTransaction::Items { count: items.len(), limit: ITEMS_MAX });
        }
        let (length, limit) = (items.iter().map(|item| item.length() as u64).sum(), TRANSACTION_BYTES_MAX);
        if length > limit {
            return Err(InvalidTransaction::Bytes { length, limit });
        }
        Ok(Self {
            items,
            plan: None,
            phase: CommitPhase::Planning,
            epoch: MapEpoch(0),
            replans: 0,
            staging_failure: None,
            abandoned: Vec::new(),
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        CompositeItem::bytes_of(&self.items)
    }

    /// Makes a plan from this map. The plan gives the transaction a new id; all transactions sent before under other ids were aborted.
    pub(crate) fn begin(&mut self, map: &ClusterMap, is_newest: bool) -> CompositeStep {
        let is_same = self.replans > 0 && map.epoch() == self.epoch;
        if map.epoch() == MapEpoch(0) || (is_same && !is_newest) {
            return CompositeStep::AwaitMap;
        }
        if !is_same {
            // Each split makes an older map useless. Only the deadline limits how many splits a transaction follows.
            self.replans = 0;
        }
        self.epoch = map.epoch();
        match TransactionPlan::of(map, &self.items) {
            Ok(plan) => {
                let pieces = plan.pieces();
                self.abandon_plan();
                self.plan = Some(plan);
                self.phase = CommitPhase::Pieces(pieces.len());
                if pieces.is_empty() { self.stage_lists() } else { stage(pieces, PointMessage::StageItem) }
            }
            Err(PlanFailure::Keyspace(keyspace)) if is_newest => {
                CompositeStep::End(Err(SessionError::Answer {
                    failure: Failure::UnknownKeyspace { keyspace },
                }))
            }
            Err(PlanFailure::Keyspace(_)) => CompositeStep::AwaitMap,
            Err(PlanFailure::InvalidTransaction(invalid)) => {
                CompositeStep::End(Err(SessionError::InvalidTransaction(invalid)))
            }
        }
    }

    pub(crate) fn ended(&mut self, slot: u32, result: Result<Reply, SessionError>) -> CompositeStep {
        match (self.phase, result) {
            (
                CommitPhase::Pieces(left) | CommitPhase::Lists(left),
                result @ (Ok(Reply::Staged(_)) | Err(_)),
            ) => self.one_is_staged(left, slot as usize, result),
            (CommitPhase::Deciding, Ok(Reply::Transacted { version, answers })) => {
                match self.in_callers_order(answers) {
                    Some(answers) => CompositeStep::End(Ok(Reply::Transacted { version, answers })),
                    // The transaction was committed, but its result is not available.
                    None => CompositeStep::End(Err(SessionError::Unknown {
                        why: Box::new(AttemptFailure::Damaged),
                    })),
                }
            }
            (CommitPhase::Deciding, Ok(_)) => {
                CompositeStep::End(Err(SessionError::Unknown { why: Box::new(AttemptFailure::Damaged) }))
            }
            (_, Err(SessionError::Answer { failure: Failure::Aborted { reason, part, item } })) => {
                self.aborted(reason, part, item)
            }
            (_, Err(error)) => CompositeStep::End(Err(error)),
            // The reply belongs to an earlier plan.
            (_, Ok(_)) => CompositeStep::Wait,
        }
    }

    /// One of the `left` pieces, or lists, is staged or refused.
    fn one_is_staged(
        &mut self,
        left: usize,
        number: usize,
        result: Result<Reply, SessionError>,
    ) -> CompositeStep {
        let is_list = matches!(self.phase, CommitPhase::Lists(_));
        match result {
            Ok(Reply::Staged(id)) => {
                if let Some(plan) = &mut self.plan {
                    if is_list { plan.list_is_staged(number, id) } else { plan.piece_is_staged(number, id) }
                }
            }
            Ok(_) => {}
            Err(error) => self.is_not_staged(error),
        }
        if left > 1 {
            self.phase = if is_list { CommitPhase::Lists(left - 1) } else { CommitPhase::Pieces(left - 1) };
            return CompositeStep::Wait;
        }
        match self.staging_failure.take() {
            Some(error) => CompositeStep::End(Err(error)),
            None if is_list => self.transact(),
            None => self.stage_lists(),
        }
    }

    fn is_not_staged(&mut self, error: SessionError) {
        let error = match error {
            // Staged data is invisible, so a lost reply leaves no doubt about the transaction's effects.
            SessionError::Unknown { why } => SessionError::Unstaged { why },
            SessionError::Answer { failure: Failure::Aborted { reason, .. } } => {
                SessionError::Aborted { reason, item: None }
            }
            error => error,
        };
        self.staging_failure.get_or_insert(error);
    }

    /// Requests that end the pieces that the session has staged for this commit and that no transaction will use: all of them
    /// if it has `failed` without doubt, otherwise those of earlier plans.
    pub(crate) fn releases(&mut self, has_failed: bool) -> Vec<ItemRequest> {
        if has_failed {
            self.abandon_plan();
        }
        release(std::mem::take(&mut self.abandoned))
    }

    fn abandon_plan(&mut self) {
        if let Some(plan) = self.plan.take() {
            self.abandoned.extend(plan.into_staged());
        }
    }

    fn stage_lists(&mut self) -> CompositeStep {
        let lists = self.plan.as_ref().map(TransactionPlan::lists).unwrap_or_default();
        self.phase = CommitPhase::Lists(lists.len());
        if lists.is_empty() { self.transact() } else { stage(lists, PointMessage::Stage) }
    }

    fn transact(&mut self) -> CompositeStep {
        self.phase = CommitPhase::Deciding;
        let Some((coordinator, bytes)) = self.plan.as_ref().and_then(TransactionPlan::encoded) else {
            return CompositeStep::End(Err(SessionError::InvalidTransaction(InvalidTransaction::Empty)));
        };
        let RoutingKey { keyspace, point } = coordinator;
        let query = RequestKind::Point { keyspace, point, what: PointMessage::Transact, bytes };
        CompositeStep::Send(vec![ItemRequest {
            slot: 0,
            operation: query,
            collecting: Coalescing::Never,
            wants_read_lock: false,
        }])
    }

    /// Nothing was done. If an outdated map or slow staging was the only reason, the session retries the operations as a new transaction.
    fn aborted(&mut self, reason: AbortReason, part: u32, item: u32) -> CompositeStep {
        // The session cannot stage again what the caller has staged itself.
        let has_all = reason != AbortReason::StagedGone || !self.items.iter().any(CompositeItem::is_ahead);
        let may_go_again = has_all && matches!(reason, AbortReason::Misplaced | AbortReason::StagedGone);
        if may_go_again && self.phase == CommitPhase::Deciding && self.replans < REPLANS_MAX {
            self.replans += 1;
            self.phase = CommitPhase::Planning;
            return CompositeStep::AwaitMap;
        }
        let item = match self.phase {
            CommitPhase::Deciding => self.plan.as_ref().and_then(|plan| plan.item(part, item)),
            _ => None,
        };
        CompositeStep::End(Err(SessionError::Aborted { reason, item }))
    }

    fn in_callers_order<V>(&self, answers: Vec<V>) -> Option<Vec<V>> {
        let plan = self.plan.as_ref().filter(|_| answers.len() == self.items.len())?;
        if is_planted(Bug::ResultsInPartitionOrder) {
            return Some(answers);
        }
        let mut ordered: Vec<(usize, V)> = plan.order().zip(answers).collect();
        ordered.sort_by_key(|(number, _)| *number);
        Some(ordered.into_iter().map(|(_, answer)| answer).collect())
    }
}

/// One request for each partition and each [`EXPIRED_PER_ENTRY_MAX`] pieces.
fn release(mut pieces: Vec<(RoutingKey, StageId)>) -> Vec<ItemRequest> {
    pieces.sort_unstable();
    let of_partition = pieces.chunk_by(|(one, _), (other, _)| one == other);
    let requests = of_partition.flat_map(|pieces| pieces.chunks(EXPIRED_PER_ENTRY_MAX));
    let request = |pieces: &[(RoutingKey, StageId)]| {
        let RoutingKey { keyspace, point } = pieces[0].0;
        let sequences: Vec<Sequence> = pieces.iter().map(|(_, id)| id.sequence).collect();
        let bytes = encode_release(&sequences).into();
        let query = RequestKind::Point { keyspace, point, what: PointMessage::Stage, bytes };
        ItemRequest { slot: 0, operation: query, collecting: Coalescing::Never, wants_read_lock: false }
    };
    requests.map(request).collect()
}

fn stage(pieces: Vec<(RoutingKey, bytes::Bytes)>, what: PointMessage) -> CompositeStep {
    let send = |((place, bytes), slot): ((RoutingKey, bytes::Bytes), u32)| {
        let RoutingKey { keyspace, point } = place;
        let query = RequestKind::Point { keyspace, point, what, bytes };
        ItemRequest { slot, operation: query, collecting: Coalescing::Never, wants_read_lock: false }
    };
    CompositeStep::Send(pieces.into_iter().zip(0..).map(send).collect())
}
