//! Why the store did not carry out an effect.

use zerohop_client::{AbortReason, Error, Failure, Reason};
use zerohop_layer_procedure::RecordKey;

/// Why the store did not carry out an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The record of this key is not bytes.
    Corrupt(RecordKey),
    /// The store has no room, and nothing was written.
    NoRoom,
    /// The store refused, and would again: the client may not do this, or the keyspace is gone. Nothing was written.
    Refused(String),
    /// The store did not answer. A write may have happened.
    Unavailable(String),
}

/// Why a store refuses whose keyspace is dropped.
const DROPPED: &str = "the keyspace is dropped";

impl StoreError {
    /// Whether the keyspace is dropped, or is being dropped.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        matches!(self, Self::Refused(why) if why == DROPPED)
    }
}

/// The reason of an error without the key, which only the layer can read, and without advice: whether something was changed depends
/// on other attempts too.
fn cause(error: &Error) -> String {
    match error.reason() {
        Some(Reason::Deadline { unreached: Some(unreached), .. }) => unreached.to_string(),
        Some(Reason::Deadline { waited_us, waiting, last, .. }) => {
            let last = last.as_ref().map(|last| format!(": {last}")).unwrap_or_default();
            format!("no answer in {} ms of waiting for {waiting}{last}", waited_us / 1000)
        }
        Some(Reason::PartitionLost { partition, .. }) => {
            format!("partition {partition} is lost: all nodes with an in-sync copy are down")
        }
        Some(Reason::Unknown { why } | Reason::Unstaged { why } | Reason::Unread { why }) => why.to_string(),
        Some(reason) => reason.to_string(),
        None => error.to_string(),
    }
}

impl From<&Error> for StoreError {
    fn from(error: &Error) -> Self {
        match error.reason() {
            Some(
                Reason::Answer {
                    failure: Failure::DiskFull | Failure::MemoryFull | Failure::FileSizeLimit { .. },
                }
                | Reason::Aborted { reason: AbortReason::NoRoom, .. },
            ) => Self::NoRoom,
            Some(Reason::Answer { failure: Failure::UnknownKeyspace { .. } }) => {
                Self::Refused(DROPPED.to_owned())
            }
            _ if error.is_unknown() || error.is_temporary() => Self::Unavailable(cause(error)),
            _ => Self::Refused(cause(error)),
        }
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

#[cfg(test)]
mod tests {
    use zerohop_client::{AttemptFailure, WaitReason};
    use zerohop_wire::Permission;
    use zerohop_wire::ids::KeyspaceId;

    use super::*;

    fn of(reason: Reason) -> StoreError {
        StoreError::from(Error::Operation { key: Some(b"\0\0\0\x01"[..].into()), reason: Box::new(reason) })
    }

    #[test]
    fn missing_answer_has_a_cause_without_key_and_advice() {
        let waiting = WaitReason::Map;
        let late = of(Reason::Deadline { waited_us: 5_000_000, waiting, last: None, unreached: None });
        let text = "no answer in 5000 ms of waiting for the cluster's map";
        assert_eq!(late, StoreError::Unavailable(text.to_owned()));
        let unknown = of(Reason::Unknown { why: Box::new(AttemptFailure::Overdue) });
        assert_eq!(unknown, StoreError::Unavailable("no answer came in time".to_owned()));
    }

    #[test]
    fn dropped_keyspace_is_recognized() {
        let dropped = of(Reason::Answer { failure: Failure::UnknownKeyspace { keyspace: KeyspaceId(7) } });
        assert!(dropped.is_dropped(), "{dropped:?}");
        assert!(!of(Reason::Closed).is_dropped());
    }

    #[test]
    fn missing_room_is_reported_by_partitions_and_by_coordinators() {
        for failure in [Failure::DiskFull, Failure::MemoryFull] {
            assert_eq!(of(Reason::Answer { failure }), StoreError::NoRoom);
        }
        assert_eq!(of(Reason::Aborted { reason: AbortReason::NoRoom, item: None }), StoreError::NoRoom);
        let other = of(Reason::Aborted { reason: AbortReason::TimedOut, item: None });
        assert!(matches!(other, StoreError::Unavailable(_)), "{other:?}");
    }

    #[test]
    fn missing_permission_leaves_no_doubt() {
        let failure = Failure::Forbidden { permission: Permission::Write, keyspace: KeyspaceId(7) };
        let refused = of(Reason::Answer { failure });
        assert!(matches!(refused, StoreError::Refused(_)), "{refused:?}");
    }
}
