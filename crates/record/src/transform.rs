//! Transforms: arithmetic and logic on one number inside a bytes record, executed where the record is stored.
//!
//! A number is given by its type and its bits: little-endian in the record, zero-extended to 64 bits in messages.

use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout};
use crate::limits::VALUE_BYTES_MAX;
use crate::numbered;

numbered!(
    /// The type of a number inside a record.
    NumberType: u8 {
        /// Signed, 1 byte.
        I8 = 1, "i8";
        /// Signed, 2 bytes.
        I16 = 2, "i16";
        /// Signed, 4 bytes.
        I32 = 3, "i32";
        /// Signed, 8 bytes.
        I64 = 4, "i64";
        /// Unsigned, 1 byte.
        U8 = 5, "u8";
        /// Unsigned, 2 bytes.
        U16 = 6, "u16";
        /// Unsigned, 4 bytes.
        U32 = 7, "u32";
        /// Unsigned, 8 bytes.
        U64 = 8, "u64";
        /// IEEE 754, 4 bytes.
        F32 = 9, "f32";
        /// IEEE 754, 8 bytes.
        F64 = 10, "f64";
    }
);

impl NumberType {
    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type, to which bit operators do not apply.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

numbered!(
    /// The operator of a transform.
    Operator: u8 {
        /// Adds the operand; integers wrap around.
        Add = 1, "add";
        /// Multiplies by the operand; integers wrap around.
        Multiply = 2, "multiply";
        /// Keeps the smaller; for floats any number is preferred to a NaN.
        Min = 3, "min";
        /// Keeps the greater; for floats any number is preferred to a NaN.
        Max = 4, "max";
        /// Bitwise AND; not for floats.
        And = 5, "and";
        /// Bitwise OR; not for floats.
        Or = 6, "or";
        /// Bitwise exclusive OR; not for floats.
        Xor = 7, "xor";
    }
);

numbered!(
    /// The number that a transform returns.
    ReturnedNumber: u8 {
        /// Zero: several transforms of one kind need not wait for each other.
        Nothing = 0, "nothing";
        /// The old bits.
        Old = 1, "the old value";
        /// The new bits.
        New = 2, "the new value";
    }
);

/// One transform. Absent bytes count as zeros, and become zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transform {
    /// The operator.
    pub operator: Operator,
    /// The type of the number and of the operand.
    pub number: NumberType,
    /// The operand's bits; bits beyond its type are zero.
    pub operand: u64,
    /// Offset of the number in the record, in bytes: the number ends within the maximum length of a value.
    pub offset: u64,
    /// The number in the answer.
    pub returns: ReturnedNumber,
}

/// Fields of a transform: offset (8), operand (8), type (1), number in the answer (1), zero (6).
const FIELDS_BYTES: usize = 24;

impl Transform {
    /// Errors: bits beyond the type, an operator that does not apply to it, an end beyond the maximum length of a value.
    pub fn check(&self) -> Result<(), Failure<'static>> {
        let bits = 8 * self.number.bytes() as u32;
        let is_bitwise = matches!(self.operator, Operator::And | Operator::Or | Operator::Xor);
        if self.operand.checked_shr(bits).unwrap_or(0) != 0 || (is_bitwise && self.number.is_float()) {
            return Err(BadRequestReason::Transform.into());
        }
        if self.offset > (VALUE_BYTES_MAX - self.number.bytes()) as u64 {
            return Err(BadRequestReason::NumberOffset.into());
        }
        Ok(())
    }

    /// Its fields on the wire, without the operator.
    #[must_use]
    pub fn fields(&self) -> [u8; FIELDS_BYTES] {
        let (number, returned) = (self.number.number(), self.returns.number());
        layout(|to| to.u64(self.offset).u64(self.operand).u8(number).u8(returned).zeros(6))
    }

    /// Decodes the transform whose operator is in the detail byte, and returns the bytes after its fields.
    pub fn split(detail: u8, rest: &[u8]) -> Result<(Self, &[u8]), Failure<'static>> {
        let (mut fields, rest) = FieldReader::<FIELDS_BYTES>::split(rest)?;
        let (offset, operand) = (fields.u64(), fields.u64());
        let (number, returned) = (fields.u8(), fields.u8());
        fields.zeros(6);
        fields.done()?;
        let transform = Self {
            operator: Operator::from_number(detail).ok_or(BadRequestReason::Transform)?,
            number: NumberType::from_number(number).ok_or(BadRequestReason::Transform)?,
            operand,
            offset,
            returns: ReturnedNumber::from_number(returned).ok_or(BadRequestReason::Transform)?,
        };
        transform.check()?;
        Ok((transform, rest))
    }
}

impl Operator {
    /// The bits of the result for a number of this type. Integers wrap around; for floats any number is preferred to a NaN; bit operators do not
    /// change floats.
    #[must_use]
    pub fn applied(self, number: NumberType, old: u64, operand: u64) -> u64 {
        macro_rules! integer {
            ($type:ty) => {{
                let (a, b) = (<$type as Number>::from_bits(old), <$type as Number>::from_bits(operand));
                match self {
                    Self::Add => a.wrapping_add(b),
                    Self::Multiply => a.wrapping_mul(b),
                    Self::Min => a.min(b),
                    Self::Max => a.max(b),
                    Self::And => a & b,
                    Self::Or => a | b,
                    Self::Xor => a ^ b,
                }
                .bits()
            }};
        }
        macro_rules! float {
            ($type:ty) => {{
                let (a, b) = (<$type as Number>::from_bits(old), <$type as Number>::from_bits(operand));
                let first = |takes_a: bool| if takes_a { a } else { b };
                Number::bits(match self {
                    Self::Add => a + b,
                    Self::Multiply => a * b,
                    Self::Min => first(b.is_nan() || (!a.is_nan() && a.total_cmp(&b).is_le())),
                    Self::Max => first(b.is_nan() || (!a.is_nan() && a.total_cmp(&b).is_ge())),
                    // The decoder refuses these.
                    Self::And | Self::Or | Self::Xor => a,
                })
            }};
        }
        match number {
            NumberType::I8 => integer!(i8),
            NumberType::I16 => integer!(i16),
            NumberType::I32 => integer!(i32),
            NumberType::I64 => integer!(i64),
            NumberType::U8 => integer!(u8),
            NumberType::U16 => integer!(u16),
            NumberType::U32 => integer!(u32),
            NumberType::U64 => integer!(u64),
            NumberType::F32 => float!(f32),
            NumberType::F64 => float!(f64),
        }
    }
}

/// A number that a record can have.
pub trait Number: Copy {
    /// Its type on the wire.
    const TYPE: NumberType;

    /// Its bits, zero-extended.
    fn bits(self) -> u64;

    /// The number of these bits; bits beyond its type are dropped.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! number {
    ($($type:ty: $name:ident, $unsigned:ty, $to:expr, $from:expr;)*) => {$(
        impl Number for $type {
            const TYPE: NumberType = NumberType::$name;

            fn bits(self) -> u64 {
                let unsigned: $unsigned = $to(self);
                u64::from(unsigned)
            }

            fn from_bits(bits: u64) -> Self {
                $from(bits as $unsigned)
            }
        }
    )*};
}

number! {
    i8: I8, u8, i8::cast_unsigned, u8::cast_signed;
    i16: I16, u16, i16::cast_unsigned, u16::cast_signed;
    i32: I32, u32, i32::cast_unsigned, u32::cast_signed;
    i64: I64, u64, i64::cast_unsigned, u64::cast_signed;
    u8: U8, u8, u8::from, u8::from;
    u16: U16, u16, u16::from, u16::from;
    u32: U32, u32, u32::from, u32::from;
    u64: U64, u64, u64::from, u64::from;
    f32: F32, u32, f32::to_bits, f32::from_bits;
    f64: F64, u64, f64::to_bits, f64::from_bits;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_roundtrip_through_bits() {
        assert_eq!((-1_i8).bits(), 0xFF);
        assert_eq!(i8::from_bits(0xFF), -1);
        assert_eq!(i64::from_bits(i64::MIN.bits()), i64::MIN);
        assert_eq!(u16::from_bits(0x1_0002), 2);
        assert_eq!(<f32 as Number>::from_bits(Number::bits(1.5_f32)), 1.5);
        assert_eq!(Number::bits(-0.0_f64), 1 << 63);
    }

    #[test]
    fn invalid_transform_is_refused() {
        let good = Transform {
            operator: Operator::Add,
            number: NumberType::I8,
            operand: 0xFF,
            offset: VALUE_BYTES_MAX as u64 - 1,
            returns: ReturnedNumber::New,
        };
        assert_eq!(good.check(), Ok(()));
        let what = |transform: Transform| transform.check();
        assert_eq!(what(Transform { operand: 0x100, ..good }), Err(BadRequestReason::Transform.into()));
        assert_eq!(
            what(Transform { number: NumberType::U16, ..good }),
            Err(BadRequestReason::NumberOffset.into())
        );
        assert_eq!(what(Transform { offset: u64::MAX, ..good }), Err(BadRequestReason::NumberOffset.into()));
        let float = Transform { number: NumberType::F32, offset: 0, ..good };
        assert_eq!(what(float), Ok(()));
        assert_eq!(
            what(Transform { operator: Operator::Xor, ..float }),
            Err(BadRequestReason::Transform.into())
        );
        let widest = Transform { number: NumberType::U64, operand: u64::MAX, offset: 0, ..good };
        assert_eq!(what(widest), Ok(()));
    }

    #[test]
    fn fields_with_numbers_of_another_version_are_refused() {
        let good = Transform {
            operator: Operator::Max,
            number: NumberType::F64,
            operand: Number::bits(-2.5_f64),
            offset: 3,
            returns: ReturnedNumber::Old,
        };
        let fields = good.fields();
        assert_eq!(Transform::split(Operator::Max.number(), &fields), Ok((good, &[][..])));
        for (at, value) in [(16, 0), (16, 11), (17, 3)] {
            let mut wrong = fields;
            wrong[at] = value;
            assert_eq!(
                Transform::split(4, &wrong).map(|_| ()),
                Err(BadRequestReason::Transform.into()),
                "{at}"
            );
        }
        assert_eq!(Transform::split(0, &fields).map(|_| ()), Err(BadRequestReason::Transform.into()));
        assert_eq!(Transform::split(8, &fields).map(|_| ()), Err(BadRequestReason::Transform.into()));
        let mut reserved = fields;
        reserved[18] = 1;
        assert_eq!(Transform::split(4, &reserved).map(|_| ()), Err(BadRequestReason::Reserved.into()));
    }
}
