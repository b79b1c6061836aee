//! The rows of the reads, and what follows from them.

use super::{
    Confirm, CountBits, GetBit, Inspect, Lookup, LookupRange, OperationBody, OperationFacts, ReadChunk,
    ReadHead, ReadOperation, UpdateLock, Wait,
};
use crate::answer::OperationAnswer;
use crate::error::{BadRequestReason, Failure, Permission};
use crate::kind::FrameKind;
use crate::state::ReadableRecord;

/// The operation of a row: what its variant has, or the type without fields that has the variant's name.
macro_rules! operation {
    ($variant:ident) => {
        $variant
    };
    ($variant:ident $operation:ident) => {
        $operation
    };
}

macro_rules! reads {
    ($($variant:ident $(($operation:ident: $type:ty))?),* $(,)?) => {
        /// The kind of a read, one for each row of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Query<'a> {
            $(
                #[doc = concat!("See [`", stringify!($variant), "`](type@", stringify!($variant), ").")]
                $variant $(($type))?,
            )*
        }

        impl<'a> Query<'a> {
            /// The rows, in the order of their numbers.
            pub const TABLE: &'static [OperationFacts] = &[$(<$variant as ReadOperation<'static>>::FACTS),*];

            fn facts(&self) -> &'static OperationFacts {
                match self {
                    $(Self::$variant { .. } => &<$variant as ReadOperation<'static>>::FACTS,)*
                }
            }

            /// Whether a snapshot answers it.
            #[must_use]
            pub fn is_in_snapshots(&self) -> bool {
                match self {
                    $(Self::$variant { .. } => <$variant as ReadOperation<'_>>::IN_SNAPSHOT,)*
                }
            }

            /// Whether a transaction may have it.
            #[must_use]
            pub fn is_in_transactions(&self) -> bool {
                match self {
                    $(Self::$variant { .. } => <$variant as ReadOperation<'_>>::IN_TRANSACTION,)*
                }
            }

            /// Bytes of the payload, about.
            #[must_use]
            pub fn payload_bytes(&self) -> usize {
                match self {
                    $(Self::$variant $(($operation))? => operation!($variant $($operation)?).payload_bytes(),)*
                }
            }

            /// What it answers about the record of this key. `out` is empty, and stores the contents that the answer borrows.
            ///
            /// # Errors
            /// The record is absent, has another type, or cannot be read.
            #[inline]
            pub fn answer<'o>(
                &self,
                key: &[u8],
                record: &mut impl ReadableRecord,
                out: &'o mut Vec<u8>,
            ) -> OperationAnswer<'o> {
                match self {
                    $(Self::$variant $(($operation))? => operation!($variant $($operation)?).answer(key, record, out),)*
                }
            }

            pub(crate) fn put(&self, head: &ReadHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
                match self {
                    $(Self::$variant $(($operation))? => operation!($variant $($operation)?).put(head, out),)*
                }
            }

            pub(crate) fn decode(kind: FrameKind, body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
                match kind {
                    $(FrameKind::$variant => {
                        let (key, operation!($variant $($operation)?)) = <$variant as ReadOperation<'a>>::decode(body)?;
                        Ok((key, Self::$variant $(($operation))?))
                    })*
                    _ => Err(BadRequestReason::ItemKind.into()),
                }
            }
        }
    };
}

reads! {
    Lookup,
    LookupRange(operation: LookupRange),
    Inspect,
    GetBit(operation: GetBit),
    CountBits(operation: CountBits),
    Wait(operation: Wait<'a>),
    Confirm(operation: Confirm),
    ReadChunk(operation: ReadChunk),
    UpdateLock(operation: UpdateLock),
}

impl Query<'_> {
    /// The kind of its frames.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        self.facts().kind
    }

    /// The permissions that a token needs.
    #[must_use]
    pub fn needs(&self) -> &'static [Permission] {
        self.facts().needs
    }
}
