//! `zerohop txn`: several operations as one transaction.

mod blob;
mod line;
mod show;
mod tokenizer;
mod transform;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Read, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use zerohop_client::{
    Client, Expiry, Failure, Info, Keyspace, Promise, Reason, Record, Timestamp, Transaction,
};
use zerohop_wire::limits::{LIST_PAGE_VALUES_MAX, TAKE_BYTES_MAX};

use crate::common::ending::{CommandEnding, CommandError, FORBIDDEN, lacking};
use crate::common::interrupt;
use crate::common::outage;
use crate::common::target::ClusterTarget;
use crate::output;
use line::{Line, LineOperation};

/// The most bytes of a transaction's text: what a client may have in one transaction, and quotes
/// around it.
const TEXT_BYTES_MAX: u64 = 256 << 20;

#[derive(Args, Debug)]
pub(crate) struct TxnArguments {
    /// The keyspace of lines without -k.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    keyspace: String,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON: one object, with a result for each operation.
    #[arg(long)]
    json: bool,
}

/// The most bytes of a key, for the error of an empty key.
const KEY_BYTES_MAX: u32 = 64 << 10;

/// The return value of an operation, or the means to get it after the commit.
enum LineResult {
    Record(Option<Record>),
    /// The record that was there, which is removed.
    RemovedRecord(Option<Record>),
    Version(Promise<Timestamp>),
    Removed(Promise<bool>),
    Length(Promise<u64>),
    Sum(Promise<i64>),
    Number(transform::NumberReader),
    Blob(blob::BlobResult),
    Checked,
}

impl LineResult {
    /// Whether the line has changed nothing.
    fn is_read(&self) -> bool {
        use blob::BlobResult;
        matches!(
            self,
            Self::Record(_)
                | Self::RemovedRecord(None)
                | Self::Checked
                | Self::Blob(BlobResult::Size(_) | BlobResult::Bytes(_))
        )
    }
}

/// The progress of the lines.
#[derive(Default)]
struct TxnProgress {
    /// The number of writes in the transaction after each line that was added.
    ends: Vec<usize>,
    /// The line that could not be added.
    stuck_at: Option<usize>,
}

/// The outcome of all lines.
enum TxnOutcome {
    /// The return values, to be printed after the commit.
    Done(Vec<LineResult>),
    /// The check in this line failed; with the state of the record.
    Failed(usize, Option<Info>),
}

pub(crate) async fn run(arguments: TxnArguments) -> Result<CommandEnding, CommandError> {
    let mut text = Vec::new();
    if stdin().is_terminal() {
        output::problem("Type one operation a line; Ctrl-D at the beginning of a line ends the transaction.");
    }
    let read = stdin().lock().take(TEXT_BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(|error| CommandError::system("reading", Path::new("standard input"), &error))?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        let reason = format!("the transaction has more than {TEXT_BYTES_MAX} bytes: split it");
        return Err(CommandError::Refused(reason));
    }
    let lines = line::read(&text)?;
    if lines.is_empty() {
        return Err(CommandError::Usage("the transaction is empty: give one operation a line".to_owned()));
    }
    let client = arguments.target.connect().await?;
    let keyspaces = open(&client, &arguments.keyspace, &lines).await?;
    let progress = Mutex::new(TxnProgress::default());
    let (lines, keyspaces, progress) = (&lines, &keyspaces, &progress);
    let note = |now: TxnProgress| *progress.lock().unwrap_or_else(PoisonError::into_inner) = now;
    let work = |tx: Transaction| async move {
        // Read together, as each of them is to be read.
        tx.read_many(&checked_records(lines, keyspaces)).await?;
        let mut results = Vec::with_capacity(lines.len());
        let mut ends = Vec::with_capacity(lines.len());
        for (place, line) in lines.iter().enumerate() {
            let keyspace = &keyspaces[&line.operation.at().keyspace];
            let one = step(&tx, keyspace, &line.operation).await;
            ends.push(tx.writes().unwrap_or_default());
            match one {
                Ok(Ok(one)) => results.push(one),
                Ok(Err(found)) => {
                    tx.abort();
                    return Ok(TxnOutcome::Failed(place, found));
                }
                Err(error) => {
                    note(TxnProgress { ends, stuck_at: Some(place) });
                    return Err(error);
                }
            }
        }
        note(TxnProgress { ends, stuck_at: None });
        if !results.iter().all(LineResult::is_read) {
            interrupt::note_sent(output::WRITE);
        }
        Ok(TxnOutcome::Done(results))
    };
    match client.transaction_with_outcome(work).await {
        Ok((TxnOutcome::Done(results), Some(committed))) => {
            show::committed(arguments.json, lines, &results, &committed)
        }
        Ok((TxnOutcome::Failed(place, found), _)) => show::failed(arguments.json, &lines[place], found),
        Ok((TxnOutcome::Done(_), None)) => Err(CommandError::Unexpected),
        Err(error) => {
            let named = |id| {
                let mut found = keyspaces.iter().filter(|(_, keyspace)| keyspace.id() == id);
                found.next().map(|(name, _)| name.as_deref().unwrap_or(&arguments.keyspace))
            };
            if let Some(why) = lacking(&error, named) {
                return Err(CommandError::RefusedAs { word: FORBIDDEN, reason: why });
            }
            let why = outage::unserved_reason(&arguments.target, &error).await;
            let progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            show::refused(arguments.json, (lines, &progress), (error, why))
        }
    }
}

/// Why a record is more than a `take` removes, as the server refuses it; `None`: it is not.
fn beyond_take(record: &Record) -> Option<Failure<'static>> {
    let limit = TAKE_BYTES_MAX as u32;
    match record {
        Record::Bytes { length, .. } if *length > TAKE_BYTES_MAX as u64 => {
            Some(Failure::ValueTooLong { length: *length, limit })
        }
        Record::Bytes { .. } => None,
        Record::List { length, .. } if *length > u64::from(LIST_PAGE_VALUES_MAX) => {
            Some(Failure::TooMany { count: *length, limit: LIST_PAGE_VALUES_MAX })
        }
        Record::List { length, values, .. } => {
            let bytes: u64 = values.iter().map(|value| value.len() as u64 + 4).sum();
            // A page of the list may have fewer values than the list.
            let is_beyond = bytes > TAKE_BYTES_MAX as u64 || (values.len() as u64) < *length;
            is_beyond.then_some(Failure::ValueTooLong { length: bytes, limit })
        }
    }
}

/// Opens the keyspaces that the lines name, by name; a line without a name uses the command's
/// keyspace.
async fn open(
    client: &Client,
    default: &str,
    lines: &[Line],
) -> Result<BTreeMap<Option<String>, Keyspace>, CommandError> {
    let mut keyspaces = BTreeMap::new();
    for line in lines {
        let name = &line.operation.at().keyspace;
        if !keyspaces.contains_key(name) {
            let found = client.keyspace(name.as_deref().unwrap_or(default)).await?;
            keyspaces.insert(name.clone(), found);
        }
    }
    Ok(keyspaces)
}

/// The records that lines write to and that may refuse this, unless an earlier line writes to them.
fn checked_records<'a>(
    lines: &'a [Line],
    keyspaces: &'a BTreeMap<Option<String>, Keyspace>,
) -> Vec<(&'a Keyspace, &'a [u8])> {
    let (mut written, mut records) = (BTreeSet::new(), Vec::new());
    for line in lines {
        let at = line.operation.at();
        let (keyspace, key) = (&keyspaces[&at.keyspace], at.key.as_bytes());
        let is_checked = line.operation.is_checked();
        if key.is_empty() || !is_checked && !line.operation.is_overwrite() {
            continue;
        }
        let is_first = written.insert((keyspace.id(), key));
        if is_first && is_checked {
            records.push((keyspace, key));
        }
    }
    records
}

/// Adds one operation to the transaction. A record that would refuse it ends the transaction here: the commit would leave out this operation
/// alone. The inner error: a check failed.
async fn step(
    tx: &Transaction,
    keyspace: &Keyspace,
    operation: &LineOperation,
) -> Result<Result<LineResult, Option<Info>>, zerohop_client::Error> {
    let key = operation.at().key.as_bytes();
    if key.is_empty() && !matches!(operation, LineOperation::Blob(_)) {
        // The transaction as a whole would be refused, without a word about the key.
        let failure = Failure::KeyTooLong { length: 0, limit: KEY_BYTES_MAX };
        let reason = Box::new(Reason::Answer { failure });
        return Err(zerohop_client::Error::Operation { key: Some(key.into()), reason });
    }
    Ok(Ok(match operation {
        LineOperation::Insert { value, ttl, condition, .. } => {
            // The server refuses an expiry that is too long, so that the largest value is right for
            // an overflow.
            let expiry = match ttl {
                Some(ttl) => Expiry::AfterMs(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
                None => Expiry::Never,
            };
            let insert = keyspace.insert_until(key, value.as_bytes(), expiry);
            LineResult::Version(tx.write(insert.condition((*condition).into()))?)
        }
        LineOperation::Lookup { .. } => LineResult::Record(tx.read(keyspace.lookup(key)).await?),
        LineOperation::Remove { condition, .. } => {
            LineResult::Removed(tx.write(keyspace.remove(key).condition((*condition).into()))?)
        }
        LineOperation::Take { condition, .. } => {
            // The removal depends on what was read: if another client changes the record meanwhile, nothing is done.
            let found = tx.read(keyspace.lookup(key)).await?;
            if let Some(failure) = found.as_ref().and_then(beyond_take) {
                let reason = Box::new(Reason::Answer { failure });
                return Err(zerohop_client::Error::Operation { key: Some(key.into()), reason });
            }
            if found.is_some() || condition.is_given() {
                tx.write(keyspace.remove(key).condition((*condition).into()))?;
            }
            LineResult::RemovedRecord(found)
        }
        LineOperation::Append { values, condition, .. } => {
            let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
            let append = keyspace.append(key, &values);
            LineResult::Length(tx.write_checked(append.condition((*condition).into())).await?)
        }
        LineOperation::Extend { value, condition, .. } => {
            let extend = keyspace.extend(key, value.as_bytes());
            LineResult::Length(tx.write_checked(extend.condition((*condition).into())).await?)
        }
        LineOperation::Incr { delta, condition, .. } => {
            let increment = keyspace.increment(key, *delta);
            LineResult::Sum(tx.write_checked(increment.condition((*condition).into())).await?)
        }
        LineOperation::Cas { expected, new, .. } => {
            let expected = expected.expect.as_ref().map(|value| value.as_bytes());
            let new = new.value.as_ref().map(|value| value.as_bytes());
            LineResult::Version(tx.write_checked(keyspace.compare_swap(key, expected, new)).await?)
        }
        LineOperation::Transform { given, condition, .. } => {
            LineResult::Number(given.write((tx, (*condition).into()), keyspace, key).await?)
        }
        LineOperation::Blob(operation) => {
            LineResult::Blob(blob::step(&tx.blob(keyspace, key.to_vec()), operation).await?)
        }
        LineOperation::Check { version, .. } => {
            let found = tx.read(keyspace.inspect(key)).await?;
            match found.map_or(Timestamp::ZERO, |info| info.version) == *version {
                true => LineResult::Checked,
                false => return Ok(Err(found)),
            }
        }
    }))
}
