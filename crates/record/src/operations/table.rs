//! The rows of the table, and what follows from them.

use super::{
    Append, CompareSwap, Expire, Extend, Increment, Insert, Remove, SetBit, Take, Trim, WriteBody, WriteHead,
};
use crate::blob_change::BlobChange;
use crate::error::{ErrorCode, Failure, Permission, What};
use crate::fields::FieldReader;
use crate::kind::Kind;
use crate::record::Condition;
use crate::state::{ApplyResult, RecordState};
use crate::transform::Transform;
use crate::write::RecordWrite;

/// The kind of log entry that an operation writes when it changes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// The complete contents.
    Put,
    /// The contents that come behind the present ones.
    Append,
    /// No contents: the record is removed.
    Remove,
    /// The place from which a list is kept.
    Trim,
    /// A mark with the new deadline.
    Mark,
}

/// What an operation declares. `docs/protocols/wire.md` has the same rows.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The kind of its frames, of class 02xx: its number and its name.
    pub kind: Kind,
    /// What the detail byte has.
    pub detail: &'static str,
    /// Its fields behind the first 16 bytes of a write, with their sizes in bytes.
    pub fields: &'static str,
    /// What comes behind the key.
    pub payload: &'static str,
    /// The outcome of a write that was done.
    pub answer: &'static str,
    /// The permissions that a token needs.
    pub needs: &'static [Permission],
    /// The entry that it writes.
    pub log: LogKind,
    /// The failures because of the record's state, beside those of its condition.
    pub errors: &'static [ErrorCode],
    /// The first version of the wire format that has it.
    pub since: u8,
}

/// An operation that may change a record.
pub trait WriteOperation<'a>: Copy {
    /// Its row in the table.
    const FACTS: Facts;

    /// Writes all but the last piece of the payload to `out`, and returns that piece.
    ///
    /// # Errors
    /// A limit is exceeded.
    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>>;

    /// Decodes key and operation.
    ///
    /// # Errors
    /// The bytes are not such an operation.
    fn decode(body: WriteBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>>;

    /// Bytes of the payload, about.
    fn payload_bytes(&self) -> usize {
        0
    }

    /// Whether what it does depends on the record at all, without a condition.
    fn depends_on_record(&self) -> bool {
        true
    }

    /// Operations of one class commute, and return nothing that depends on their order.
    fn commutes(&self) -> Option<u8> {
        None
    }

    /// What it does with a record.
    ///
    /// # Errors
    /// The record cannot be read, or memory is full: the write may be sent again.
    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a>;
}

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
            pub const TABLE: &'static [Facts] = &[$(<$variant as WriteOperation<'static>>::FACTS),*];

            /// The kind of its frames.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$variant(_) => Kind::$variant,)*
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

            fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
                match self {
                    $(Self::$variant(operation) => operation.put(head, out),)*
                    Self::Blob(change) => change.put(|detail| head.fields(detail), head.key, out),
                }
            }

            fn decode(kind: Kind, body: WriteBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
                match kind {
                    $(Kind::$variant => {
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

impl<'a> RecordWrite<'a> {
    /// The kind of its frames.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.change.kind()
    }

    /// Writes all but the last piece of the payload to `out`, and returns that piece.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        self.change.put(&WriteHead::new(self.key, self.condition)?, out)
    }

    /// Decodes the write of this kind that fills `body`.
    ///
    /// # Errors
    /// The bytes are not such a write.
    pub fn decode_body(kind: Kind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<16>::split(body)?;
        let key_len = fields.u32() as usize;
        let condition = fields.u8();
        let detail = fields.u8();
        fields.zeros(2);
        let condition = Condition::from_numbers(condition, fields.u64())?;
        fields.done()?;
        if kind.number() >> 8 != 0x02 {
            return Err(What::ItemKind.into());
        }
        let (key, change) = WriteChange::decode(kind, WriteBody { key_len, detail, rest })?;
        Ok(Self { key, condition, change })
    }
}
