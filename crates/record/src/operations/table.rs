//! The rows of the table, and what follows from them.

use super::{
    Append, CompareSwap, Expire, Extend, Increment, Insert, OperationBody, OperationFacts, Remove, SetBit,
    Take, Trim, WriteHead, WriteOperation,
};
use crate::blob_change::BlobChange;
use crate::error::{ErrorCode, Failure, Permission};
use crate::kind::FrameKind;
use crate::state::{ApplyResult, RecordState};
use crate::transform::Transform;

macro_rules! table {
    ($($variant:ident $(<$life:lifetime>)?),* $(,)?) => {
        /// The kind of a write, one for each row of the table, and those of blobs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum WriteChange<'a> {
            $(
                #[doc = concat!("See [`", stringify!($variant), "`].")]
                $variant($variant $(<$life>)?),
            )*
            /// A write of a blob's header, or of one of its chunks.
            Blob(BlobChange<'a>),
        }

        impl<'a> WriteChange<'a> {
            /// The rows, in the order of their numbers.
            pub const TABLE: &'static [OperationFacts] = &[$(<$variant as WriteOperation<'static>>::FACTS),*];

            /// The kind of its frames.
            #[must_use]
            pub fn kind(&self) -> FrameKind {
                match self {
                    $(Self::$variant(_) => FrameKind::$variant,)*
                    Self::Blob(change) => change.kind(),
                }
            }

            /// The permissions that a token needs.
            #[must_use]
            pub fn needs(&self) -> &'static [Permission] {
                match self {
                    $(Self::$variant(_) => <$variant as WriteOperation<'_>>::FACTS.needs,)*
                    Self::Blob(_) => &[Permission::Write],
                }
            }

            /// The failures that it declares, beside those of its condition; those of a write of a blob are the same for all kinds.
            #[must_use]
            pub fn errors(&self) -> &'static [ErrorCode] {
                match self {
                    $(Self::$variant(_) => <$variant as WriteOperation<'_>>::FACTS.errors,)*
                    Self::Blob(_) => &[ErrorCode::NotFound, ErrorCode::WrongType, ErrorCode::StaleBlob, ErrorCode::NeedHeader, ErrorCode::ValueTooLong],
                }
            }

            /// Bytes of the payload, about.
            #[must_use]
            pub fn payload_bytes(&self) -> usize {
                match self {
                    $(Self::$variant(operation) => operation.payload_bytes(),)*
                    Self::Blob(change) => change.payload_bytes(),
                }
            }

            /// Whether what it does depends on the record at all, without a condition.
            #[must_use]
            pub fn depends_on_record(&self) -> bool {
                match self {
                    $(Self::$variant(operation) => operation.depends_on_record(),)*
                    Self::Blob(_) => true,
                }
            }

            /// Writes of one class commute, and return nothing that depends on their order.
            #[must_use]
            pub fn commutes(&self) -> Option<u8> {
                match self {
                    $(Self::$variant(operation) => operation.commutes(),)*
                    Self::Blob(change) => change.commutes(),
                }
            }

            /// What it does with a record; `None` for a write of a blob, which only a partition applies.
            ///
            /// # Errors
            /// See [`WriteOperation::apply`].
            #[inline]
            pub fn apply(&self, record: &mut impl RecordState) -> Option<ApplyResult<'a>> {
                match self {
                    $(Self::$variant(operation) => Some(operation.apply(record)),)*
                    Self::Blob(_) => None,
                }
            }

            pub(crate) fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
                match self {
                    $(Self::$variant(operation) => operation.put(head, out),)*
                    Self::Blob(change) => change.put(|detail| head.fields(detail), head.key, out),
                }
            }

            pub(crate) fn decode(kind: FrameKind, body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
                match kind {
                    $(FrameKind::$variant => {
                        let (key, operation) = <$variant as WriteOperation<'a>>::decode(body)?;
                        Ok((key, Self::$variant(operation)))
                    })*
                    kind => {
                        let (key, change) = BlobChange::decode(kind, body)?;
                        Ok((key, Self::Blob(change)))
                    }
                }
            }
        }
    };
}

table! {
    Insert<'a>,
    Remove,
    Append<'a>,
    Extend<'a>,
    CompareSwap<'a>,
    Increment,
    SetBit,
    Expire,
    Trim,
    Transform,
    Take,
}
