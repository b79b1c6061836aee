//! Transforms in the lines of a transaction: numbers of any type, each printed as its type.

use std::fmt::Display;
use std::str::FromStr;

use clap::Args;
use serde_json::Value;
use zerohop_client::{
    CommittedTransaction, Condition, Error, Keyspace, Number, Promise, Transaction, TransactionBlob,
    Transform,
};

use crate::common::quantity;
use crate::common::transform::{NumberOutput, TransformOperator, TransformType, of_type, operand};

/// What a number in a record is to become.
#[derive(Args, Debug)]
pub(super) struct TxnTransformArguments {
    operator: TransformOperator,
    #[arg(allow_negative_numbers = true)]
    operand: String,
    #[arg(long = "type", default_value = "i64")]
    number: TransformType,
    /// The offset of the number in bytes.
    #[arg(long = "at", default_value_t = 0, value_parser = quantity::parse_whole)]
    offset: u64,
    /// Returns the old number, not the new one.
    #[arg(long)]
    old: bool,
}

/// Reads the resulting number from the committed transaction.
pub(super) type NumberReader = Box<dyn Fn(&CommittedTransaction) -> Result<Value, Error> + Send>;

impl TxnTransformArguments {
    /// Errors, as text: the transform is invalid.
    pub(super) fn check(&self) -> Result<(), String> {
        of_type!(self.number, check(self))
    }

    /// Adds the transform to the transaction, if the record does not refuse it.
    pub(super) async fn write(
        &self,
        (tx, condition): (&Transaction, Condition),
        keyspace: &Keyspace,
        key: &[u8],
    ) -> Result<NumberReader, Error> {
        of_type!(self.number, write(self, (tx, condition), keyspace, key).await)
    }

    /// Adds the transform of a number in a blob to the transaction.
    pub(super) async fn write_in(&self, blob: &TransactionBlob<'_>) -> Result<NumberReader, Error> {
        of_type!(self.number, write_in(self, blob).await)
    }
}

async fn write_in<N>(given: &TxnTransformArguments, blob: &TransactionBlob<'_>) -> Result<NumberReader, Error>
where
    N: Number + FromStr + Display + Into<Value> + Send + 'static,
{
    // The operand was checked before anything was sent.
    let operator = given.operator.into();
    let operand: N = operand(operator, &given.operand).map_err(|_| Error::Unexpected)?;
    let transform = Transform::new(operator, operand).at(given.offset);
    Ok(number_reader(match given.old {
        true => blob.transform_and_get_old(transform).await?,
        false => blob.transform(transform).await?,
    }))
}

fn number_reader<N>(promise: Promise<N>) -> NumberReader
where
    N: Number + Display + Into<Value> + Send + 'static,
{
    Box::new(move |committed| committed.result(&promise).map(|number| NumberOutput::of(number).value))
}

fn check<N: Number + FromStr>(given: &TxnTransformArguments) -> Result<(), String> {
    operand::<N>(given.operator.into(), &given.operand).map(drop)
}

async fn write<N>(
    given: &TxnTransformArguments,
    (tx, condition): (&Transaction, Condition),
    keyspace: &Keyspace,
    key: &[u8],
) -> Result<NumberReader, Error>
where
    N: Number + FromStr + Display + Into<Value> + Send + 'static,
{
    // The operand was checked before anything was sent.
    let operator = given.operator.into();
    let operand: N = operand(operator, &given.operand).map_err(|_| Error::Unexpected)?;
    let transform = Transform::new(operator, operand).at(given.offset);
    let transform = match given.old {
        true => keyspace.transform_and_get_old(key, transform),
        false => keyspace.transform(key, transform),
    };
    Ok(number_reader(tx.write_checked(transform.condition(condition)).await?))
}
