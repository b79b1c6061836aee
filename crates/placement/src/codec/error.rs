//! Why bytes are no map.

use std::fmt;

use zerohop_wire::ids::PartitionId;

use crate::keyspace::{ConfigError, NameError};
use crate::limits::MAP_BYTES_MAX;
use crate::map::{AddressError, GroupFault, MapError};
use crate::partitions::PartitionCountError;

/// Why bytes are no map and no delta. Whoever gets this fetches the map whole from another node, and reports the
/// sender: sound programs do not send such bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// More bytes than any map has.
    TooLong {
        /// How many.
        bytes: usize,
    },
    /// It does not begin like a map.
    Magic,
    /// Another version of the format.
    Version {
        /// Which.
        found: u16,
    },
    /// Another version than what is said needs: one value, one form.
    VersionNeeded {
        /// Which.
        found: u16,
    },
    /// A byte that must be zero is not.
    Reserved,
    /// The bytes end too early.
    Cut {
        /// Where more was needed.
        at: usize,
    },
    /// Bytes are left over.
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// A count beyond its limit.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A number that this version gives no meaning.
    Unknown {
        /// What it numbers.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// A text that is not UTF-8.
    Text {
        /// Where it begins.
        at: usize,
    },
    /// Groups are not placed so.
    Placed {
        /// Why not.
        what: &'static str,
    },
    /// A token permits nothing, or grants are out of order.
    Token,
    /// Not a number of partitions.
    Partitions(PartitionCountError),
    /// Not a name of a keyspace.
    Name(NameError),
    /// Not a valid configuration.
    Config(ConfigError),
    /// Not an address.
    Address(AddressError),
    /// Not a replica group.
    Group {
        /// The partition; of a new keyspace, or of the one that a change names.
        partition: PartitionId,
        /// Why.
        fault: GroupFault,
    },
    /// It reads well and breaks a rule of maps.
    Map(Box<MapError>),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cluster map cannot be read: ")?;
        match self {
            Self::TooLong { bytes } => write!(f, "it has {bytes} bytes, of at most {MAP_BYTES_MAX}"),
            Self::Magic => f.write_str("it does not begin with ZHMD"),
            Self::Version { found } => {
                write!(
                    f,
                    "it is of version {found}, and this program reads 1 to 5: use the same release everywhere"
                )
            }
            Self::VersionNeeded { found } => {
                write!(f, "it says that it is of version {found}, and what follows needs another")
            }
            Self::Reserved => f.write_str("a byte that must be zero is not"),
            Self::Cut { at } => write!(f, "it ends at byte {at}, in the middle of something"),
            Self::Trailing { bytes } => write!(f, "{bytes} bytes follow its end"),
            Self::TooMany { what, count, limit } => write!(f, "{count} {what}, of at most {limit}"),
            Self::Unknown { what, number } => write!(f, "{number} is no {what}"),
            Self::Token => f.write_str("a token permits nothing, or a keyspace twice"),
            Self::Text { at } => write!(f, "the text at byte {at} is not UTF-8"),
            Self::Placed { what } => write!(f, "groups that cannot be placed so: {what}"),
            Self::Partitions(error) => error.fmt(f),
            Self::Name(error) => error.fmt(f),
            Self::Config(error) => error.fmt(f),
            Self::Address(error) => error.fmt(f),
            Self::Group { partition, fault } => write!(f, "the group of partition {partition} {fault}"),
            Self::Map(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<MapError> for DecodeError {
    fn from(error: MapError) -> DecodeError {
        DecodeError::Map(Box::new(error))
    }
}
