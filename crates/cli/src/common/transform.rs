//! Transforms as they are given on the command line, of numbers in records and in blobs alike.

use std::fmt::Display;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde_json::Value;
use zerohop_client::{Error, Number, Operator, Transform};

use super::ending::CommandError;

/// What is to become of a number.
#[derive(Args, Debug)]
pub(crate) struct GivenTransform {
    /// What is done to the number.
    operator: GivenOperator,
    /// With which number.
    #[arg(allow_negative_numbers = true)]
    operand: String,
    /// The type of both numbers; the one that is stored is little-endian.
    #[arg(long = "type", value_name = "TYPE", default_value = "i64")]
    number: GivenType,
    /// Where the number begins, in bytes.
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    at: u64,
    /// Prints what the number was, instead of what it is now.
    #[arg(long)]
    old: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GivenOperator {
    /// Integers wrap around.
    Add,
    /// Integers wrap around.
    Multiply,
    Min,
    Max,
    /// Not of floats.
    And,
    /// Not of floats.
    Or,
    /// Not of floats.
    Xor,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GivenType {
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

/// What has a number that can be transformed.
pub(crate) trait Numbered {
    /// Transforms it, and brings what it is now, or what it was.
    async fn transform<N: Number>(&self, transform: Transform<N>, old: bool) -> Result<N, Error>;
}

/// A number as it is printed.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) text: String,
    /// A number; as text if JSON has no such number: infinities, and what is none.
    pub(crate) value: Value,
}

impl GivenTransform {
    /// Does it. The inner error is what the data says.
    pub(crate) async fn run(self, of: &impl Numbered) -> Result<Result<Shown, Error>, CommandError> {
        match self.number {
            GivenType::I8 => self.run_on::<i8>(of).await,
            GivenType::I16 => self.run_on::<i16>(of).await,
            GivenType::I32 => self.run_on::<i32>(of).await,
            GivenType::I64 => self.run_on::<i64>(of).await,
            GivenType::U8 => self.run_on::<u8>(of).await,
            GivenType::U16 => self.run_on::<u16>(of).await,
            GivenType::U32 => self.run_on::<u32>(of).await,
            GivenType::U64 => self.run_on::<u64>(of).await,
            GivenType::F32 => self.run_on::<f32>(of).await,
            GivenType::F64 => self.run_on::<f64>(of).await,
        }
    }

    async fn run_on<N>(self, of: &impl Numbered) -> Result<Result<Shown, Error>, CommandError>
    where
        N: Number + FromStr + Display + Into<Value>,
    {
        let operator = Operator::from(self.operator);
        let is_bitwise = matches!(operator, Operator::And | Operator::Or | Operator::Xor);
        if is_bitwise && N::TYPE.is_float() {
            return Err(CommandError::Usage(format!(
                "`{operator}` combines bits, which a number of type {} does not have for that: choose an integer type",
                N::TYPE
            )));
        }
        let operand: N = self.operand.parse().map_err(|_| {
            let operand = &self.operand;
            CommandError::Usage(format!(
                "{operand:?} is no number of type {}: choose another --type",
                N::TYPE
            ))
        })?;
        let transform = Transform::new(operator, operand).at(self.at);
        Ok(of.transform(transform, self.old).await.map(|number| {
            let text = number.to_string();
            let value = match number.into() {
                Value::Null => Value::String(text.clone()),
                value => value,
            };
            Shown { text, value }
        }))
    }
}

impl From<GivenOperator> for Operator {
    fn from(given: GivenOperator) -> Self {
        match given {
            GivenOperator::Add => Self::Add,
            GivenOperator::Multiply => Self::Multiply,
            GivenOperator::Min => Self::Min,
            GivenOperator::Max => Self::Max,
            GivenOperator::And => Self::And,
            GivenOperator::Or => Self::Or,
            GivenOperator::Xor => Self::Xor,
        }
    }
}
