//! `zerohop kv transform`.

use std::fmt::Display;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;
use zerohop_client::{Keyspace, Number, Operator, Transform};

use super::condition::GivenCondition;
use super::{KeyArgument, Place, refusal};
use crate::common::ending::{CommandError, Ending};
use crate::common::shown::Key;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct TransformArguments {
    #[command(flatten)]
    key: KeyArgument,
    /// What is done to the number.
    operator: GivenOperator,
    /// With which number.
    #[arg(allow_negative_numbers = true)]
    operand: String,
    /// The type of both numbers; the one in the record is little-endian.
    #[arg(long = "type", value_name = "TYPE", default_value = "i64")]
    number: GivenType,
    /// Where in the record the number begins, in bytes.
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    at: u64,
    /// Prints what the number was, instead of what it is now.
    #[arg(long)]
    old: bool,
    #[command(flatten)]
    condition: GivenCondition,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum GivenOperator {
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
pub(crate) enum GivenType {
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

#[derive(Serialize)]
struct Changed<'a> {
    #[serde(flatten)]
    key: Key<'a>,
    done: bool,
    /// A number; as text if JSON has no such number: infinities, and what is none.
    value: Value,
}

pub(super) async fn run(arguments: TransformArguments) -> Result<Ending, CommandError> {
    match arguments.number {
        GivenType::I8 => run_on::<i8>(arguments).await,
        GivenType::I16 => run_on::<i16>(arguments).await,
        GivenType::I32 => run_on::<i32>(arguments).await,
        GivenType::I64 => run_on::<i64>(arguments).await,
        GivenType::U8 => run_on::<u8>(arguments).await,
        GivenType::U16 => run_on::<u16>(arguments).await,
        GivenType::U32 => run_on::<u32>(arguments).await,
        GivenType::U64 => run_on::<u64>(arguments).await,
        GivenType::F32 => run_on::<f32>(arguments).await,
        GivenType::F64 => run_on::<f64>(arguments).await,
    }
}

async fn run_on<N>(arguments: TransformArguments) -> Result<Ending, CommandError>
where
    N: Number + FromStr + Display + Into<Value>,
{
    let TransformArguments { key, operator, operand, at, old, condition, place, .. } = arguments;
    let key = key.into_bytes();
    let operator = Operator::from(operator);
    let is_bitwise = matches!(operator, Operator::And | Operator::Or | Operator::Xor);
    if is_bitwise && N::TYPE.is_float() {
        return Err(CommandError::Usage(format!(
            "`{operator}` combines bits, which a number of type {} does not have for that: choose an integer type",
            N::TYPE
        )));
    }
    let operand: N = operand.parse().map_err(|_| {
        CommandError::Usage(format!("{operand:?} is no number of type {}: choose another --type", N::TYPE))
    })?;
    let transform = Transform::new(operator, operand).at(at);
    let keyspace: Keyspace = place.open().await?;
    let operation = if old {
        keyspace.transform_and_get_old(&key, transform)
    } else {
        keyspace.transform(&key, transform)
    };
    match operation.condition(condition.into()).await {
        Ok(number) if place.json => {
            let value = match number.into() {
                Value::Null => Value::String(number.to_string()),
                value => value,
            };
            output::json(&Changed { key: Key(&key), done: true, value })?;
        }
        Ok(number) => output::result(&number.to_string())?,
        Err(error) => return refusal::tell(&place, &key, error),
    }
    Ok(Ending::Done)
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
