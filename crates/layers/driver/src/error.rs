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

impl From<&Error> for StoreError {
    fn from(error: &Error) -> Self {
        match error.reason() {
            Some(
                Reason::Answer {
                    failure: Failure::DiskFull | Failure::MemoryFull | Failure::FileSizeLimit { .. },
                }
                | Reason::Aborted { reason: AbortReason::NoRoom, .. },
            ) => Self::NoRoom,
            _ if error.is_unknown() || error.is_temporary() => Self::Unavailable(error.to_string()),
            _ => Self::Refused(error.to_string()),
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
    use zerohop_wire::Permission;
    use zerohop_wire::ids::KeyspaceId;

    use super::*;

    fn of(reason: Reason) -> StoreError {
        StoreError::from(Error::Operation { key: None, reason: Box::new(reason) })
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
