//! Errors for bytes that are not a valid map.

use std::fmt;

use zerohop_wire::ids::PartitionId;

use crate::keyspace::{ConfigError, NameError};
use crate::limits::MAP_BYTES_MAX;
use crate::map::{AddressError, GroupFault, MapError};
use crate::partitions::PartitionCountError;

/// The reason why bytes are neither a map nor a delta. The receiver fetches the complete map from another node, and reports the sender: a correct
/// program does not send such bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A table of regions is not one that splits lead to.
    Regions,
    /// The bytes exceed the maximum size of a map.
    TooLong {
        /// Their number.
        bytes: usize,
    },
    /// The bytes do not begin with the magic number of a map.
    Magic,
    /// An unknown version of the format.
    Version {
        /// The version.
        found: u16,
    },
    /// A higher version than the contents need: each value has only one encoding.
    VersionNeeded {
        /// The version.
        found: u16,
    },
    /// A byte that must be zero is not.
    Reserved,
    /// The bytes end too early.
    Truncated {
        /// The offset at which more bytes were needed.
        at: usize,
    },
    /// Bytes follow the end of the map.
    Trailing {
        /// Their number.
        bytes: usize,
    },
    /// A count exceeds its limit.
    TooMany {
        /// The counted objects.
        what: &'static str,
        /// The count.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A number that has no meaning in this version.
    Unknown {
        /// The field.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// A text that is not UTF-8.
    Text {
        /// Its offset.
        at: usize,
    },
    /// The common values of placed groups are invalid.
    Placed {
        /// The reason.
        what: &'static str,
    },
    /// Groups of a run are invalid, or a delta has another form than its changes need.
    Run {
        /// The reason.
        what: &'static str,
    },
    /// A token without permissions, or with grants out of order.
    Token,
    /// An invalid number of partitions.
    Partitions(PartitionCountError),
    /// An invalid name of a keyspace.
    Name(NameError),
    /// An invalid configuration.
    Config(ConfigError),
    /// An invalid address.
    Address(AddressError),
    /// An invalid replica group.
    Group {
        /// The partition, of a new keyspace or of the keyspace in a change.
        partition: PartitionId,
        /// The reason.
        fault: GroupFault,
    },
    /// The encoding is valid, but the contents violate a rule of maps.
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
                write!(f, "the header has version {found}, but the contents need another version")
            }
            Self::Reserved => f.write_str("a byte that must be zero is not"),
            Self::Truncated { at } => write!(f, "it ends at byte {at}, in the middle of something"),
            Self::Trailing { bytes } => write!(f, "{bytes} bytes follow its end"),
            Self::TooMany { what, count, limit } => write!(f, "{count} {what}, of at most {limit}"),
            Self::Unknown { what, number } => write!(f, "{number} is no {what}"),
            Self::Token => f.write_str("a token permits nothing, or a keyspace twice"),
            Self::Text { at } => write!(f, "the text at byte {at} is not UTF-8"),
            Self::Regions => f.write_str("regions that no splits lead to"),
            Self::Placed { what } => write!(f, "groups that cannot be placed so: {what}"),
            Self::Run { what } => write!(f, "many groups that change at once: {what}"),
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
