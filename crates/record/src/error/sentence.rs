//! The text of a failure for people: what happened, to what, and what the user can do.

use std::fmt;

use super::Failure;
use crate::ids::KeyspaceId;
use crate::limits::{BLOB_ATTRIBUTES_BYTES_MAX, BLOB_NAME_BYTES_MAX, VERSION_MAX, VERSION_MIN};
use crate::plurals::{by_number, counted};

/// Versions of the protocol, as a sentence has them.
fn versions(min: u8, max: u8) -> String {
    if min == max { format!("version {min}") } else { format!("versions {min} to {max}") }
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadRequest { reason } => write!(f, "bad request: {reason}"),
            Self::UnsupportedVersion { min, max } => write!(
                f,
                "the other side speaks {} of the protocol, and this program {}: use programs of one version",
                versions(*min, *max),
                versions(VERSION_MIN, VERSION_MAX)
            ),
            Self::UnknownKind { kind } => write!(
                f,
                "the other side does not know messages of kind {kind:#06x}: it may be an older program"
            ),
            Self::Corrupt => f.write_str("the request was damaged on the way: send it again"),
            Self::FrameTooLong { length, limit } => write!(
                f,
                "a frame of {length} bytes is longer than {limit} bytes: split the batch, or use a blob for large data"
            ),
            // No limit of a key is equal to this limit.
            Self::KeyTooLong { length: 0, limit } if *limit as usize == BLOB_NAME_BYTES_MAX => {
                write!(f, "the name of the blob is empty: a name has 1 to {limit} bytes")
            }
            Self::KeyTooLong { length, limit } if *limit as usize == BLOB_NAME_BYTES_MAX => {
                write!(f, "the name of the blob has {length} bytes, {limit} are allowed: use a shorter name")
            }
            Self::KeyTooLong { length: 0, limit } => {
                write!(f, "the key is empty: a key has 1 to {limit} bytes")
            }
            Self::KeyTooLong { length, limit } => {
                write!(f, "the key has {length} bytes, {limit} are allowed: use a shorter key")
            }
            // No limit of a value is equal to this limit.
            Self::ValueTooLong { length, limit } if *limit as usize == BLOB_ATTRIBUTES_BYTES_MAX => {
                write!(f, "a blob's attributes have {length} bytes, {limit} are allowed: keep what is longer in the blob")
            }
            Self::ValueTooLong { length, limit } => {
                write!(f, "the value has {length} bytes, {limit} are allowed: use a blob for large data")
            }
            Self::TooMany { count, limit } => {
                write!(f, "{count} items in one request, {limit} are allowed: split it")
            }
            Self::AnswerTooLong { length } => write!(
                f,
                "an outcome of {length} bytes did not fit into the batch's answer: look it up by itself"
            ),
            Self::Unauthorized => {
                f.write_str("not permitted: give the cluster secret, or a token with this permission")
            }
            Self::UnknownKeyspace { keyspace } => write!(
                f,
                "there is no keyspace of this number any more ({keyspace}): open it again by its name, or create it with `zerohop keyspace \
                 create`"
            ),
            Self::AuthRequired => f.write_str(
                "the cluster has a secret: name its file with --secret-file or ZEROHOP_SECRET_FILE, or a \
                 token's, with --token-file or ZEROHOP_TOKEN_FILE",
            ),
            Self::AuthFailed { fault } => fault.fmt(f),
            Self::Forbidden { permission, keyspace: KeyspaceId::NONE } => write!(
                f,
                "the token does not permit this: it needs `{permission}` in all keyspaces; ask the cluster's administrator, \
                 or give the secret"
            ),
            Self::Forbidden { permission, keyspace } => write!(
                f,
                "the token does not permit this: it needs `{permission}` in keyspace {keyspace}; ask the cluster's \
                 administrator for one that has it"
            ),
            Self::OtherCluster => f.write_str(
                "a node of another cluster answers there: check the address, and the hosts or the name of the cluster",
            ),
            Self::NotFound => f.write_str("there is no record of this key"),
            Self::WrongType { found } => {
                write!(f, "the record is {found}: this operation works on another type")
            }
            Self::ConditionFailed { found: None, .. } => {
                f.write_str("the condition failed: there is no record of this key")
            }
            Self::ConditionFailed { version, found: Some(found) } => {
                write!(f, "the condition failed: the record is {found} at version {version}")
            }
            Self::CompareFailed { seen: None, .. } => {
                f.write_str("the comparison failed: there is no record of this key")
            }
            Self::CompareFailed { version, seen: Some(seen) } => write!(
                f,
                "the comparison failed: the record has another value, of {} bytes at version {version}",
                seen.len()
            ),
            Self::NotANumber => f.write_str("the record's value is not a decimal integer of 64 bits"),
            Self::Overflow => {
                f.write_str("the counter would leave the range of 64 signed bits; it is unchanged")
            }
            Self::Aborted { reason, .. } => write!(f, "the transaction was not done: {reason}"),
            Self::StaleBlob { .. } => f.write_str(
                "the blob was cut, or removed and made again, since its header was read: read it again",
            ),
            Self::NeedHeader => {
                f.write_str("there is no such chunk of this blob: read its header before making one")
            }
            Self::WrongOwner { epoch, .. } => write!(
                f,
                "the partition is served elsewhere: apply the changes to map epoch {epoch} and ask its owner"
            ),
            Self::Busy { retry_after_ms } => {
                write!(f, "the instance is overloaded: ask again in {} ms", pause_ms(*retry_after_ms))
            }
            Self::Unavailable { retry_after_ms } => {
                write!(
                    f,
                    "the partition cannot answer just now: ask again in {} ms",
                    pause_ms(*retry_after_ms)
                )
            }
            Self::TooFewInSync { in_sync, needed } => write!(
                f,
                "only {} {} in sync and a write needs {needed}: wait for nodes to return, or add some",
                counted(*in_sync, "copy"),
                by_number(*in_sync, "is", "are")
            ),
            Self::TimedOut { .. } => f.write_str(
                "the time-out passed: a wait found nothing; a write may be done, repeat it in the same session",
            ),
            Self::SessionExpired { mark } => write!(
                f,
                "the session is forgotten (all issued before {mark} are): open a new one, and repeat only what was \
                 never sent"
            ),
            Self::ClockAhead { ahead_ms } => write!(
                f,
                "the request's timestamp is {ahead_ms} ms ahead of the server: a clock is wrong, set it right"
            ),
            Self::SnapshotExpired => f.write_str(
                "the snapshot has ended: it was closed, not renewed in time, or the partition has failed over, moved or \
                 been split; open a new one",
            ),
            Self::HistoryGone { oldest } => write!(
                f,
                "changes behind the position are no longer kept: the oldest position of the partition is {oldest}. Read the records again, and \
                 watch from then on"
            ),
            Self::DiskFull => {
                f.write_str("the disk is full: writes are refused until records are removed, or space is added")
            }
            Self::FileSizeLimit { limit_bytes } => write!(
                f,
                "the write exceeds the node's limit of file sizes (`ulimit -f`, {limit_bytes} bytes). Start the node with a higher limit \
                 (`ulimit -f unlimited`; LimitFSIZE=infinity for systemd), or write less at once"
            ),
            Self::MemoryFull => {
                f.write_str("the memory budget is used up: remove records, or give the node more memory")
            }
            Self::DataCorrupt => f.write_str(
                "the stored bytes are damaged and no copy could repair them: restore the record from a backup",
            ),
            Self::DiskFailed => {
                f.write_str("the disk failed: see the node's log, and replace the disk")
            }
            Self::Other { code } => write!(
                f,
                "the server answers with error {code}, which this program is too old to know: bring it up to date"
            ),
        }
    }
}

/// The pause that the text names: a client that waits for 0 ms would loop, so no text says 0.
fn pause_ms(retry_after_ms: u32) -> u32 {
    retry_after_ms.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::BadRequestReason;

    #[test]
    fn error_messages_name_the_limits_and_the_remedy() {
        let long = Failure::KeyTooLong { length: 70_000, limit: 65_536 }.to_string();
        assert!(long.contains("70000") && long.contains("65536"), "{long}");
        let empty = Failure::KeyTooLong { length: 0, limit: 65_536 }.to_string();
        assert_eq!(empty, "the key is empty: a key has 1 to 65536 bytes");
        let limit = BLOB_NAME_BYTES_MAX as u32;
        assert_ne!(BLOB_NAME_BYTES_MAX, crate::limits::KEY_BYTES_MAX);
        let empty = Failure::KeyTooLong { length: 0, limit }.to_string();
        assert_eq!(empty, "the name of the blob is empty: a name has 1 to 4096 bytes");
        let long = Failure::KeyTooLong { length: 5000, limit }.to_string();
        assert_eq!(long, "the name of the blob has 5000 bytes, 4096 are allowed: use a shorter name");
        let pauses = [0, 1, 40].map(|retry_after_ms| Failure::Busy { retry_after_ms }.to_string());
        assert!(pauses[0].ends_with("ask again in 1 ms") && pauses[2].ends_with("in 40 ms"), "{pauses:?}");
        let unavailable = Failure::Unavailable { retry_after_ms: 0 }.to_string();
        assert!(unavailable.ends_with("ask again in 1 ms"), "{unavailable}");
        let limit = BLOB_ATTRIBUTES_BYTES_MAX as u32;
        let attributes = Failure::ValueTooLong { length: 40_000, limit }.to_string();
        assert!(attributes.contains("attributes have 40000 bytes, 32768"), "{attributes}");
        let older = Failure::UnsupportedVersion { min: 1, max: 1 }.to_string();
        let ours = format!("speaks version 1 of the protocol, and this program version {VERSION_MAX}:");
        assert!(older.contains(&ours), "{older}");
        let several = Failure::UnsupportedVersion { min: 3, max: 5 }.to_string();
        assert!(
            several.contains("versions 3 to 5") && several.contains(&VERSION_MAX.to_string()),
            "{several}"
        );
        let bad = Failure::from(BadRequestReason::Reserved).to_string();
        assert!(bad.starts_with("bad request: a byte that must be zero"), "{bad}");
    }
}
