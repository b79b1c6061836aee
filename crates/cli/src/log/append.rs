//! `zerohop log append`.

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

/// The JSON of a batch that was appended.
#[derive(Serialize)]
struct LogAppendOutput {
    partition: u32,
    offset: u64,
    records: usize,
    done: bool,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a header is NAME=VALUE".to_owned()),
    }
}

/// Appends batches, and counts them.
struct Appender {
    producer: LogProducer,
    partition: Option<u32>,
    key: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    records: u64,
    /// Partition and offset of the first record.
    first: Option<(u32, u64)>,
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
        records: 0,
        first: None,
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
        if appender.first.is_some() {
            output::note_done(output::WRITE);
        }
        let counts = counted(appender.records, "record");
        output::result(&match appender.first {
            Some((partition, offset)) => {
                format!("{counts} appended, the first one at offset {offset} of partition {partition}")
            }
            None => format!("{counts} appended"),
        })?;
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
        self.records += count as u64;
        self.first.get_or_insert((partition, appended.base));
        self.progress.add(bytes);
        if place.json {
            output::note_done(output::WRITE);
            output::json(&LogAppendOutput { partition, offset: appended.base, records: count, done: true })?;
        }
        Ok(Ok(()))
    }
}
