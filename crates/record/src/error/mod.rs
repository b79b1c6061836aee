//! Errors: what happened, to what, and what the client can do.
//!
//! An answer contains a [`Failure`] instead of an outcome (see [`crate::OperationAnswer`]). The encoders of this crate return the same
//! type, so that the error for a key that is too long is the same on client and server.

mod abort_reason;
mod auth_fault;
mod bad_request_reason;
mod failure;
mod parts;
mod permission;
mod sentence;

pub use abort_reason::AbortReason;
pub use auth_fault::AuthFault;
pub use bad_request_reason::BadRequestReason;
pub use failure::{Advice, Failure};
pub use parts::Parts;
pub use permission::Permission;

use crate::numbered;

numbered!(
    /// The number of a [`Failure`] on the wire: 1xx the request is invalid, 2xx the state of the record refuses it, 3xx another place or time, 4xx
    /// the server has a problem. Zero is success.
    ErrorCode: u16 {
        /// See [`Failure::BadRequest`].
        BadRequest = 100, "BadRequest";
        /// See [`Failure::UnsupportedVersion`].
        UnsupportedVersion = 101, "UnsupportedVersion";
        /// See [`Failure::UnknownKind`].
        UnknownKind = 102, "UnknownKind";
        /// See [`Failure::Corrupt`].
        Corrupt = 103, "Corrupt";
        /// See [`Failure::FrameTooLong`].
        FrameTooLong = 104, "FrameTooLong";
        /// See [`Failure::KeyTooLong`].
        KeyTooLong = 105, "KeyTooLong";
        /// See [`Failure::ValueTooLong`].
        ValueTooLong = 106, "ValueTooLong";
        /// See [`Failure::TooMany`].
        TooMany = 107, "TooMany";
        /// See [`Failure::AnswerTooLong`].
        AnswerTooLong = 108, "AnswerTooLong";
        /// See [`Failure::Unauthorized`].
        Unauthorized = 109, "Unauthorized";
        /// See [`Failure::UnknownKeyspace`].
        UnknownKeyspace = 110, "UnknownKeyspace";
        /// See [`Failure::AuthRequired`].
        AuthRequired = 111, "AuthRequired";
        /// See [`Failure::AuthFailed`].
        AuthFailed = 112, "AuthFailed";
        /// See [`Failure::OtherCluster`].
        OtherCluster = 113, "OtherCluster";
        /// See [`Failure::Forbidden`].
        Forbidden = 114, "Forbidden";
        /// See [`Failure::NotFound`].
        NotFound = 200, "NotFound";
        /// See [`Failure::WrongType`].
        WrongType = 201, "WrongType";
        /// See [`Failure::ConditionFailed`].
        ConditionFailed = 202, "ConditionFailed";
        /// See [`Failure::CompareFailed`].
        CompareFailed = 203, "CompareFailed";
        /// See [`Failure::NotANumber`].
        NotANumber = 204, "NotANumber";
        /// See [`Failure::Overflow`].
        Overflow = 205, "Overflow";
        /// See [`Failure::Aborted`].
        Aborted = 206, "Aborted";
        /// See [`Failure::StaleBlob`].
        StaleBlob = 210, "StaleBlob";
        /// See [`Failure::NeedHeader`].
        NeedHeader = 211, "NeedHeader";
        /// See [`Failure::WrongOwner`].
        WrongOwner = 300, "WrongOwner";
        /// See [`Failure::Busy`].
        Busy = 301, "Busy";
        /// See [`Failure::Unavailable`].
        Unavailable = 302, "Unavailable";
        /// See [`Failure::TooFewInSync`].
        TooFewInSync = 303, "TooFewInSync";
        /// See [`Failure::TimedOut`].
        TimedOut = 304, "TimedOut";
        /// See [`Failure::SessionExpired`].
        SessionExpired = 305, "SessionExpired";
        /// See [`Failure::ClockAhead`].
        ClockAhead = 306, "ClockAhead";
        /// See [`Failure::SnapshotExpired`].
        SnapshotExpired = 307, "SnapshotExpired";
        /// See [`Failure::HistoryGone`].
        HistoryGone = 308, "HistoryGone";
        /// See [`Failure::DiskFull`].
        DiskFull = 400, "DiskFull";
        /// See [`Failure::MemoryFull`].
        MemoryFull = 401, "MemoryFull";
        /// See [`Failure::DataCorrupt`].
        DataCorrupt = 402, "DataCorrupt";
        /// See [`Failure::DiskFailed`].
        DiskFailed = 403, "DiskFailed";
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable_and_distinct() {
        for pair in ErrorCode::ALL.windows(2) {
            assert!(pair[0].number() < pair[1].number());
        }
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_number(code.number()), Some(*code));
        }
        assert_eq!(ErrorCode::from_number(0), None);
    }
}
