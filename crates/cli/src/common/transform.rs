//! Transforms of numbers on the command line, for records and blobs alike.

use std::fmt::Display;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde_json::Value;
use zerohop_client::{Error, Number, Operator, Transform};

use super::ending::CommandError;
use super::{names, quantity};

/// What is to become of a number.
#[derive(Args, Debug)]
pub(crate) struct TransformArguments {
    /// The operation on the number.
    operator: TransformOperator,
    /// The operand.
    #[arg(allow_negative_numbers = true)]
    operand: String,
    /// The type of the stored number and the operand. The stored number is little-endian.
    #[arg(long = "type", value_name = "TYPE", default_value = "i64")]
    number: TransformType,
    /// The offset of the number in bytes.
    #[arg(long, value_name = "OFFSET", default_value_t = 0, value_parser = quantity::parse_whole)]
    at: u64,
    /// Prints the old number, not the new one.
    #[arg(long)]
    old: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TransformOperator {
    /// Integers wrap around.
    Add,
    /// Integers wrap around.
    Multiply,
    Min,
    Max,
    /// Only for integers.
    And,
    /// Only for integers.
    Or,
    /// Only for integers.
    Xor,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TransformType {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

/// A record or blob that contains a number that can be transformed.
pub(crate) trait TransformTarget {
    /// Transforms it, and returns the new number, or the old one.
    async fn transform<N: Number>(&self, transform: Transform<N>, old: bool) -> Result<N, Error>;
}

/// A number in its printed forms.
#[derive(Debug)]
pub(crate) struct NumberOutput {
    pub(crate) text: String,
    /// A number; as text if JSON has no such number: infinities and NaN.
    pub(crate) value: Value,
}

/// Calls a function with the given type as its type argument; the tokens behind the call follow
/// each call.
macro_rules! of_type {
    ($given:expr, $function:ident($($argument:expr),*) $($behind:tt)*) => {
        match $given {
            TransformType::I8 => $function::<i8>($($argument),*) $($behind)*,
            TransformType::I16 => $function::<i16>($($argument),*) $($behind)*,
            TransformType::I32 => $function::<i32>($($argument),*) $($behind)*,
            TransformType::I64 => $function::<i64>($($argument),*) $($behind)*,
            TransformType::U8 => $function::<u8>($($argument),*) $($behind)*,
            TransformType::U16 => $function::<u16>($($argument),*) $($behind)*,
            TransformType::U32 => $function::<u32>($($argument),*) $($behind)*,
            TransformType::U64 => $function::<u64>($($argument),*) $($behind)*,
            TransformType::F32 => $function::<f32>($($argument),*) $($behind)*,
            TransformType::F64 => $function::<f64>($($argument),*) $($behind)*,
        }
    };
}
pub(crate) use of_type;

/// Parses the operand as a number of the type. Errors, as text: it is not such a number, or the
/// type has no such transform.
pub(crate) fn operand<N: Number + FromStr>(operator: Operator, given: &str) -> Result<N, String> {
    let is_bitwise = matches!(operator, Operator::And | Operator::Or | Operator::Xor);
    if is_bitwise && N::TYPE.is_float() {
        return Err(format!(
            "`{operator}` combines bits, which a number of type {} does not have for that: choose an integer type",
            N::TYPE
        ));
    }
    let operand = given.parse();
    operand.map_err(|_| {
        format!("{} is no number of type {}: choose another --type", names::quoted(given.as_bytes()), N::TYPE)
    })
}

impl NumberOutput {
    pub(crate) fn of<N: Display + Into<Value>>(number: N) -> Self {
        let text = number.to_string();
        let value = match number.into() {
            Value::Null => Value::String(text.clone()),
            value => value,
        };
        Self { text, value }
    }
}

impl TransformArguments {
    /// Runs the transform. The inner error is a negative answer of the data.
    pub(crate) async fn run(
        self,
        of: &impl TransformTarget,
    ) -> Result<Result<NumberOutput, Error>, CommandError> {
        of_type!(self.number, run(self, of).await)
    }
}

async fn run<N>(
    given: TransformArguments,
    of: &impl TransformTarget,
) -> Result<Result<NumberOutput, Error>, CommandError>
where
    N: Number + FromStr + Display + Into<Value>,
{
    let operator = Operator::from(given.operator);
    let operand: N = operand(operator, &given.operand).map_err(CommandError::Usage)?;
    let transform = Transform::new(operator, operand).at(given.at);
    Ok(of.transform(transform, given.old).await.map(NumberOutput::of))
}

impl From<TransformOperator> for Operator {
    fn from(given: TransformOperator) -> Self {
        match given {
            TransformOperator::Add => Self::Add,
            TransformOperator::Multiply => Self::Multiply,
            TransformOperator::Min => Self::Min,
            TransformOperator::Max => Self::Max,
            TransformOperator::And => Self::And,
            TransformOperator::Or => Self::Or,
            TransformOperator::Xor => Self::Xor,
        }
    }
}
