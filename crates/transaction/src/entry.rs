//! What a partition logs of transactions, and its bytes.

use bytes::Bytes;
use zerohop_wire::ids::{LogIndex, Timestamp};

use crate::codec::{CodecError, CodecReader, CodecWriter, VERSION};
use crate::id::{Attempt, Durability, Floor, KeyspaceSlice, RoutingKey, StageId, TransactionId};
use crate::item::Access;
use crate::limits::{
    EFFECT_BYTES_MAX, ENCODED_BYTES_MAX, FLOORS_MAX, ITEMS_MAX, PARTICIPANTS_MAX, RESULT_BYTES_MAX,
    STAGED_PIECE_BYTES_MAX, STAGED_PIECES_MAX,
};
use crate::reason::Refusal;

/// The version before: its decisions name no slices.
const WITHOUT_SPANS: u8 = 1;

/// No entry has more bytes without its lists and what the host gives.
const HEAD_BYTES: usize = 128;

/// Of the name of a staged piece.
const STAGE_BYTES: usize = 24;

/// Of a coordinator's floor.
const FLOOR_BYTES: usize = 28;

/// Who has prepared a transaction that is decided elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participant {
    /// By which name the coordinator has asked it.
    pub place: RoutingKey,
    /// Its slice when it answered. All who hold a part of that by now have prepared, and each is to hear of the decision.
    pub span: KeyspaceSlice,
    /// The index of its `Prepare`.
    pub prepared: LogIndex,
}

/// One log entry. What it does to the replicated state is in [`crate::ParticipantState::apply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEntry {
    /// Intents, and what will be done if the transaction commits.
    Prepare {
        /// Of which.
        id: TransactionId,
        /// Under which number.
        attempt: Attempt,
        /// By which name the coordinator knows this partition.
        place: RoutingKey,
        /// How durable the transaction's entries are.
        durability: Durability,
        /// It commits at this timestamp or later.
        proposal: Timestamp,
        /// Cells, each once, ascending, and how they are locked.
        locks: Vec<(u64, Access)>,
        /// Staged pieces that must not expire.
        pinned: Vec<StageId>,
        /// What to change, for the partition.
        effect: Bytes,
        /// What is returned.
        result: Bytes,
    },
    /// A prepared attempt has come to nothing.
    Release {
        /// Of which.
        id: TransactionId,
        /// It and all below.
        attempt: Attempt,
    },
    /// What was prepared is done.
    Apply {
        /// Which.
        id: TransactionId,
        /// The index of its `Prepare`.
        prepared: LogIndex,
        /// Its version.
        timestamp: Timestamp,
        /// The index of the decision in the coordinator's log.
        decision: LogIndex,
    },
    /// The decision. This entry is the transaction.
    Commit {
        /// Which.
        id: TransactionId,
        /// Under which number all have prepared.
        attempt: Attempt,
        /// Its version.
        timestamp: Timestamp,
        /// How durable its entries are.
        durability: Durability,
        /// The others, in order.
        participants: Vec<Participant>,
        /// Staged pieces of the coordinator's own part.
        pinned: Vec<StageId>,
        /// What to change here.
        effect: Bytes,
        /// What the items return, by part.
        results: Vec<Bytes>,
    },
    /// The decision not to do it.
    Abort {
        /// Which.
        id: TransactionId,
        /// Who refused it.
        by: RoutingKey,
        /// Why.
        refusal: Refusal,
    },
    /// All participants have acknowledged the decision.
    Finish {
        /// Which.
        id: TransactionId,
    },
    /// What is below this floor was finished by its coordinator.
    Forget {
        /// See [`Floor`].
        floor: Floor,
    },
    /// The same of several coordinators.
    ForgetAll {
        /// See [`Floor`].
        floors: Vec<Floor>,
    },
    /// Bytes for a transaction to come.
    Stage {
        /// By which name it refers to them.
        id: StageId,
        /// The bytes.
        bytes: Bytes,
    },
    /// A piece for a transaction to come, whose bytes the partition keeps as a record: it is written, and removed, as one unit
    /// with the entry that says so.
    Hold {
        /// By which name it refers to them.
        id: StageId,
        /// How many bytes.
        bytes: u64,
    },
    /// These are not waited for any more.
    Expire {
        /// Which.
        ids: Vec<StageId>,
    },
}

impl TransactionEntry {
    /// The entry as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(&mut out);
        out
    }

    /// Appends it to bytes, for which room is made once.
    pub fn encode_into(&self, to: &mut Vec<u8>) {
        to.reserve(self.bytes_about());
        let mut out = CodecWriter { out: std::mem::take(to) };
        out.u8(VERSION);
        out.u8(self.kind());
        match self {
            TransactionEntry::Prepare {
                id,
                attempt,
                place,
                durability,
                proposal,
                locks,
                pinned,
                effect,
                result,
            } => {
                out.id(*id);
                out.attempt(*attempt);
                out.place(*place);
                out.durability(*durability);
                out.u64(proposal.0);
                out.count(locks.len());
                for (cell, access) in locks {
                    out.u64(*cell);
                    out.access(*access);
                }
                out.stages(pinned);
                out.bytes(effect);
                out.bytes(result);
            }
            TransactionEntry::Release { id, attempt } => {
                out.id(*id);
                out.attempt(*attempt);
            }
            TransactionEntry::Apply { id, prepared, timestamp, decision } => {
                out.id(*id);
                out.u64(prepared.0);
                out.u64(timestamp.0);
                out.u64(decision.0);
            }
            TransactionEntry::Commit {
                id,
                attempt,
                timestamp,
                durability,
                participants,
                pinned,
                effect,
                results,
            } => {
                out.id(*id);
                out.attempt(*attempt);
                out.u64(timestamp.0);
                out.durability(*durability);
                out.count(participants.len());
                for Participant { place, span, prepared } in participants {
                    out.place(*place);
                    out.span(*span);
                    out.u64(prepared.0);
                }
                out.stages(pinned);
                out.bytes(effect);
                out.count(results.len());
                results.iter().for_each(|result| out.bytes(result));
            }
            TransactionEntry::Abort { id, by, refusal } => {
                out.id(*id);
                out.place(*by);
                out.refusal(*refusal);
            }
            TransactionEntry::Finish { id } => out.id(*id),
            TransactionEntry::Forget { floor } => out.floor(*floor),
            TransactionEntry::ForgetAll { floors } => {
                out.count(floors.len());
                floors.iter().for_each(|floor| out.floor(*floor));
            }
            TransactionEntry::Stage { id, bytes } => {
                out.stage(*id);
                out.bytes(bytes);
            }
            TransactionEntry::Expire { ids } => out.stages(ids),
            TransactionEntry::Hold { id, bytes } => {
                out.stage(*id);
                out.u64(*bytes);
            }
        }
        *to = out.out;
    }

    /// Not less than it has as bytes, and little more.
    #[must_use]
    pub fn bytes_about(&self) -> usize {
        HEAD_BYTES
            + match self {
                TransactionEntry::Prepare { locks, pinned, effect, result, .. } => {
                    locks.len() * 10 + pinned.len() * STAGE_BYTES + effect.len() + result.len()
                }
                TransactionEntry::Commit { participants, pinned, effect, results, .. } => {
                    let results = results.iter().map(|one| size_of::<u32>() + one.len()).sum::<usize>();
                    participants.len() * 40 + pinned.len() * STAGE_BYTES + effect.len() + results
                }
                TransactionEntry::Stage { bytes, .. } => bytes.len(),
                TransactionEntry::Expire { ids } => ids.len() * STAGE_BYTES,
                TransactionEntry::ForgetAll { floors } => floors.len() * FLOOR_BYTES,
                _ => 0,
            }
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// See [`CodecError`].
    pub fn decode(bytes: &[u8]) -> Result<TransactionEntry, CodecError> {
        if bytes.len() > ENCODED_BYTES_MAX {
            return Err(CodecError::TooLong);
        }
        let mut from = CodecReader::new(bytes);
        let (version, kind) = match (from.u8(), from.u8()) {
            (Some(version @ (VERSION | WITHOUT_SPANS)), Some(kind)) => (version, kind),
            (Some(VERSION | WITHOUT_SPANS) | None, _) => return Err(CodecError::Damaged),
            (Some(found), _) => return Err(CodecError::Version { found }),
        };
        if !(1..=11).contains(&kind) {
            return Err(CodecError::Kind { found: kind });
        }
        read((version, kind), &mut from).filter(|_| from.is_at_end()).ok_or(CodecError::Damaged)
    }

    /// The number by which it is stored.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            TransactionEntry::Prepare { .. } => 1,
            TransactionEntry::Release { .. } => 2,
            TransactionEntry::Apply { .. } => 3,
            TransactionEntry::Commit { .. } => 4,
            TransactionEntry::Abort { .. } => 5,
            TransactionEntry::Finish { .. } => 6,
            TransactionEntry::Forget { .. } => 7,
            TransactionEntry::Stage { .. } => 8,
            TransactionEntry::Expire { .. } => 9,
            TransactionEntry::Hold { .. } => 10,
            TransactionEntry::ForgetAll { .. } => 11,
        }
    }
}

fn participant(version: u8, from: &mut CodecReader<'_>) -> Option<Participant> {
    let place = from.place()?;
    let span = if version == WITHOUT_SPANS { KeyspaceSlice::of_one(place) } else { from.span()? };
    Some(Participant { place, span, prepared: from.index()? }).filter(|one| one.span.has(place))
}

fn read((version, kind): (u8, u8), from: &mut CodecReader<'_>) -> Option<TransactionEntry> {
    Some(match kind {
        1 => {
            let (id, attempt, place) = (from.id()?, from.attempt()?, from.place()?);
            let (durability, proposal) = (from.durability()?, from.timestamp()?);
            let locks = from.list((10, ITEMS_MAX), |from| Some((from.u64()?, from.access()?)))?;
            locks.is_sorted_by(|one, next| one.0 < next.0).then_some(())?;
            let pinned = from.stages(ITEMS_MAX + 1)?;
            let (effect, result) = (from.bytes(EFFECT_BYTES_MAX)?, from.bytes(RESULT_BYTES_MAX)?);
            TransactionEntry::Prepare {
                id,
                attempt,
                place,
                durability,
                proposal,
                locks,
                pinned,
                effect,
                result,
            }
        }
        2 => TransactionEntry::Release { id: from.id()?, attempt: from.attempt()? },
        3 => TransactionEntry::Apply {
            id: from.id()?,
            prepared: from.index()?,
            timestamp: from.timestamp()?,
            decision: from.index()?,
        },
        4 => {
            let (id, attempt, timestamp) = (from.id()?, from.attempt()?, from.timestamp()?);
            let durability = from.durability()?;
            let participants = from.list((20, PARTICIPANTS_MAX), |from| participant(version, from))?;
            let pinned = from.stages(ITEMS_MAX + 1)?;
            let effect = from.bytes(EFFECT_BYTES_MAX)?;
            let mut left = RESULT_BYTES_MAX;
            let results = from.list((4, PARTICIPANTS_MAX), |from| {
                let result = from.bytes(left)?;
                left -= result.len();
                Some(result)
            })?;
            TransactionEntry::Commit {
                id,
                attempt,
                timestamp,
                durability,
                participants,
                pinned,
                effect,
                results,
            }
        }
        5 => TransactionEntry::Abort { id: from.id()?, by: from.place()?, refusal: from.refusal()? },
        6 => TransactionEntry::Finish { id: from.id()? },
        7 => TransactionEntry::Forget { floor: from.floor()? },
        8 => TransactionEntry::Stage { id: from.stage()?, bytes: from.bytes(STAGED_PIECE_BYTES_MAX)? },
        9 => TransactionEntry::Expire { ids: from.stages(STAGED_PIECES_MAX)? },
        10 => {
            let (id, bytes) = (from.stage()?, from.u64()?);
            (bytes <= STAGED_PIECE_BYTES_MAX as u64).then_some(TransactionEntry::Hold { id, bytes })?
        }
        _ => {
            TransactionEntry::ForgetAll { floors: from.list((FLOOR_BYTES, FLOORS_MAX), CodecReader::floor)? }
        }
    })
}
