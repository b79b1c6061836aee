//! Why a procedure ends without its result.

/// Why a procedure ends without its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectError {
    /// The bucket does not exist.
    NoSuchBucket,
    /// A bucket of this name exists.
    BucketExists,
    /// The bucket has objects.
    BucketNotEmpty,
    /// The object does not exist.
    NoSuchObject,
    /// The object has no such version.
    NoSuchVersion,
    /// The version is a delete marker, which has no contents.
    DeleteMarker,
    /// The upload does not exist: it was completed or aborted, or never created.
    NoSuchUpload,
    /// A condition of the caller does not hold.
    PreconditionFailed,
    /// A part that the completion names was not uploaded, or has another ETag.
    InvalidPart,
    /// The parts of a completion are not in ascending order.
    InvalidPartOrder,
    /// A part other than the last is too small.
    PartTooSmall,
    /// A range of the source of a copied part ends behind the source.
    InvalidRange,
    /// A checksum of the caller differs from that of the bytes.
    BadChecksum,
    /// The time for writing the body was over before the commit.
    BodyExpired,
    /// Other writers changed the same records in each attempt.
    Busy,
    /// A stored record has bytes that no version of this code writes.
    Corrupt(Vec<u8>),
    /// The store has no room, and nothing was written.
    NoRoom,
    /// The store refused, and nothing was written.
    Refused(String),
    /// The store did not answer. The write may have happened.
    Unavailable(String),
}

impl std::fmt::Display for ObjectError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::NoSuchBucket => "the bucket does not exist",
            Self::BucketExists => "a bucket of this name exists",
            Self::BucketNotEmpty => "the bucket has objects",
            Self::NoSuchObject => "the object does not exist",
            Self::NoSuchVersion => "the object has no such version",
            Self::DeleteMarker => "the version is a delete marker",
            Self::NoSuchUpload => "the upload does not exist",
            Self::PreconditionFailed => "a condition does not hold",
            Self::InvalidPart => "a named part was not uploaded, or has another ETag",
            Self::InvalidPartOrder => "the parts are not in ascending order",
            Self::PartTooSmall => "a part other than the last is too small",
            Self::InvalidRange => "the range ends behind the source",
            Self::BadChecksum => "a checksum differs from that of the bytes",
            Self::BodyExpired => "the body was not committed in time",
            Self::Busy => "other writers changed the same records in each attempt",
            Self::Corrupt(key) => {
                return write!(formatter, "the record of {:?} is corrupt", String::from_utf8_lossy(key));
            }
            Self::NoRoom => "the store has no room",
            Self::Refused(why) => return formatter.write_str(why),
            Self::Unavailable(why) => return write!(formatter, "the store is unavailable: {why}"),
        };
        formatter.write_str(text)
    }
}

impl std::error::Error for ObjectError {}

impl zerohop_layer_procedure::LayerError for ObjectError {
    fn busy() -> Self {
        Self::Busy
    }

    fn corrupt(key: Vec<u8>) -> Self {
        Self::Corrupt(key)
    }

    fn unavailable(why: String) -> Self {
        Self::Unavailable(why)
    }
}
