//! Version and features of a connection.
//!
//! `Hello`, `HelloAck` and an answer `UnsupportedVersion` are always frames of version 1, and the offsets of their first fields never change. Any
//! two programs can therefore at least report to each other that they have no common version.

use crate::error::Failure;
use crate::limits::{VERSION_MAX, VERSION_MIN};

/// The version of the frames with which the two sides agree on a version.
pub const GREETING_VERSION: u8 = 1;

/// Features of a connection beyond its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// Bodies may be compressed with LZ4.
    pub const LZ4: Self = Self(1);

    /// The client is an instance and sends messages between instances, which no other connection may send.
    pub const PEER: Self = Self(2);

    /// The client is a manager; messages between managers follow the greeting.
    pub const AGENT: Self = Self(4);

    /// The peer supports coalesced frames of requests and of answers.
    pub const COALESCED: Self = Self(8);

    /// Requests may ask for read locks with a time limit, and answers report their duration.
    pub const READ_LOCKS: Self = Self(16);

    /// Digests may include the contents of records.
    pub const CONTENTS: Self = Self(32);

    /// Whether all features of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The features that both have. A feature that one side does not know is not used.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// Chooses the version for a connection to a client that supports `min` to `max`: the newest that both support. Errors: `UnsupportedVersion` with
/// the versions of this program; the server sends it before it closes the connection.
pub const fn choose_version(min: u8, max: u8) -> Result<u8, Failure<'static>> {
    let newest = if max < VERSION_MAX { max } else { VERSION_MAX };
    if newest < min || newest < VERSION_MIN {
        return Err(Failure::UnsupportedVersion { min: VERSION_MIN, max: VERSION_MAX });
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_chosen() {
        assert_eq!(choose_version(1, VERSION_MAX), Ok(VERSION_MAX));
        assert_eq!(choose_version(0, 200), Ok(VERSION_MAX));
        let failure = Failure::UnsupportedVersion { min: VERSION_MIN, max: VERSION_MAX };
        assert_eq!(choose_version(0, VERSION_MIN - 1), Err(failure.clone()));
        assert_eq!(choose_version(VERSION_MAX + 1, 9), Err(failure.clone()));
        assert_eq!(choose_version(VERSION_MAX, VERSION_MAX - 1), Err(failure));
    }

    #[test]
    fn common_features_are_those_of_both_sides() {
        assert_eq!(Features(0b101).common(Features(0b110)), Features(0b100));
        assert!(!Features(0).has(Features::LZ4));
    }
}
