//! Ids: one newtype each, so that the compiler rejects a partition where a node is expected.
//!
//! All are plain integers on the wire, little-endian, in the width given here. `Display` prints only the number, so that a message can read
//! "partition 12 of keyspace 3".

use core::fmt;

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $int);

        impl $name {
            /// The id as the integer that is sent.
            #[must_use]
            pub const fn get(self) -> $int {
                self.0
            }
        }

        impl From<$int> for $name {
            fn from(value: $int) -> Self {
                Self(value)
            }
        }

        impl From<$name> for $int {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $int:ty) => {
        newtype!($(#[$doc])* $name, $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

macro_rules! counter {
    ($($name:ident),*) => {$(
        impl $name {
            /// The next number. It saturates: 2^64 of them are never reached, and it must never wrap to zero.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }
    )*};
}

id!(
    /// One `zerohop` process on one machine. Unique in a cluster, and never reused.
    NodeId,
    u32
);
id!(
    /// One thread of a node that has partitions. Unique in a cluster (not only in its node), and never reused.
    InstanceId,
    u32
);
id!(
    /// A keyspace. The control group assigns the id at creation and never reuses it, even after a drop. Zero means no keyspace: frames that do not
    /// concern a keyspace have it.
    KeyspaceId,
    u32
);
id!(
    /// A partition within its keyspace, from zero. Only together with a [`KeyspaceId`] it identifies a partition of the cluster.
    PartitionId,
    u32
);
id!(
    /// The version of the cluster map; every change increments it. Zero: no map is known yet.
    MapEpoch,
    u64
);
id!(
    /// The version of one partition's replica group; only the control group increments it. Zero: not known.
    PartitionEpoch,
    u64
);
id!(
    /// The position of an entry in its partition's log, from one. Zero: before the first.
    LogIndex,
    u64
);
id!(
    /// The number of a write within its session and partition, from one. Zero: the request has none.
    Sequence,
    u64
);
newtype!(
    /// A snapshot, the same in every partition that keeps it. The client that opens the snapshot draws the id.
    SnapshotId,
    u128
);
id!(
    /// Matches an answer to its request. The client chooses it, unique among the requests in flight on one connection. Frames that answer no
    /// request have zero.
    RequestId,
    u64
);
id!(
    /// A nonce drawn at the start of a process: a restarted process is a new member (ARCHITECTURE.md, "Replica groups").
    Incarnation,
    u64
);

counter!(MapEpoch, PartitionEpoch, LogIndex, Sequence, RequestId);

impl KeyspaceId {
    /// The id in frames that do not concern a keyspace.
    pub const NONE: Self = Self(0);
}

impl SnapshotId {
    /// The high 32 bits of the ids of snapshots that a long stream of a blob opens for itself.
    const STREAM_MARK: u128 = 0x7374_7265;

    /// The id for a snapshot of a stream, from a random number of which the high 32 bits do not matter.
    #[must_use]
    pub const fn for_stream(random: u128) -> Self {
        Self(Self::STREAM_MARK << 96 | random << 32 >> 32)
    }

    /// Whether a stream has opened the snapshot for itself: servers count these apart from the snapshots that programs open.
    #[must_use]
    pub const fn is_for_stream(self) -> bool {
        self.0 >> 96 == Self::STREAM_MARK
    }
}

newtype!(
    /// A hybrid-logical-clock time: milliseconds since 1970 in the upper 48 bits, a counter in the lower 16.
    ///
    /// Versions of records are such times. They order causally related events, whatever the clocks of their machines say (Kulkarni and others,
    /// "Logical Physical Clocks", 2014). The counter carries into the milliseconds when it overflows, which keeps the order. Zero is before
    /// everything and, as a version, means "no record".
    Timestamp,
    u64
);

/// Bits of a [`Timestamp`] that count events within one millisecond.
const COUNTER_BITS: u32 = 16;

impl Timestamp {
    /// Before every other time; as a version: no record.
    pub const ZERO: Self = Self(0);
    /// After every other time.
    pub const MAX: Self = Self(u64::MAX);
    /// The last millisecond that fits, in the year 10889.
    pub const MILLIS_MAX: u64 = (1 << (64 - COUNTER_BITS)) - 1;

    /// The first timestamp of a millisecond since 1970. Later values than [`Self::MILLIS_MAX`] are limited to that.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self::new(millis, 0)
    }

    /// A timestamp from its two parts. Later milliseconds than [`Self::MILLIS_MAX`] are limited to that.
    #[must_use]
    pub const fn new(millis: u64, counter: u16) -> Self {
        let millis = if millis > Self::MILLIS_MAX { Self::MILLIS_MAX } else { millis };
        Self(millis << COUNTER_BITS | counter as u64)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0 >> COUNTER_BITS
    }

    /// The counter within the millisecond.
    #[must_use]
    pub const fn counter(self) -> u16 {
        (self.0 & ((1 << COUNTER_BITS) - 1)) as u16
    }

    /// The smallest timestamp above this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A client's session, under which retries are recognized.
///
/// The id contains the server time of its issue, so that a partition can distinguish a session that it has forgotten from one that it has never
/// seen. An unknown session that was issued before the partition's eviction mark gets `SessionExpired`. Sessions are ordered by that time first.
/// Requests without a session have the all-zero id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// When the server issued it.
    pub issued: Timestamp,
    /// Distinguishes it from other sessions issued at the same time anywhere in the cluster.
    pub nonce: u64,
}

impl SessionId {
    /// The id in requests without a session: reads, and writes whose client accepts an unknown outcome.
    pub const NONE: Self = Self { issued: Timestamp::ZERO, nonce: 0 };

    /// Whether this is a session.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.issued.0 != 0 || self.nonce != 0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.millis(), self.counter())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.issued.0, self.nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_order_by_milliseconds_then_counter() {
        assert!(Timestamp::new(7, u16::MAX) < Timestamp::new(8, 0));
        assert!(Timestamp::new(7, 1) < Timestamp::new(7, 2));
        assert_eq!(Timestamp::new(7, u16::MAX).next(), Timestamp::new(8, 0));
        let t = Timestamp::new(1_700_000_000_123, 42);
        assert_eq!((t.millis(), t.counter()), (1_700_000_000_123, 42));
    }

    #[test]
    fn timestamps_at_the_end_of_time_do_not_wrap() {
        assert_eq!(Timestamp::from_millis(u64::MAX).millis(), Timestamp::MILLIS_MAX);
        assert_eq!(Timestamp::MAX.next(), Timestamp::MAX);
        assert_eq!(MapEpoch(u64::MAX).next(), MapEpoch(u64::MAX));
    }

    #[test]
    fn sessions_order_by_the_time_of_their_issue() {
        let early = SessionId { issued: Timestamp::from_millis(1), nonce: 9 };
        let late = SessionId { issued: Timestamp::from_millis(2), nonce: 0 };
        assert!(early < late && early.is_some() && !SessionId::NONE.is_some());
    }

    #[test]
    fn ids_print_as_bare_numbers() {
        assert_eq!(PartitionId(12).to_string(), "12");
        assert_eq!(Timestamp::new(5, 3).to_string(), "5.3");
        assert_eq!(SessionId { issued: Timestamp(1), nonce: 2 }.to_string().len(), 32);
    }
}
