//! A transaction, from its operations to its outcome.

use zerohop_placement::ClusterMap;
use zerohop_transaction::Place;
use zerohop_transaction::limits::{ITEMS_MAX, TRANSACTION_BYTES_MAX};
use zerohop_wire::ids::MapEpoch;
use zerohop_wire::{AbortReason, Failure};

use super::item::Item;
use super::plan::{NoPlan, Plan};
use super::unfit::Unfit;
use super::{Sending, Step};
use crate::error::{Error, Trouble};
use crate::limits::REPLANS_MAX;
use crate::planted::{Bug, is_planted};
use crate::reply::Reply;
use crate::request::{Ask, Collecting, Pointed};

/// A transaction on its way.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    items: Vec<Item>,
    plan: Option<Plan>,
    phase: Phase,
    /// The map by which the plan was made.
    epoch: MapEpoch,
    /// How often it had to be planned anew.
    replans: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Planning,
    /// So many operations are not staged yet.
    Pieces(usize),
    /// So many lists are not staged yet.
    Lists(usize),
    Deciding,
}

impl Commit {
    pub(crate) fn new(items: Vec<Item>) -> Result<Self, Unfit> {
        if items.is_empty() {
            return Err(Unfit::Empty);
        }
        if items.len() > ITEMS_MAX {
            return Err(Unfit::Items { count: items.len(), limit: ITEMS_MAX });
        }
        let (length, limit) = (items.iter().map(|item| item.length() as u64).sum(), TRANSACTION_BYTES_MAX);
        if length > limit {
            return Err(Unfit::Bytes { length, limit });
        }
        Ok(Self { items, plan: None, phase: Phase::Planning, epoch: MapEpoch(0), replans: 0 })
    }

    pub(crate) fn bytes(&self) -> usize {
        Item::bytes_of(&self.items)
    }

    /// Plans by this map. The plan's transaction is another than any that was sent before, all of which were aborted.
    pub(crate) fn begin(&mut self, map: &ClusterMap, is_newest: bool) -> Step {
        let is_same = self.replans > 0 && map.epoch() == self.epoch;
        if map.epoch() == MapEpoch(0) || (is_same && !is_newest) {
            return Step::AwaitMap;
        }
        self.epoch = map.epoch();
        match Plan::of(map, &self.items) {
            Ok(plan) => {
                let pieces = plan.pieces();
                self.plan = Some(plan);
                self.phase = Phase::Pieces(pieces.len());
                if pieces.is_empty() { self.stage_lists() } else { stage(pieces) }
            }
            Err(NoPlan::Keyspace(keyspace)) if is_newest => {
                Step::End(Err(Error::Answer { failure: Failure::UnknownKeyspace { keyspace } }))
            }
            Err(NoPlan::Keyspace(_)) => Step::AwaitMap,
            Err(NoPlan::Unfit(unfit)) => Step::End(Err(Error::Unfit(unfit))),
        }
    }

    pub(crate) fn ended(&mut self, slot: u32, result: Result<Reply, Error>) -> Step {
        match (self.phase, result) {
            (Phase::Pieces(left), Ok(Reply::Staged(id))) => {
                if let Some(plan) = &mut self.plan {
                    plan.piece_is_staged(slot as usize, id);
                }
                self.phase = Phase::Pieces(left - 1);
                if left > 1 { Step::Wait } else { self.stage_lists() }
            }
            (Phase::Lists(left), Ok(Reply::Staged(id))) => {
                if let Some(plan) = &mut self.plan {
                    plan.list_is_staged(slot as usize, id);
                }
                self.phase = Phase::Lists(left - 1);
                if left > 1 { Step::Wait } else { self.transact() }
            }
            (Phase::Deciding, Ok(Reply::Transacted { version, answers })) => {
                match self.in_callers_order(answers) {
                    Some(answers) => Step::End(Ok(Reply::Transacted { version, answers })),
                    // It was done, and what it brought cannot be had.
                    None => Step::End(Err(Error::Unknown { why: Box::new(Trouble::Damaged) })),
                }
            }
            (Phase::Deciding, Ok(_)) => Step::End(Err(Error::Unknown { why: Box::new(Trouble::Damaged) })),
            (_, Err(Error::Answer { failure: Failure::Aborted { reason, part, item } })) => {
                self.aborted(reason, part, item)
            }
            (Phase::Pieces(_) | Phase::Lists(_), Err(Error::Unknown { why })) => {
                Step::End(Err(Error::Unstaged { why }))
            }
            (_, Err(error)) => Step::End(Err(error)),
            // Of a plan before this one.
            (_, Ok(_)) => Step::Wait,
        }
    }

    fn stage_lists(&mut self) -> Step {
        let lists = self.plan.as_ref().map(Plan::lists).unwrap_or_default();
        self.phase = Phase::Lists(lists.len());
        if lists.is_empty() { self.transact() } else { stage(lists) }
    }

    fn transact(&mut self) -> Step {
        self.phase = Phase::Deciding;
        let Some((decider, bytes)) = self.plan.as_ref().and_then(Plan::encoded) else {
            return Step::End(Err(Error::Unfit(Unfit::Empty)));
        };
        let Place { keyspace, point } = decider;
        let ask = Ask::Point { keyspace, point, what: Pointed::Transact, bytes };
        Step::Send(vec![Sending { slot: 0, ask, collecting: Collecting::Never, hold: false }])
    }

    /// Nothing was done: what only an older map or a slow staging was to blame for goes again as another transaction.
    fn aborted(&mut self, reason: AbortReason, part: u32, item: u32) -> Step {
        // What the caller has staged is not here to be staged again.
        let has_all = reason != AbortReason::StagedGone || !self.items.iter().any(Item::is_ahead);
        let may_go_again = has_all && matches!(reason, AbortReason::Misplaced | AbortReason::StagedGone);
        if may_go_again && self.phase == Phase::Deciding && self.replans < REPLANS_MAX {
            self.replans += 1;
            self.phase = Phase::Planning;
            return Step::AwaitMap;
        }
        let item = match self.phase {
            Phase::Deciding => self.plan.as_ref().and_then(|plan| plan.item(part, item)),
            _ => None,
        };
        Step::End(Err(Error::Aborted { reason, item }))
    }

    fn in_callers_order<V>(&self, answers: Vec<V>) -> Option<Vec<V>> {
        let plan = self.plan.as_ref().filter(|_| answers.len() == self.items.len())?;
        if is_planted(Bug::AnswersByPart) {
            return Some(answers);
        }
        let mut ordered: Vec<(usize, V)> = plan.order().zip(answers).collect();
        ordered.sort_by_key(|(number, _)| *number);
        Some(ordered.into_iter().map(|(_, answer)| answer).collect())
    }
}

fn stage(pieces: Vec<(Place, bytes::Bytes)>) -> Step {
    let send = |((place, bytes), slot): ((Place, bytes::Bytes), u32)| {
        let Place { keyspace, point } = place;
        let ask = Ask::Point { keyspace, point, what: Pointed::Stage, bytes };
        Sending { slot, ask, collecting: Collecting::Never, hold: false }
    };
    Step::Send(pieces.into_iter().zip(0..).map(send).collect())
}
