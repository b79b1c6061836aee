//! Transforms among the lines of a transaction: of numbers of any type, each told as that.

use std::fmt::Display;
use std::str::FromStr;

use clap::Args;
use serde_json::Value;
use zerohop_client::{Committed, Condition, Error, Keyspace, Number, Operator, Transaction, Transform};

use crate::kv::transform::{GivenOperator, GivenType};

/// What a number in a record is to become.
#[derive(Args, Debug)]
pub(super) struct Given {
    operator: GivenOperator,
    #[arg(allow_negative_numbers = true)]
    operand: String,
    #[arg(long = "type", default_value = "i64")]
    number: GivenType,
    /// Where the number begins, in bytes.
    #[arg(long = "at", default_value_t = 0)]
    offset: u64,
}

/// What it has become, once that is known.
pub(super) type Told = Box<dyn Fn(&Committed) -> Result<Value, Error> + Send>;

/// Calls a function with the given type.
macro_rules! of_type {
    ($given:expr, $function:ident($($argument:expr),*)) => {
        match $given {
            GivenType::I8 => $function::<i8>($($argument),*),
            GivenType::I16 => $function::<i16>($($argument),*),
            GivenType::I32 => $function::<i32>($($argument),*),
            GivenType::I64 => $function::<i64>($($argument),*),
            GivenType::U8 => $function::<u8>($($argument),*),
            GivenType::U16 => $function::<u16>($($argument),*),
            GivenType::U32 => $function::<u32>($($argument),*),
            GivenType::U64 => $function::<u64>($($argument),*),
            GivenType::F32 => $function::<f32>($($argument),*),
            GivenType::F64 => $function::<f64>($($argument),*),
        }
    };
}

impl Given {
    /// Errors: it is no transform, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        of_type!(self.number, check(self))
    }

    /// Has the commit do it.
    pub(super) fn write(
        &self,
        (tx, condition): (&Transaction, Condition),
        keyspace: &Keyspace,
        key: &[u8],
    ) -> Result<Told, Error> {
        of_type!(self.number, write(self, (tx, condition), keyspace, key))
    }
}

fn operand<N: Number + FromStr>(given: &Given) -> Result<N, String> {
    let operand = given.operand.parse();
    operand
        .map_err(|_| format!("{:?} is no number of type {}: choose another --type", given.operand, N::TYPE))
}

fn check<N: Number + FromStr>(given: &Given) -> Result<(), String> {
    let operator = Operator::from(given.operator);
    if matches!(operator, Operator::And | Operator::Or | Operator::Xor) && N::TYPE.is_float() {
        return Err(format!(
            "`{operator}` combines bits, which a number of type {} does not have for that",
            N::TYPE
        ));
    }
    operand::<N>(given).map(drop)
}

fn write<N>(
    given: &Given,
    (tx, condition): (&Transaction, Condition),
    keyspace: &Keyspace,
    key: &[u8],
) -> Result<Told, Error>
where
    N: Number + FromStr + Display + Into<Value> + Send + 'static,
{
    // Looked at before anything was sent.
    let operand: N = operand(given).map_err(|_| Error::Unexpected)?;
    let transform = Transform::new(given.operator.into(), operand).at(given.offset);
    let promise = tx.write(keyspace.transform(key, transform).condition(condition))?;
    Ok(Box::new(move |committed| {
        let number = committed.brought(&promise)?;
        let text = number.to_string();
        // JSON has no infinities.
        Ok(match number.into() {
            Value::Null => Value::String(text),
            value => value,
        })
    }))
}
