//! One unit, from its bytes to its reply.

use zerohop_resp::{GatherStep, GatheredRecords, Scratch, Shares, Unit, error_reply, failure_reply};
use zerohop_session::SessionError as Reason;
use zerohop_session::procedures::{ClusterHandle, Error, Keyspace, Transaction};
use zerohop_wire::{AbortReason, Failure};

use super::records::{fetch, write};
use crate::planted::{Bug, is_planted};

/// Appends the reply to a unit that was not executed, or not completely.
pub fn refuse_unit(error: &Error, unit: &[u8], reply: &mut Vec<u8>) {
    append_error(error, may_write(unit), reply);
}

/// Whether the unit can change a record; bytes that are no unit change none.
fn may_write(unit: &[u8]) -> bool {
    Unit::decode(unit).is_ok_and(|unit| unit.may_write())
}

/// How soon a client may repeat a read that got no answer.
const READ_RETRY_MS: u32 = 100;

/// Appends the error for a Redis client: whether the outcome is unknown, and else whether to retry. A unit that only reads
/// leaves nothing in doubt.
fn append_error(error: &Error, may_write: bool, reply: &mut Vec<u8>) {
    if error.is_unknown() && !may_write {
        return failure_reply(&Failure::Unavailable { retry_after_ms: READ_RETRY_MS }, reply);
    }
    let aborted = match error {
        Error::Operation { reason, .. } => match **reason {
            Reason::Aborted { reason, .. } => Some(reason),
            _ => None,
        },
        _ => None,
    };
    match error.failure() {
        Some(failure) => failure_reply(failure, reply),
        None if error.is_unknown() => {
            failure_reply(&Failure::TimedOut { version: Default::default() }, reply)
        }
        None if aborted == Some(AbortReason::NoRoom) => error_reply(&format!("OOM {error}"), reply),
        None if error.is_temporary() => error_reply(&format!("TRYAGAIN {error}"), reply),
        None => {
            let invalid = match error {
                Error::Operation { reason, .. } => match &**reason {
                    Reason::InvalidTransaction(invalid) => Some(invalid),
                    _ => None,
                },
                _ => None,
            };
            match invalid {
                // The key is only that of the operation at which the limit was reached.
                Some(invalid) if invalid.is_of_whole() => {
                    error_reply(&format!("ERR {invalid}; nothing was done"), reply)
                }
                Some(_) => error_reply(&format!("ERR {error}; nothing was done"), reply),
                None => error_reply(&format!("ERR {error}"), reply),
            }
        }
    }
}

/// Executes a unit. `now_ms` is the time of day, by which the deadlines that clients give count.
pub(super) async fn run(
    client: &ClusterHandle,
    keyspace: &Keyspace,
    unit: &[u8],
    now_ms: &impl Fn() -> u64,
) -> Result<Vec<u8>, Error> {
    // The instance has sent these bytes; they are invalid only if its protocol version differs.
    let Ok(decoded) = Unit::decode(unit) else { return Err(Error::Unexpected) };
    let mut reply = Vec::new();
    let unit_may_write = decoded.may_write();
    match decoded.shares() {
        Shares::SingleStep => {
            let attempt = |transaction: Transaction| {
                let is_unchecked = unit_may_write && is_planted(Bug::FetchedRecordsUnchecked);
                let reads = if is_unchecked { client.begin() } else { transaction.clone() };
                attempt((reads, transaction), keyspace, unit, now_ms())
            };
            let run = || client.transaction(attempt);
            return match run().await {
                Err(error) if error.is_unknown() && is_planted(Bug::UnknownUnitRunAgain) => run().await,
                result => result,
            };
        }
        Shares::Refused(text) => error_reply(&text, &mut reply),
        Shares::Parts(units, mut joined) => {
            for unit in &units {
                let part = client.transaction(|transaction| {
                    attempt((transaction.clone(), transaction), keyspace, unit, now_ms())
                });
                let part = part.await;
                let part = part.unwrap_or_else(|error| {
                    let mut refusal = Vec::new();
                    append_error(&error, unit_may_write, &mut refusal);
                    refusal
                });
                if let Err(refusal) = joined.add_reply(&part) {
                    return Ok(refusal);
                }
            }
            joined.reply(decoded.protocol(), &mut reply);
        }
    }
    Ok(reply)
}

/// Executes the unit over the current records, which are read in the first handle of its transaction, and leaves the commit to the caller. It ends the
/// transaction if there is nothing to commit.
async fn attempt(
    (reads, transaction): (Transaction, Transaction),
    keyspace: &Keyspace,
    unit: &[u8],
    now_ms: u64,
) -> Result<Vec<u8>, Error> {
    let (mut gathered, mut scratch) = (GatheredRecords::default(), Scratch::default());
    let mut has_read = false;
    loop {
        let mut reply = Vec::new();
        // The instance has sent these bytes; they are invalid only if its protocol version differs.
        let Ok(unit) = Unit::decode(unit) else { return Err(Error::Unexpected) };
        let step = gathered.execute(&unit, now_ms, &mut scratch, &mut reply);
        match step {
            GatherStep::NeedsRecords(wants) => {
                has_read = true;
                for (key, found) in fetch(&reads, keyspace, wants).await? {
                    if let Err(too_much) = gathered.add_record(key, found) {
                        error_reply(&format!("ERR {too_much}"), &mut reply);
                        transaction.abort();
                        return Ok(reply);
                    }
                }
            }
            GatherStep::Done(changes) => {
                if changes.is_empty() && !has_read {
                    transaction.abort();
                } else {
                    write(&transaction, keyspace, &changes)?;
                }
                return Ok(reply);
            }
            GatherStep::Failed => {
                transaction.abort();
                return Ok(reply);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_session::AttemptFailure;

    use super::*;

    /// A unit of one command of RESP 2.
    fn unit(words: &[&str]) -> Vec<u8> {
        let mut bytes = vec![1, 0, 2, 0];
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        bytes
    }

    #[test]
    fn unknown_outcome_is_doubt_for_writes_only() {
        let why = AttemptFailure::ConnectionLost {
            address: "node:1".into(),
            kind: std::io::ErrorKind::ConnectionReset,
        };
        let error = Error::Operation { key: None, reason: Box::new(Reason::Unknown { why: Box::new(why) }) };
        for (words, start) in
            [(&["MGET", "a", "b"][..], "-TRYAGAIN"), (&["MSET", "a", "1", "b", "2"], "-ERR outcome unknown")]
        {
            let unit = unit(words);
            assert!(Unit::decode(&unit).is_ok(), "{words:?}");
            let mut reply = Vec::new();
            append_error(&error, may_write(&unit), &mut reply);
            assert!(reply.starts_with(start.as_bytes()), "{}", String::from_utf8_lossy(&reply));
        }
    }
}
