//! Transforms: changes of a number inside a record.

use zerohop_wire::messages::{Number, Operator, ReturnedNumber, Transform as Wire, WriteChange};

/// A change of one number inside a bytes record, with the type of its operand. The number is little-endian.
///
/// ```
/// use zerohop_session::procedures::Transform;
///
/// let seconds = Transform::add(2.5_f64).at(8);
/// let highest = Transform::max(40_000_u32).at(16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transform<N> {
    operator: Operator,
    operand: N,
    offset: u64,
}

impl<N: Number> Transform<N> {
    /// A transform with any operator. Bit operators on floats end with `BadRequest`.
    pub fn new(operator: Operator, operand: N) -> Self {
        Self { operator, operand, offset: 0 }
    }

    /// Adds; integers wrap around.
    pub fn add(operand: N) -> Self {
        Self::new(Operator::Add, operand)
    }

    /// Multiplies; integers wrap around.
    pub fn multiply(operand: N) -> Self {
        Self::new(Operator::Multiply, operand)
    }

    /// Keeps the smaller of the number and the operand.
    pub fn min(operand: N) -> Self {
        Self::new(Operator::Min, operand)
    }

    /// Keeps the greater of the number and the operand.
    pub fn max(operand: N) -> Self {
        Self::new(Operator::Max, operand)
    }

    /// Keeps the bits that both have.
    pub fn and(operand: N) -> Self {
        Self::new(Operator::And, operand)
    }

    /// Sets the operand's bits.
    pub fn or(operand: N) -> Self {
        Self::new(Operator::Or, operand)
    }

    /// Flips the operand's bits.
    pub fn xor(operand: N) -> Self {
        Self::new(Operator::Xor, operand)
    }

    /// Sets the offset of the number in the record, in bytes. Default: 0.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// The offset of the number, and the transform as it is encoded.
    pub(crate) fn parts(self, returned: ReturnedNumber) -> (u64, Wire) {
        let Self { operator, operand, offset } = self;
        (offset, Wire { operator, number: N::TYPE, operand: operand.bits(), offset: 0, returns: returned })
    }

    pub(crate) fn change(self, returned: ReturnedNumber) -> WriteChange<'static> {
        let Self { operator, operand, offset } = self;
        WriteChange::Transform(Wire {
            operator,
            number: N::TYPE,
            operand: operand.bits(),
            offset,
            returns: returned,
        })
    }
}
