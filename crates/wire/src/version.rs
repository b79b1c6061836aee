//! Which version and which features a connection uses.
//!
//! `Hello`, `HelloAck` and an answer `UnsupportedVersion` are always frames of version 1, and their first fields never
//! move: so any two programs, however far apart, can at least tell each other that they do not understand.

use crate::error::Failure;
use crate::limits::{VERSION_MAX, VERSION_MIN};

/// The version of the frames in which the two sides agree on a version.
pub const GREETING_VERSION: u8 = 1;

/// What a connection may use beyond its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// Bodies may be compressed with LZ4.
    pub const LZ4: Self = Self(1);

    /// Who connects is an instance, and will send what instances tell each other: on no other connection is that taken.
    pub const PEER: Self = Self(2);

    /// Who connects is a manager, and what follows the greeting is what managers tell each other.
    pub const AGENT: Self = Self(4);

    /// Requests may be gathered in one frame, and so may answers.
    pub const GATHER: Self = Self(8);

    /// Requests may ask that what they read is held, and answers say for how long it is.
    pub const HOLD: Self = Self(16);

    /// Digests may be asked for that go over contents too.
    pub const CONTENTS: Self = Self(32);

    /// Whether all features of `other` are in.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those that both have. A feature that one side does not know is not used.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// The version for a connection to a client that speaks `min` to `max`: the newest that both speak. Errors:
/// `UnsupportedVersion` with what this program speaks, to be sent before the connection is closed.
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
        assert_eq!(choose_version(1, 1), Ok(1));
        assert_eq!(choose_version(0, 200), Ok(VERSION_MAX));
        let ours = Failure::UnsupportedVersion { min: VERSION_MIN, max: VERSION_MAX };
        assert_eq!(choose_version(0, 0), Err(ours.clone()));
        assert_eq!(choose_version(VERSION_MAX + 1, 9), Err(ours.clone()));
        assert_eq!(choose_version(2, 1), Err(ours));
    }

    #[test]
    fn features_that_one_side_does_not_know_are_left_out() {
        assert_eq!(Features(0b101).common(Features(0b110)), Features(0b100));
        assert!(!Features(0).has(Features::LZ4));
    }
}
