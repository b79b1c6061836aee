//! The log entries of transactions, and their bytes.

use bytes::Bytes;
use zerohop_wire::ids::{LogIndex, Timestamp};

use crate::codec::{CodecError, CodecReader, CodecWriter, VERSION};
use crate::id::{Attempt, DecisionFloor, Durability, KeyspaceRange, RoutingKey, StageId, TransactionId};
use crate::item::Access;
use crate::limits::{
    EFFECT_BYTES_MAX, ENCODED_BYTES_MAX, FLOORS_MAX, ITEMS_MAX, PARTICIPANTS_MAX, RESULT_BYTES_MAX,
    STAGED_PIECE_BYTES_MAX, STAGED_PIECES_MAX,
};
use crate::reason::Refusal;

/// The version before: its decisions name no slices.
const VERSION_WITHOUT_RANGES: u8 = 1;

/// No entry has more bytes, apart from its lists and the host's data.
const HEAD_BYTES: usize = 128;

/// Bytes of the id of a staged piece.
const STAGE_BYTES: usize = 24;

/// Bytes of a coordinator's floor.
const FLOOR_BYTES: usize = 28;

/// A participant that has prepared a transaction which another partition decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participant {
    /// The routing key under which the coordinator has contacted it.
    pub routing_key: RoutingKey,
    /// Its slice when it answered. All partitions that own a part of that slice by now have prepared, and each must receive
    /// the decision.
    pub hash_range: KeyspaceRange,
    /// The index of its `Prepare`.
    pub prepared: LogIndex,
}

/// One log entry. [`crate::ParticipantState::apply`] defines its effect on the replicated state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEntry {
    /// Intents, and the changes that a commit will make.
    Prepare {
        /// The transaction.
        id: TransactionId,
        /// The number of the attempt.
        attempt: Attempt,
        /// The routing key under which the coordinator knows this partition.
        routing_key: RoutingKey,
        /// The durability of the transaction's entries.
        durability: Durability,
        /// The transaction commits at this timestamp or later.
        proposal: Timestamp,
        /// Lock keys, each once, ascending, and their access.
        locks: Vec<(u64, Access)>,
        /// Staged pieces that must not expire.
        pinned: Vec<StageId>,
        /// The changes, for the partition.
        effect: Bytes,
        /// The result for the client.
        result: Bytes,
    },
    /// A prepared attempt has failed.
    Release {
        /// The transaction.
        id: TransactionId,
        /// This attempt and all lower ones.
        attempt: Attempt,
    },
    /// The prepared changes are applied.
    Apply {
        /// The transaction.
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
        /// The transaction.
        id: TransactionId,
        /// The attempt under which all participants have prepared.
        attempt: Attempt,
        /// Its version.
        timestamp: Timestamp,
        /// The durability of its entries.
        durability: Durability,
        /// The other participants, in order.
        participants: Vec<Participant>,
        /// Staged pieces of the coordinator's own part.
        pinned: Vec<StageId>,
        /// The changes here.
        effect: Bytes,
        /// The results of the items, by part.
        results: Vec<Bytes>,
    },
    /// The decision to abort.
    Abort {
        /// The transaction.
        id: TransactionId,
        /// The partition that refused it.
        by: RoutingKey,
        /// The reason.
        refusal: Refusal,
    },
    /// All participants have acknowledged the decision.
    Finish {
        /// The transaction.
        id: TransactionId,
    },
    /// The coordinator has finished everything below this floor.
    DropBelow {
        /// See [`DecisionFloor`].
        floor: DecisionFloor,
    },
    /// The same for several coordinators.
    DropBelowAll {
        /// See [`DecisionFloor`].
        floors: Vec<DecisionFloor>,
    },
    /// Bytes for a later transaction.
    Stage {
        /// The id by which the transaction refers to them.
        id: StageId,
        /// The bytes.
        bytes: Bytes,
    },
    /// A piece for a later transaction, whose bytes the partition stores as a record. The record is written, and removed, in
    /// one atomic batch with the entry about it.
    StagePiece {
        /// The id by which the transaction refers to it.
        id: StageId,
        /// Its length in bytes.
        bytes: u64,
    },
    /// These staged pieces have expired.
    Expire {
        /// Their ids.
        ids: Vec<StageId>,
    },
}

impl TransactionEntry {
    /// Encodes the entry.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(&mut out);
        out
    }

    /// Appends the encoded entry to `to`, with a single reservation.
    pub fn encode_into(&self, to: &mut Vec<u8>) {
        to.reserve(self.estimated_bytes());
        let mut out = CodecWriter { out: std::mem::take(to) };
        out.u8(VERSION);
        out.u8(self.kind());
        match self {
            TransactionEntry::Prepare {
                id,
                attempt,
                routing_key: place,
                durability,
                proposal,
                locks,
                pinned,
                effect,
                result,
            } => {
                out.id(*id);
                out.attempt(*attempt);
                out.routing_key(*place);
                out.durability(*durability);
                out.u64(proposal.0);
                out.count(locks.len());
                for (lock_key, access) in locks {
                    out.u64(*lock_key);
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
                for Participant { routing_key: place, hash_range, prepared } in participants {
                    out.routing_key(*place);
                    out.hash_range(*hash_range);
                    out.u64(prepared.0);
                }
                out.stages(pinned);
                out.bytes(effect);
                out.count(results.len());
                results.iter().for_each(|result| out.bytes(result));
            }
            TransactionEntry::Abort { id, by, refusal } => {
                out.id(*id);
                out.routing_key(*by);
                out.refusal(*refusal);
            }
            TransactionEntry::Finish { id } => out.id(*id),
            TransactionEntry::DropBelow { floor } => out.floor(*floor),
            TransactionEntry::DropBelowAll { floors } => {
                out.count(floors.len());
                floors.iter().for_each(|floor| out.floor(*floor));
            }
            TransactionEntry::Stage { id, bytes } => {
                out.stage(*id);
                out.bytes(bytes);
            }
            TransactionEntry::Expire { ids } => out.stages(ids),
            TransactionEntry::StagePiece { id, bytes } => {
                out.stage(*id);
                out.u64(*bytes);
            }
        }
        *to = out.out;
    }

    /// An upper bound of its encoded length, and only a little above it.
    #[must_use]
    pub fn estimated_bytes(&self) -> usize {
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
                TransactionEntry::DropBelowAll { floors } => floors.len() * FLOOR_BYTES,
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
            (Some(version @ (VERSION | VERSION_WITHOUT_RANGES)), Some(kind)) => (version, kind),
            (Some(VERSION | VERSION_WITHOUT_RANGES) | None, _) => return Err(CodecError::Damaged),
            (Some(found), _) => return Err(CodecError::Version { found }),
        };
        if !(1..=11).contains(&kind) {
            return Err(CodecError::Kind { found: kind });
        }
        read((version, kind), &mut from).filter(|_| from.is_at_end()).ok_or(CodecError::Damaged)
    }

    /// The number of its kind in the encoding.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            TransactionEntry::Prepare { .. } => 1,
            TransactionEntry::Release { .. } => 2,
            TransactionEntry::Apply { .. } => 3,
            TransactionEntry::Commit { .. } => 4,
            TransactionEntry::Abort { .. } => 5,
            TransactionEntry::Finish { .. } => 6,
            TransactionEntry::DropBelow { .. } => 7,
            TransactionEntry::Stage { .. } => 8,
            TransactionEntry::Expire { .. } => 9,
            TransactionEntry::StagePiece { .. } => 10,
            TransactionEntry::DropBelowAll { .. } => 11,
        }
    }
}

fn participant(version: u8, from: &mut CodecReader<'_>) -> Option<Participant> {
    let place = from.routing_key()?;
    let hash_range =
        if version == VERSION_WITHOUT_RANGES { KeyspaceRange::of_one(place) } else { from.hash_range()? };
    Some(Participant { routing_key: place, hash_range, prepared: from.index()? })
        .filter(|one| one.hash_range.has(place))
}

fn read((version, kind): (u8, u8), from: &mut CodecReader<'_>) -> Option<TransactionEntry> {
    Some(match kind {
        1 => {
            let (id, attempt, place) = (from.id()?, from.attempt()?, from.routing_key()?);
            let (durability, proposal) = (from.durability()?, from.timestamp()?);
            let locks = from.list((10, ITEMS_MAX + 1), |from| Some((from.u64()?, from.access()?)))?;
            locks.is_sorted_by(|one, next| one.0 < next.0).then_some(())?;
            let pinned = from.stages(ITEMS_MAX + 1)?;
            let (effect, result) = (from.bytes(EFFECT_BYTES_MAX)?, from.bytes(RESULT_BYTES_MAX)?);
            TransactionEntry::Prepare {
                id,
                attempt,
                routing_key: place,
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
        5 => TransactionEntry::Abort { id: from.id()?, by: from.routing_key()?, refusal: from.refusal()? },
        6 => TransactionEntry::Finish { id: from.id()? },
        7 => TransactionEntry::DropBelow { floor: from.floor()? },
        8 => TransactionEntry::Stage { id: from.stage()?, bytes: from.bytes(STAGED_PIECE_BYTES_MAX)? },
        9 => TransactionEntry::Expire { ids: from.stages(STAGED_PIECES_MAX)? },
        10 => {
            let (id, bytes) = (from.stage()?, from.u64()?);
            (bytes <= STAGED_PIECE_BYTES_MAX as u64).then_some(TransactionEntry::StagePiece { id, bytes })?
        }
        _ => TransactionEntry::DropBelowAll {
            floors: from.list((FLOOR_BYTES, FLOORS_MAX), CodecReader::floor)?,
        },
    })
}
