//! `zerohop log append`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::Args;
use serde::Serialize;
use zerohop_layer_log::{LogError, LogRecord};
use zerohop_log_client::LogProducer;
use zerohop_wire::plurals::counted;

use super::place::{LogPlace, log_name, partitions};
use super::refusal::{CommandUse, print_refusal};
use crate::blob::progress::BlobProgress;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{interrupt, lines};
use crate::output;

/// About the most bytes of the numbers of a record in a batch.
const RECORD_FIELDS_BYTES: usize = 32;

#[derive(Args, Debug)]
pub(crate) struct LogAppendArguments {
    /// The log.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    /// The records, which are appended as one batch [default: the lines of standard input]. A record that begins with a hyphen
    /// comes after `--`.
    #[arg(value_name = "RECORD")]
    records: Vec<OsString>,
    /// The key of the records. Records of one key are in one partition.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    key: Option<OsString>,
    /// The partition [default: that of the key; without a key, batches go to the partitions in turn].
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u32>,
    /// A header of the records, as NAME=VALUE. The option may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

/// The partitions that the text names; JSON names all.
const NAMED_MAX: usize = 8;

/// The JSON of a batch that was appended. An input without records has one line, without a partition and offset.
#[derive(Serialize)]
struct LogAppendOutput {
    partition: Option<u32>,
    offset: Option<u64>,
    records: usize,
    done: bool,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a header is NAME=VALUE".to_owned()),
    }
}

/// What one partition has got.
#[derive(Clone, Copy, Debug)]
struct AppendedRecords {
    /// The offset of the first record.
    first: u64,
    records: u64,
}

/// Appends batches, and counts them.
struct Appender {
    producer: LogProducer,
    partition: Option<u32>,
    key: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    /// By partition.
    appended: BTreeMap<u32, AppendedRecords>,
    progress: BlobProgress,
}

pub(super) async fn run(arguments: LogAppendArguments) -> Result<CommandEnding, CommandError> {
    let LogAppendArguments { name, records, key, partition, header, place } = arguments;
    let log = match place.open(&name).await? {
        Ok(log) => log,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    if let Err(refusal) = partitions(&log, partition) {
        return refusal.print(place.json, &name);
    }
    let mut appender = Appender {
        producer: LogProducer::new(log),
        partition,
        key: key.map(OsString::into_vec),
        headers: header.into_iter().map(|(name, value)| (name, Some(value.into_bytes()))).collect(),
        appended: BTreeMap::new(),
        progress: BlobProgress::new("appended", None),
    };
    if records.is_empty() {
        lines::prompt("record");
        let mut groups = lines::of_standard_input(appender.producer.limits().bytes);
        while let Some(lines) = groups.recv().await {
            if let Err(error) = appender.append_lines(&place, lines?).await? {
                return print_refusal(place.json, &name, CommandUse::Write, error);
            }
        }
    } else {
        let records = records.into_iter().map(OsString::into_vec).collect();
        if let Err(error) = appender.append(&place, records).await? {
            return print_refusal(place.json, &name, CommandUse::Write, error);
        }
    }
    if !place.json {
        if !appender.appended.is_empty() {
            output::note_done(output::WRITE);
        }
        output::result(&sentence(&appender.appended))?;
    } else if appender.appended.is_empty() {
        output::json(&LogAppendOutput { partition: None, offset: None, records: 0, done: true })?;
    }
    Ok(CommandEnding::Done)
}

impl Appender {
    /// Appends lines as batches that are as large as they may be.
    async fn append_lines(
        &mut self,
        place: &LogPlace,
        lines: Vec<Vec<u8>>,
    ) -> Result<Result<(), LogError>, CommandError> {
        let limits = *self.producer.limits();
        let headers =
            self.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len) + 16);
        let fixed = RECORD_FIELDS_BYTES + self.key.as_ref().map_or(0, Vec::len) + headers.sum::<usize>();
        let (mut batch, mut bytes) = (Vec::new(), RECORD_FIELDS_BYTES * 2);
        for line in lines {
            let more = fixed + line.len();
            let is_full = bytes + more > limits.bytes || batch.len() as u64 >= u64::from(limits.records);
            if is_full && !batch.is_empty() {
                if let Err(error) = self.append(place, std::mem::take(&mut batch)).await? {
                    return Ok(Err(error));
                }
                bytes = RECORD_FIELDS_BYTES * 2;
            }
            bytes += more;
            batch.push(line);
        }
        if batch.is_empty() { Ok(Ok(())) } else { self.append(place, batch).await }
    }

    /// Appends values as one batch.
    async fn append(
        &mut self,
        place: &LogPlace,
        values: Vec<Vec<u8>>,
    ) -> Result<Result<(), LogError>, CommandError> {
        let time = self.producer.log().now();
        let (count, bytes) = (values.len(), values.iter().map(Vec::len).sum());
        let record = |value| LogRecord {
            time,
            key: self.key.clone(),
            value: Some(value),
            headers: self.headers.clone(),
        };
        let records: Vec<LogRecord> = values.into_iter().map(record).collect();
        let partition = match self.partition {
            Some(partition) => partition,
            None => self.producer.choose_partition(self.key.as_deref()),
        };
        let until = place.until(self.producer.log());
        interrupt::note_sent(output::WRITE);
        let appended = match self.producer.append(partition, &records, until).await {
            Ok(appended) => appended,
            Err(error) => return Ok(Err(error)),
        };
        let first = AppendedRecords { first: appended.base, records: 0 };
        self.appended.entry(partition).or_insert(first).records += count as u64;
        self.progress.add(bytes);
        if place.json {
            output::note_done(output::WRITE);
            let (partition, offset) = (Some(partition), Some(appended.base));
            output::json(&LogAppendOutput { partition, offset, records: count, done: true })?;
        }
        Ok(Ok(()))
    }
}

/// How many records each partition has got, and from which offset on.
fn sentence(appended: &BTreeMap<u32, AppendedRecords>) -> String {
    let text =
        format!("{} appended", counted(appended.values().map(|one| one.records).sum::<u64>(), "record"));
    let mut partitions = appended.iter();
    match (partitions.next(), partitions.next()) {
        (None, _) => return text,
        (Some((partition, AppendedRecords { first, .. })), None) => {
            return format!("{text}, the first one at offset {first} of partition {partition}");
        }
        _ => {}
    }
    let named = appended.iter().take(NAMED_MAX).map(|(partition, AppendedRecords { first, records })| {
        format!("{records} from offset {first} of partition {partition} on")
    });
    let mut parts: Vec<String> = named.collect();
    if let Some(more) = appended.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let records: u64 = appended.values().skip(NAMED_MAX).map(|one| one.records).sum();
        parts.push(format!("{records} in {}, which --json names", counted(more, "other partition")));
    }
    format!("{text}: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_names_the_partitions_and_their_first_offsets() {
        let of = |partitions: u32| {
            let one =
                |at: u32| (at, AppendedRecords { first: u64::from(at) * 10, records: u64::from(at) + 1 });
            sentence(&(0..partitions).map(one).collect())
        };
        assert_eq!(of(0), "0 records appended");
        assert_eq!(of(1), "1 record appended, the first one at offset 0 of partition 0");
        let two = "3 records appended: 1 from offset 0 of partition 0 on, 2 from offset 10 of partition 1 on";
        assert_eq!(of(2), two);
        let many = of(10);
        assert!(many.starts_with("55 records appended: 1 from offset 0 of partition 0 on, "), "{many}");
        assert!(many.ends_with(", 19 in 2 other partitions, which --json names"), "{many}");
    }
}
