//! Messages between partitions about a transaction, and their bytes.

use bytes::Bytes;
use zerohop_wire::ids::{LogIndex, Timestamp};

use crate::codec::{CodecError, CodecReader, CodecWriter, VERSION};
use crate::id::{Attempt, DecisionFloor, Durability, KeyspaceRange, RoutingKey, TransactionId};
use crate::item::TransactionPart;
use crate::limits::{ENCODED_BYTES_MAX, RESULT_BYTES_MAX};
use crate::reason::Refusal;

/// One message, from one partition to another. Each may be lost, late, overtaken and repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The receiver.
    pub to: RoutingKey,
    /// The sender.
    pub from: RoutingKey,
    /// The transaction.
    pub id: TransactionId,
    /// The content.
    pub what: TransactionMessage,
}

/// The content of a message. The first four come from the coordinator, or along the chain; the others go to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionMessage {
    /// Acquire all intents of the first part, and log the changes of its items.
    Prepare {
        /// The number of the attempt.
        attempt: Attempt,
        /// Queue if there is a conflict, and pass the rest on once prepared. Otherwise answer `Busy`.
        chain: bool,
        /// The durability of all entries of the transaction.
        durability: Durability,
        /// See [`DecisionFloor`].
        floor: DecisionFloor,
        /// The receiver's part; in a chain, also the following parts, without the coordinator's.
        parts: Vec<TransactionPart>,
    },
    /// The attempt and all lower ones have failed.
    Release {
        /// The attempt.
        attempt: Attempt,
        /// See [`DecisionFloor`].
        floor: DecisionFloor,
    },
    /// The transaction is decided: apply the prepared changes.
    Commit {
        /// The attempt that was decided.
        attempt: Attempt,
        /// The index of the receiver's `Prepare` that was decided.
        prepared: LogIndex,
        /// The commit timestamp.
        timestamp: Timestamp,
        /// The index of the decision.
        decision: LogIndex,
        /// The durability of the entry.
        durability: Durability,
        /// See [`DecisionFloor`].
        floor: DecisionFloor,
    },
    /// The transaction is aborted, or was finished long ago: drop all data of it.
    Drop {
        /// See [`DecisionFloor`].
        floor: DecisionFloor,
    },
    /// The intents are acquired, and the log entry is committed.
    Prepared {
        /// The number of the attempt.
        attempt: Attempt,
        /// The transaction may commit at this timestamp or later.
        proposal: Timestamp,
        /// The index of the log entry.
        prepared: LogIndex,
        /// The slice of the sender: all partitions that are split off from it later have the entry too.
        hash_range: KeyspaceRange,
        /// The results of its items.
        result: Bytes,
    },
    /// There is a conflict.
    Busy {
        /// The attempt.
        attempt: Attempt,
    },
    /// The part cannot be prepared.
    Refused {
        /// The number of the attempt.
        attempt: Attempt,
        /// The reason.
        refusal: Refusal,
    },
    /// This attempt and all lower ones hold nothing here.
    Released {
        /// The attempt.
        attempt: Attempt,
    },
    /// The decision is carried out, and logged.
    Applied {
        /// The index of the decision.
        decision: LogIndex,
        /// The slice in which it is carried out.
        hash_range: KeyspaceRange,
    },
    /// The prepared changes of a decision are not here, nor known to have been applied.
    NotPrepared {
        /// The index of the decision.
        decision: LogIndex,
        /// The slice in which they are missing.
        hash_range: KeyspaceRange,
    },
    /// A query for the outcome of the transaction.
    Query {
        /// The attempt that holds intents.
        attempt: Attempt,
    },
}

impl Message {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = CodecWriter { out: Vec::with_capacity(self.estimated_bytes()) };
        out.u8(VERSION);
        out.u8(self.what.kind());
        out.routing_key(self.to);
        out.routing_key(self.from);
        out.id(self.id);
        match &self.what {
            TransactionMessage::Prepare { attempt, chain, durability, floor, parts } => {
                out.attempt(*attempt);
                out.u8(u8::from(*chain));
                out.durability(*durability);
                out.floor(*floor);
                out.parts(parts);
            }
            TransactionMessage::Release { attempt, floor } => {
                out.attempt(*attempt);
                out.floor(*floor);
            }
            TransactionMessage::Commit { attempt, prepared, timestamp, decision, durability, floor } => {
                out.attempt(*attempt);
                out.u64(prepared.0);
                out.u64(timestamp.0);
                out.u64(decision.0);
                out.durability(*durability);
                out.floor(*floor);
            }
            TransactionMessage::Drop { floor } => out.floor(*floor),
            TransactionMessage::Prepared { attempt, proposal, prepared, hash_range, result } => {
                out.attempt(*attempt);
                out.u64(proposal.0);
                out.u64(prepared.0);
                out.hash_range(*hash_range);
                out.bytes(result);
            }
            TransactionMessage::Busy { attempt }
            | TransactionMessage::Released { attempt }
            | TransactionMessage::Query { attempt } => out.attempt(*attempt),
            TransactionMessage::Refused { attempt, refusal } => {
                out.attempt(*attempt);
                out.refusal(*refusal);
            }
            TransactionMessage::Applied { decision, hash_range }
            | TransactionMessage::NotPrepared { decision, hash_range } => {
                out.u64(decision.0);
                out.hash_range(*hash_range);
            }
        }
        out.out
    }

    /// An upper bound of its encoded length, and only a little above it.
    fn estimated_bytes(&self) -> usize {
        HEAD_BYTES
            + match &self.what {
                TransactionMessage::Prepare { parts, .. } => {
                    parts.iter().map(TransactionPart::estimated_bytes).sum()
                }
                TransactionMessage::Prepared { result, .. } => result.len(),
                _ => 0,
            }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// See [`CodecError`].
    pub fn decode(bytes: &[u8]) -> Result<Message, CodecError> {
        if bytes.len() > ENCODED_BYTES_MAX {
            return Err(CodecError::TooLong);
        }
        let mut from = CodecReader::new(bytes);
        let kind = match (from.u8(), from.u8()) {
            (Some(VERSION), Some(kind)) => kind,
            (Some(found), _) if found != VERSION => return Err(CodecError::Version { found }),
            _ => return Err(CodecError::Damaged),
        };
        if !(1..=11).contains(&kind) {
            return Err(CodecError::Kind { found: kind });
        }
        read(kind, &mut from).filter(|_| from.is_at_end()).ok_or(CodecError::Damaged)
    }
}

/// No message has more bytes, apart from its parts and results.
const HEAD_BYTES: usize = 168;

fn read(kind: u8, bytes: &mut CodecReader<'_>) -> Option<Message> {
    let (to, from, id) = (bytes.routing_key()?, bytes.routing_key()?, bytes.id()?);
    let what = match kind {
        1 => {
            let (attempt, chain, durability) = (bytes.attempt()?, bytes.u8()?, bytes.durability()?);
            (chain <= 1).then_some(())?;
            let (floor, parts) = (bytes.floor()?, bytes.parts()?);
            // A message whose first part is not the receiver's, or without parts, is invalid.
            parts.first().filter(|part| part.routing_key == to)?;
            TransactionMessage::Prepare { attempt, chain: chain == 1, durability, floor, parts }
        }
        2 => TransactionMessage::Release { attempt: bytes.attempt()?, floor: bytes.floor()? },
        3 => TransactionMessage::Commit {
            attempt: bytes.attempt()?,
            prepared: bytes.index()?,
            timestamp: bytes.timestamp()?,
            decision: bytes.index()?,
            durability: bytes.durability()?,
            floor: bytes.floor()?,
        },
        4 => TransactionMessage::Drop { floor: bytes.floor()? },
        5 => TransactionMessage::Prepared {
            attempt: bytes.attempt()?,
            proposal: bytes.timestamp()?,
            prepared: bytes.index()?,
            hash_range: bytes.hash_range()?,
            result: bytes.bytes(RESULT_BYTES_MAX)?,
        },
        6 => TransactionMessage::Busy { attempt: bytes.attempt()? },
        7 => TransactionMessage::Refused { attempt: bytes.attempt()?, refusal: bytes.refusal()? },
        8 => TransactionMessage::Released { attempt: bytes.attempt()? },
        9 => TransactionMessage::Applied { decision: bytes.index()?, hash_range: bytes.hash_range()? },
        10 => TransactionMessage::NotPrepared { decision: bytes.index()?, hash_range: bytes.hash_range()? },
        _ => TransactionMessage::Query { attempt: bytes.attempt()? },
    };
    Some(Message { to, from, id, what })
}

impl TransactionMessage {
    /// The number of its kind in the encoding.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            TransactionMessage::Prepare { .. } => 1,
            TransactionMessage::Release { .. } => 2,
            TransactionMessage::Commit { .. } => 3,
            TransactionMessage::Drop { .. } => 4,
            TransactionMessage::Prepared { .. } => 5,
            TransactionMessage::Busy { .. } => 6,
            TransactionMessage::Refused { .. } => 7,
            TransactionMessage::Released { .. } => 8,
            TransactionMessage::Applied { .. } => 9,
            TransactionMessage::NotPrepared { .. } => 10,
            TransactionMessage::Query { .. } => 11,
        }
    }

    /// The coordinator's floor, in a message of a coordinator.
    pub(crate) fn floor(&self) -> Option<DecisionFloor> {
        match self {
            TransactionMessage::Prepare { floor, .. }
            | TransactionMessage::Release { floor, .. }
            | TransactionMessage::Commit { floor, .. }
            | TransactionMessage::Drop { floor } => Some(*floor),
            _ => None,
        }
    }
}
