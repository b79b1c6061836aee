//! Writes of a record.
//!
//! Every write begins with the same 16 bytes, so that conditions on presence and version work the same for all of them:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | key length |
//! | 4 | 1 | condition |
//! | 5 | 1 | detail, per kind |
//! | 6 | 2 | zero |
//! | 8 | 8 | version of the condition |
//!
//! The fields of the kind, the key, and the payload follow.

use super::blob::BlobChange;
use super::record::{Condition, Expiry, Range, check_key, check_value};
use super::transform::Transform;
use crate::elements::Elements;
use crate::error::{Failure, What};
use crate::fields::{FieldReader, layout, nothing_left, split};
use crate::kind::Kind;
use crate::limits::BIT_OFFSET_MAX;

/// One write of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordWrite<'a> {
    /// The key of the record.
    pub key: &'a [u8],
    /// The condition; if it does not hold, the answer is `ConditionFailed` and nothing changes.
    pub condition: Condition,
    /// The change.
    pub change: WriteChange<'a>,
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteChange<'a> {
    /// Sets the record to these bytes, whatever it was before. Answers `Done`, number 0.
    Insert {
        /// The bytes.
        value: &'a [u8],
        /// When the record expires.
        expiry: Expiry,
    },
    /// Removes the record, of any type. Answers `Done`, number 1 if it existed, 0 if not.
    Remove,
    /// Appends values to the end of a list, which is created if the record is absent. Answers `Done`, number: its new length.
    Append {
        /// The values, at most `APPEND_VALUES_MAX`.
        values: Elements<'a, &'a [u8]>,
    },
    /// Appends bytes to the end of a bytes record, which is created if it is absent. Answers `Done`, number: its new length.
    Extend {
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Replaces the value if it equals the expected one; a record that existed keeps its expiry. Answers `Done`, number 0, or `CompareFailed` with
    /// the present value.
    CompareSwap {
        /// The expected value; `None`: the record is absent.
        expected: Option<&'a [u8]>,
        /// The new value; `None`: remove the record.
        new: Option<&'a [u8]>,
    },
    /// Adds to the decimal number in the record, or to 0 if the record is absent. Answers `Counter`.
    Increment {
        /// The number to add.
        delta: i64,
    },
    /// Sets or clears one bit, most significant bit of byte 0 first, and extends the record with zeros as needed. Answers `Done`, number: the old
    /// bit.
    SetBit {
        /// Offset of the bit, at most `BIT_OFFSET_MAX`.
        offset: u64,
        /// The new bit.
        on: bool,
    },
    /// Changes when the record expires. Answers `Done`, number 0, or `NotFound`.
    Expire {
        /// The new expiry.
        expiry: Expiry,
    },
    /// Keeps this part of a list and drops the rest; an empty part removes the record. Answers `Done`, number: the remaining length; `NotFound` if
    /// the record is absent.
    Trim {
        /// The part to keep.
        keep: Range,
    },
    /// Changes one number inside a bytes record, and extends the record with zeros as needed. Answers `Done`, number: the old or new bits, or 0.
    Transform(Transform),
    /// A write of a blob's header, or of one of its chunks.
    Blob(BlobChange<'a>),
}

const EXPECTED_PRESENT: u8 = 1;
const NEW_PRESENT: u8 = 2;

impl<'a> RecordWrite<'a> {
    pub(crate) fn kind(&self) -> Kind {
        match self.change {
            WriteChange::Insert { .. } => Kind::Insert,
            WriteChange::Remove => Kind::Remove,
            WriteChange::Append { .. } => Kind::Append,
            WriteChange::Extend { .. } => Kind::Extend,
            WriteChange::CompareSwap { .. } => Kind::CompareSwap,
            WriteChange::Increment { .. } => Kind::Increment,
            WriteChange::SetBit { .. } => Kind::SetBit,
            WriteChange::Expire { .. } => Kind::Expire,
            WriteChange::Trim { .. } => Kind::Trim,
            WriteChange::Transform(_) => Kind::Transform,
            WriteChange::Blob(change) => change.kind(),
        }
    }

    /// Writes all but the last piece of the payload to `out`, and returns that piece.
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let key_len = check_key(self.key)?;
        let (condition, version) = self.condition.numbers();
        let open = |detail: u8| -> [u8; 16] {
            layout(|to| to.u32(key_len).u8(condition).u8(detail).zeros(2).u64(version))
        };
        let plain = open(0);
        Ok(match self.change {
            WriteChange::Insert { value, expiry } => {
                check_value(value)?;
                let (mode, ms) = expiry.check()?;
                let fields: [u8; 24] = layout(|to| to.bytes(open(mode)).u64(ms));
                out.extend_from_slice(&fields);
                out.extend_from_slice(self.key);
                value
            }
            WriteChange::Remove => {
                out.extend_from_slice(&plain);
                self.key
            }
            WriteChange::Append { values } => {
                let fields: [u8; 24] = layout(|to| to.bytes(plain).u32(values.count()).zeros(4));
                out.extend_from_slice(&fields);
                out.extend_from_slice(self.key);
                values.put(out)?
            }
            WriteChange::Extend { bytes } => {
                check_value(bytes)?;
                out.extend_from_slice(&plain);
                out.extend_from_slice(self.key);
                bytes
            }
            WriteChange::CompareSwap { expected, new } => {
                let expected_len = check_value(expected.unwrap_or_default())?;
                check_value(new.unwrap_or_default())?;
                let detail =
                    u8::from(expected.is_some()) * EXPECTED_PRESENT + u8::from(new.is_some()) * NEW_PRESENT;
                let fields: [u8; 24] = layout(|to| to.bytes(open(detail)).u32(expected_len).zeros(4));
                out.extend_from_slice(&fields);
                out.extend_from_slice(self.key);
                out.extend_from_slice(expected.unwrap_or_default());
                new.unwrap_or_default()
            }
            WriteChange::Increment { delta } => {
                let fields: [u8; 24] = layout(|to| to.bytes(plain).i64(delta));
                out.extend_from_slice(&fields);
                self.key
            }
            WriteChange::SetBit { offset, on } => {
                check_bit(offset)?;
                let fields: [u8; 24] = layout(|to| to.bytes(open(u8::from(on))).u64(offset));
                out.extend_from_slice(&fields);
                self.key
            }
            WriteChange::Expire { expiry } => {
                let (mode, ms) = expiry.check()?;
                let fields: [u8; 24] = layout(|to| to.bytes(open(mode)).u64(ms));
                out.extend_from_slice(&fields);
                self.key
            }
            WriteChange::Trim { keep } => {
                let fields: [u8; 32] = layout(|to| to.bytes(plain).i64(keep.start).i64(keep.stop));
                out.extend_from_slice(&fields);
                self.key
            }
            WriteChange::Blob(change) => return change.put(open, self.key, out),
            WriteChange::Transform(transform) => {
                transform.check()?;
                out.extend_from_slice(&open(transform.operator.number()));
                out.extend_from_slice(&transform.fields());
                self.key
            }
        })
    }

    /// Decodes the write of this kind that fills `body`.
    pub(crate) fn decode_body(kind: Kind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<16>::split(body)?;
        let key_len = fields.u32() as usize;
        let condition = fields.u8();
        let detail = fields.u8();
        fields.zeros(2);
        let condition = Condition::from_numbers(condition, fields.u64())?;
        fields.done()?;
        let with_key = |rest: &'a [u8]| -> Result<(&'a [u8], &'a [u8]), Failure<'static>> {
            let (key, payload) = split(rest, key_len)?;
            check_key(key)?;
            Ok((key, payload))
        };
        let (key, change) = match kind {
            Kind::Insert => {
                let (ms, rest) = one_u64(rest)?;
                let expiry = Expiry::from_numbers(detail, ms)?;
                let (key, value) = with_key(rest)?;
                check_value(value)?;
                return Ok(Self { key, condition, change: WriteChange::Insert { value, expiry } });
            }
            Kind::Append => {
                let (mut fields, rest) = FieldReader::<8>::split(rest)?;
                let count = fields.u32();
                fields.zeros(4);
                fields.done()?;
                let (key, payload) = with_key(rest)?;
                (key, WriteChange::Append { values: Elements::packed(count, payload)? })
            }
            Kind::Extend => {
                let (key, bytes) = with_key(rest)?;
                check_value(bytes)?;
                (key, WriteChange::Extend { bytes })
            }
            Kind::CompareSwap => return Self::decode_compare_swap(condition, detail, rest, with_key),
            Kind::SetBit => {
                let (offset, rest) = one_u64(rest)?;
                check_bit(offset)?;
                let key = only_key(with_key(rest)?)?;
                let on = match detail {
                    0 => false,
                    1 => true,
                    _ => return Err(What::Detail.into()),
                };
                return Ok(Self { key, condition, change: WriteChange::SetBit { offset, on } });
            }
            Kind::Expire => {
                let (ms, rest) = one_u64(rest)?;
                let expiry = Expiry::from_numbers(detail, ms)?;
                let key = only_key(with_key(rest)?)?;
                return Ok(Self { key, condition, change: WriteChange::Expire { expiry } });
            }
            Kind::Transform => {
                let (transform, rest) = Transform::split(detail, rest)?;
                let key = only_key(with_key(rest)?)?;
                return Ok(Self { key, condition, change: WriteChange::Transform(transform) });
            }
            Kind::CreateBlob
            | Kind::GrowBlob
            | Kind::CutBlob
            | Kind::DescribeBlob
            | Kind::WriteChunk
            | Kind::CutChunk
            | Kind::TransformChunk
            | Kind::SettleBlob
            | Kind::DropChunk
            | Kind::FillBlob
            | Kind::PublishBlob => return BlobChange::decode_body(kind, (key_len, condition, detail), rest),
            Kind::Remove => (only_key(with_key(rest)?)?, WriteChange::Remove),
            Kind::Increment => {
                let (mut fields, rest) = FieldReader::<8>::split(rest)?;
                let delta = fields.i64();
                fields.done()?;
                (only_key(with_key(rest)?)?, WriteChange::Increment { delta })
            }
            Kind::Trim => {
                let (mut fields, rest) = FieldReader::<16>::split(rest)?;
                let keep = Range { start: fields.i64(), stop: fields.i64() };
                fields.done()?;
                (only_key(with_key(rest)?)?, WriteChange::Trim { keep })
            }
            _ => return Err(What::ItemKind.into()),
        };
        // The kinds that use the detail byte have already returned.
        if detail != 0 {
            return Err(What::Detail.into());
        }
        Ok(Self { key, condition, change })
    }

    fn decode_compare_swap(
        condition: Condition,
        detail: u8,
        rest: &'a [u8],
        with_key: impl Fn(&'a [u8]) -> Result<(&'a [u8], &'a [u8]), Failure<'static>>,
    ) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<8>::split(rest)?;
        let expected_len = fields.u32() as usize;
        fields.zeros(4);
        fields.done()?;
        let (key, payload) = with_key(rest)?;
        let (expected, new) = split(payload, expected_len)?;
        check_value(expected)?;
        check_value(new)?;
        let presence = |mark: u8, value: &'a [u8]| match (detail & mark != 0, value) {
            (true, value) => Ok(Some(value)),
            (false, []) => Ok(None),
            (false, _) => Err(Failure::from(What::Lengths)),
        };
        if detail & !(EXPECTED_PRESENT | NEW_PRESENT) != 0 {
            return Err(What::Detail.into());
        }
        let change = WriteChange::CompareSwap {
            expected: presence(EXPECTED_PRESENT, expected)?,
            new: presence(NEW_PRESENT, new)?,
        };
        Ok(Self { key, condition, change })
    }
}

/// Errors: the bit lies beyond the longest value.
pub(super) fn check_bit(offset: u64) -> Result<(), Failure<'static>> {
    if offset > BIT_OFFSET_MAX { Err(What::BitOffset.into()) } else { Ok(()) }
}

/// One additional fixed field.
#[inline(always)]
pub(super) fn one_u64(rest: &[u8]) -> Result<(u64, &[u8]), Failure<'static>> {
    let (mut fields, rest) = FieldReader::<8>::split(rest)?;
    Ok((fields.u64(), rest))
}

/// The key of an operation without a payload.
pub(super) fn only_key<'a>((key, payload): (&'a [u8], &'a [u8])) -> Result<&'a [u8], Failure<'static>> {
    nothing_left(payload)?;
    Ok(key)
}
