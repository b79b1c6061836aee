//! `zerohop blob transform`.

use std::fmt::Display;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use zerohop_client::{Number, Operator, Transform};

use super::{NameArgument, Place, refusal};
use crate::common::ending::{CommandError, Ending};
use crate::common::shown::Name;
use crate::kv::transform::{GivenOperator, GivenType};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct TransformArguments {
    #[command(flatten)]
    name: NameArgument,
    /// What is done to the number.
    operator: GivenOperator,
    /// With which number.
    #[arg(allow_negative_numbers = true)]
    operand: String,
    /// The type of both numbers; the one in the blob is little-endian.
    #[arg(long = "type", value_name = "TYPE", default_value = "i64")]
    number: GivenType,
    /// Where in the blob the number begins, in bytes.
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    at: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Changed<'a> {
    #[serde(flatten)]
    name: Name<'a>,
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
    let TransformArguments { name, operator, operand, at, place, .. } = arguments;
    let name = name.into_bytes();
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
    let keyspace = place.open().await?;
    match keyspace.blob(name.clone()).transform(transform).await {
        Ok(number) if place.json => {
            let value = match number.into() {
                Value::Null => Value::String(number.to_string()),
                value => value,
            };
            output::json(&Changed { name: Name(&name), done: true, value })?;
        }
        Ok(number) => output::result(&number.to_string())?,
        Err(error) => return refusal::tell(&place, &name, error),
    }
    Ok(Ending::Done)
}
