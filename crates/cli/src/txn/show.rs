//! The output of a transaction.

use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use zerohop_client::{AbortReason, CommittedTransaction, Error, Failure, Info, Reason, Record};

use super::line::{Line, LineOperation};
use super::{LineResult, TxnProgress, blob};
use crate::common::display::{JsonKey, JsonValue, Name};
use crate::common::ending::{CommandEnding, CommandError, EXISTS, of_blob};
use crate::common::failure::{self, FailedObject};
use crate::common::names::{self, first_bytes};
use crate::common::outage;
use crate::kv::refusal::type_name;
use crate::output;

/// The JSON of a committed transaction.
#[derive(Serialize)]
struct TxnOutput<'a> {
    done: bool,
    version: String,
    results: Vec<OperationOutput<'a>>,
}

/// The JSON of one operation; fields without a value are left out.
#[derive(Default, Serialize)]
struct OperationOutput<'a> {
    operation: &'static str,
    #[serde(flatten)]
    about: FailedObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<bool>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    record: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Where the bytes begin that a blob was extended by.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    /// The sum of `incr`, or the number of `transform`. No such operation has bytes as its value.
    #[serde(rename = "value", skip_serializing_if = "Option::is_none")]
    number: Option<serde_json::Value>,
    #[serde(flatten)]
    value: Option<JsonValue<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<JsonValue<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The sentence on standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The JSON of a transaction that changed nothing.
#[derive(Default, Serialize)]
struct TxnRefusal<'a> {
    done: bool,
    /// `check_failed`, `condition_failed`, `not_found` or `exists` for a blob, or the word for an error.
    reason: &'static str,
    line: Option<usize>,
    #[serde(flatten)]
    about: FailedObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    record: Option<&'static str>,
    /// The sentence on standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn key(line: &Line) -> &[u8] {
    line.operation.at().key.as_bytes()
}

/// The key of a record or the name of a blob, for JSON.
fn about(line: &Line) -> FailedObject<'_> {
    match is_of_blob(line) {
        true => FailedObject { name: Some(Name(key(line))), ..FailedObject::default() },
        false => FailedObject { key: Some(JsonKey(key(line))), ..FailedObject::default() },
    }
}

fn is_of_blob(line: &Line) -> bool {
    matches!(line.operation, LineOperation::Blob(_))
}

/// The error text about a line.
fn sentence(line: &Line, error: &Error) -> String {
    let text = error.to_string();
    if is_of_blob(line) { of_blob(&text) } else { text }
}

/// Prints a committed transaction.
pub(super) fn committed(
    is_json: bool,
    lines: &[Line],
    outcomes: &[LineResult],
    committed: &CommittedTransaction,
) -> Result<CommandEnding, CommandError> {
    if !outcomes.iter().all(LineResult::is_read) {
        output::note_done(output::WRITE);
    }
    let mut ending = CommandEnding::Done;
    let mut results = Vec::with_capacity(lines.len());
    for (line, result) in lines.iter().zip(outcomes) {
        let shown = OperationOutput {
            operation: line.operation.name(),
            about: about(line),
            ..OperationOutput::default()
        };
        let shown = match one(result, committed) {
            Ok(one) => OperationOutput { operation: shown.operation, about: shown.about, ..one },
            Err(error) => {
                ending = CommandEnding::No;
                let text = format!(
                    "line {}: {}; the other operations are done",
                    line.number,
                    sentence(line, &error)
                );
                output::problem(&format!("zerohop: {text}"));
                OperationOutput {
                    done: Some(false),
                    reason: Some(reason(&error)),
                    error: Some(text),
                    ..shown
                }
            }
        };
        if !is_json {
            text(line, &shown)?;
        }
        results.push(shown);
    }
    if is_json {
        output::json(&TxnOutput { done: true, version: committed.version().to_string(), results })?;
    }
    Ok(ending)
}

/// The return value of one operation.
fn one<'a>(result: &'a LineResult, committed: &CommittedTransaction) -> Result<OperationOutput<'a>, Error> {
    let done = OperationOutput { done: Some(true), ..OperationOutput::default() };
    Ok(match result {
        LineResult::Record(None) => OperationOutput { found: Some(false), ..OperationOutput::default() },
        LineResult::Record(Some(record)) => contents(record),
        LineResult::RemovedRecord(None) => removed(false),
        LineResult::RemovedRecord(Some(record)) => OperationOutput { done: Some(true), ..contents(record) },
        LineResult::Version(promise) => committed.result(promise).map(|_| done)?,
        LineResult::Removed(promise) => removed(committed.result(promise)?),
        LineResult::Length(promise) => OperationOutput { length: Some(committed.result(promise)?), ..done },
        LineResult::Sum(promise) => {
            OperationOutput { number: Some(committed.result(promise)?.into()), ..done }
        }
        LineResult::Number(number) | LineResult::Blob(blob::BlobResult::Number(number)) => {
            OperationOutput { number: Some(number(committed)?), ..done }
        }
        LineResult::Checked => done,
        LineResult::Blob(blob::BlobResult::Done) => done,
        LineResult::Blob(blob::BlobResult::At(offset)) => OperationOutput { at: Some(*offset), ..done },
        LineResult::Blob(blob::BlobResult::Found(found)) => removed(*found),
        LineResult::Blob(blob::BlobResult::Size(size)) => {
            OperationOutput { found: Some(size.is_some()), size: *size, ..OperationOutput::default() }
        }
        LineResult::Blob(blob::BlobResult::Bytes(bytes)) => OperationOutput {
            length: Some(bytes.len() as u64),
            value: Some(JsonValue(bytes)),
            ..OperationOutput::default()
        },
    })
}

/// A record that was read.
fn contents(record: &Record) -> OperationOutput<'_> {
    match record {
        Record::Bytes { length, bytes, .. } => OperationOutput {
            found: Some(true),
            record: Some("bytes"),
            length: Some(*length),
            value: Some(JsonValue(bytes)),
            ..OperationOutput::default()
        },
        Record::List { length, values, .. } => OperationOutput {
            found: Some(true),
            record: Some("list"),
            length: Some(*length),
            values: Some(values.iter().map(|value| JsonValue(value)).collect()),
            ..OperationOutput::default()
        },
    }
}

/// A removal: nothing is done if there was nothing.
fn removed<'a>(found: bool) -> OperationOutput<'a> {
    let reason = (!found).then(|| "not_found".to_owned());
    OperationOutput { done: Some(found), found: Some(found), reason, ..OperationOutput::default() }
}

/// Prints values of lookups, lengths and sums as text, each with a line feed behind it, and what was not there; other
/// operations print nothing.
fn text(line: &Line, shown: &OperationOutput<'_>) -> Result<(), CommandError> {
    let place = format!("zerohop: line {}", line.number);
    match shown {
        OperationOutput { value: Some(value), .. } => output::raw(&[value.0, b"\n"])?,
        OperationOutput { values: Some(values), .. } => {
            values.iter().try_for_each(|value| output::raw(&[value.0, b"\n"]))?;
        }
        OperationOutput { number: Some(number), .. } => match number {
            serde_json::Value::String(text) => output::result(text)?,
            number => output::result(&number.to_string())?,
        },
        OperationOutput { length: Some(number), .. }
        | OperationOutput { size: Some(number), .. }
        | OperationOutput { at: Some(number), .. } => {
            output::result(&number.to_string())?;
        }
        OperationOutput { operation: "blob stat" | "blob rm", found: Some(false), .. } => {
            let name = names::beginning(key(line));
            output::problem(&format!("{place}: blob {name}: there is no such blob"));
        }
        OperationOutput { operation: "lookup" | "remove" | "take", found: Some(false), .. } => {
            let key = names::beginning(key(line));
            output::problem(&format!("{place}: key {key}: there is no record of this key"));
        }
        _ => {}
    }
    Ok(())
}

/// Prints that a check failed: nothing was changed.
pub(super) fn failed(is_json: bool, line: &Line, found: Option<Info>) -> Result<CommandEnding, CommandError> {
    let version = found.map(|info| info.version.to_string());
    if is_json {
        output::json(&TxnRefusal {
            done: false,
            reason: "check_failed",
            line: Some(line.number),
            about: about(line),
            found: Some(found.is_some()),
            version,
            record: found.map(|info| type_name(info.record)),
            error: None,
        })?;
    } else {
        let there = version.map_or("no record".to_owned(), |version| format!("version {version}"));
        let key = names::beginning(key(line));
        output::problem(&format!(
            "zerohop: line {}: the check failed: key {key} has {there}; nothing was done",
            line.number
        ));
    }
    Ok(CommandEnding::No)
}

/// The line that an error is about, if it can be derived from the lines and their progress.
fn line_of<'l>((lines, progress): (&'l [Line], &TxnProgress), error: &Error) -> Option<&'l Line> {
    if let Error::Operation { reason, .. } = error
        && let Reason::Aborted { item: Some(write), .. } = &**reason
    {
        // A line may make several writes.
        return lines.iter().zip(&progress.ends).find(|(_, end)| *end > write).map(|(line, _)| line);
    }
    let about = match error {
        Error::Operation { key, .. } => key.as_deref(),
        Error::Blob { name, .. } => Some(&**name),
        Error::NotReadBack { key } => Some(&**key),
        _ => None,
    };
    // While a later line is added, an earlier operation may be refused: its key differs from that
    // line's.
    let is_about = |line: &&Line| about.is_none_or(|about| first_bytes(key(line)) == first_bytes(about));
    let stuck = progress.stuck_at.and_then(|place| lines.get(place)).filter(is_about);
    stuck.or_else(|| {
        // A read that has changed, or a refusal by the client itself: the line is known if its key
        // is in one line only.
        let mut same = lines.iter().filter(|line| about.is_some() && is_about(line));
        same.next().filter(|_| same.next().is_none())
    })
}

/// Prints why nothing was changed: a condition failed, or the transaction was impossible. `why`: what is wrong with the cluster.
pub(super) fn refused(
    is_json: bool,
    lines: (&[Line], &TxnProgress),
    (error, why): (Error, Option<String>),
) -> Result<CommandEnding, CommandError> {
    let line = line_of(lines, &error);
    let blob_line = line.filter(|line| is_of_blob(line));
    if let Some((line, no)) = blob_line.zip(NoBlob::of(&error)) {
        return no.show(is_json, line);
    }
    let Error::Operation { key: named, reason } = &error else {
        let Some(line) = line else { return Err(error.into()) };
        let message = format!("line {}: {}; nothing was done", line.number, sentence(line, &error));
        return Err(refusal(is_json, line, &error, message)?);
    };
    let is_condition = matches!(**reason, Reason::Aborted { reason: AbortReason::ConditionFailed, .. });
    match line {
        _ if is_condition && is_json => {
            let named = FailedObject { key: named.as_deref().map(JsonKey), ..FailedObject::default() };
            let (line, about) = (line.map(|line| line.number), line.map_or(named, about));
            output::json(&TxnRefusal { reason: "condition_failed", line, about, ..TxnRefusal::default() })?;
        }
        Some(line) if is_condition => {
            let key = names::beginning(key(line));
            let number = line.number;
            output::problem(&format!(
                "zerohop: line {number}: the condition fails for key {key}; nothing was done"
            ));
        }
        None if is_condition => output::problem(&format!("zerohop: {error}")),
        // The number of a write is internal to the library; the line's number says more.
        Some(line) if !error.is_unknown() => {
            let message = match &**reason {
                Reason::Aborted { reason, item: Some(_) } => {
                    let key = names::beginning(key(line));
                    let noun = if is_of_blob(line) { "blob" } else { "key" };
                    format!("line {}: {noun} {key}: the transaction was not done: {reason}", line.number)
                }
                Reason::Answer { .. } => {
                    format!("line {}: {}; nothing was done", line.number, sentence(line, &error))
                }
                _ => format!("line {}: {}", line.number, sentence(line, &error)),
            };
            let message = why.map_or(message.clone(), |why| format!("{message}. {why}"));
            return Err(refusal(is_json, line, &error, message)?);
        }
        _ => return Err(outage::explain(error.into(), why)),
    }
    Ok(CommandEnding::No)
}

/// The error about a line, which is printed as JSON if that is asked for.
fn refusal(is_json: bool, line: &Line, error: &Error, message: String) -> Result<CommandError, CommandError> {
    if is_json {
        let (reason, about) = (failure::of_client(error), about(line));
        let line = Some(line.number);
        output::json(&TxnRefusal {
            reason,
            line,
            about,
            error: Some(message.clone()),
            ..TxnRefusal::default()
        })?;
    }
    Ok(CommandError::Refused(message))
}

/// Why a blob is not in the state that a line requires: nothing was changed.
enum NoBlob {
    Absent,
    There,
}

impl NoBlob {
    fn of(error: &Error) -> Option<NoBlob> {
        match error.failure()? {
            Failure::NotFound => Some(NoBlob::Absent),
            Failure::ConditionFailed { .. } => Some(NoBlob::There),
            _ => None,
        }
    }

    fn show(self, is_json: bool, line: &Line) -> Result<CommandEnding, CommandError> {
        let (reason, explanation) = match self {
            NoBlob::Absent => ("not_found", "there is no such blob"),
            NoBlob::There => (EXISTS, "there is one of this name"),
        };
        if is_json {
            let (number, about) = (Some(line.number), about(line));
            output::json(&TxnRefusal { reason, line: number, about, ..TxnRefusal::default() })?;
        } else {
            let name = names::beginning(key(line));
            output::problem(&format!(
                "zerohop: line {}: blob {name}: {explanation}; nothing was done",
                line.number
            ));
        }
        Ok(CommandEnding::No)
    }
}

fn reason(error: &Error) -> String {
    match error.failure() {
        Some(Failure::NotFound) => "not_found".to_owned(),
        Some(Failure::WrongType { .. }) => "wrong_type".to_owned(),
        Some(Failure::NotANumber) => "not_a_number".to_owned(),
        Some(Failure::Overflow) => "overflow".to_owned(),
        _ => error.to_string(),
    }
}
