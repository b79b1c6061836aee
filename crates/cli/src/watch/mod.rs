//! `zerohop watch` and `zerohop watch list`.

mod cursor_file;
mod list;
mod records;

use std::ffi::OsString;
use std::ops::Bound;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use zerohop_client::{
    ChangeCause, ChangedRecord, Client, KeyRange, Timestamp, Watch, WatchEvent, WatchOptions,
};
use zerohop_wire::ids::KeyspaceId;

use crate::common::display::{JsonKey, JsonValue};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::failure::{self, FailedObject};
use crate::common::names;
use crate::common::outage;
use crate::common::quantity;
use crate::common::runtime::StopSignals;
use crate::common::target::ClusterTarget;
use crate::kv::refusal::type_name;
use crate::output;
use cursor_file::CursorFile;
use list::WatchListArguments;
use records::RecordList;

/// The most changes of a page.
const PAGE_CHANGES: u32 = 1024;

#[derive(Debug, Subcommand)]
pub(crate) enum WatchCommand {
    /// Lists the watches of all clients, and how far they are behind.
    ///
    /// There is a line for each connection of a client to an instance: the keyspace, the name of the client's token (`secret`: it knows
    /// the cluster's secret), its address, the keys that it watches, the instance, the partitions that it follows there, the changes that
    /// it has not got yet, whatever their keys, and the time since the oldest of them. The list needs the permission `admin` in all
    /// keyspaces.
    List(WatchListArguments),
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WatchArguments {
    #[command(subcommand)]
    command: Option<WatchCommand>,
    /// The prefix of the keys. Behind `--` it may be `list` or `help`, or begin with a dash [default: none, for all keys].
    #[arg(value_name = "PREFIX")]
    prefix: Option<OsString>,
    /// Only keys at or above this one, by their bytes.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,
    /// Only keys below this one.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,
    /// Continues at the position in this file, if it exists, and keeps the position of what was printed there. After a
    /// kill, changes of the last second may be printed again. Each watch needs a file of its own.
    #[arg(long, value_name = "FILE")]
    cursor: Option<PathBuf>,
    /// Prints the records first, as of one moment, and then each change since. If the file of `--cursor` has a position, the
    /// watch continues there instead.
    #[arg(long)]
    records: bool,
    /// Prints marks too: all changes up to the timestamp of a mark were printed before it.
    #[arg(long)]
    marks: bool,
    /// Prints keys without their values.
    #[arg(long)]
    no_values: bool,
    /// Ends once so many changes were printed, with the page that has the last of them [default: no limit].
    #[arg(long, value_name = "CHANGES", value_parser = quantity::parse_whole)]
    limit: Option<u64>,
    /// The keyspace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    keyspace: String,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON, one object a line. Bytes that are not UTF-8 are in fields whose names end in _base64.
    #[arg(long)]
    json: bool,
}

/// A line of JSON for a change.
#[derive(Serialize)]
struct ChangeOutput<'a> {
    /// `put` or `remove`.
    event: &'static str,
    #[serde(flatten)]
    key: JsonKey<'a>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    record: Option<&'static str>,
    /// The version of the record from then on; of a removal, when it was made.
    version: String,
    /// The version before; absent if there was no record.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    cause: &'static str,
    partition: u32,
    index: u64,
    #[serde(flatten)]
    value: Option<JsonValue<'a>>,
}

/// A line of JSON for a mark.
#[derive(Serialize)]
struct MarkOutput {
    event: &'static str,
    through: String,
}

impl WatchArguments {
    /// Whether the command handles signals itself.
    pub(crate) fn handles_signals(&self) -> bool {
        self.command.is_none()
    }
}

pub(crate) async fn run(mut arguments: WatchArguments) -> Result<CommandEnding, CommandError> {
    if let Some(WatchCommand::List(arguments)) = arguments.command.take() {
        return list::run(arguments).await;
    }
    let (keyspace, is_json, target) = (arguments.keyspace.clone(), arguments.json, arguments.target.clone());
    let cursor = arguments.cursor.clone();
    let error = match watch(arguments).await {
        Err(error) => with_way_back(outage::explained(&target, error).await, cursor.as_deref()),
        ending => return ending,
    };
    let reason = failure::reason(&error);
    let error = error.naming(|id| (id != KeyspaceId::NONE).then_some(&*keyspace));
    if is_json {
        failure::print_last(FailedObject::default(), reason, &error);
    }
    Err(error)
}

/// The error with the way to begin again, if the changes behind the position are no longer kept.
fn with_way_back(error: CommandError, cursor: Option<&Path>) -> CommandError {
    let reason = failure::reason(&error);
    if reason != failure::HISTORY_GONE {
        return error;
    }
    let way = match cursor {
        // With a position in the file, --records lists nothing.
        Some(path) => format!(
            "remove the file {} of the cursor, and start the watch again with --records, which prints the records first",
            names::path(path)
        ),
        None => "start the watch again with --records, which prints the records first".to_owned(),
    };
    CommandError::RefusedAs { word: reason, reason: format!("{error}: {way}") }
}

async fn watch(arguments: WatchArguments) -> Result<CommandEnding, CommandError> {
    let mut signals = StopSignals::new()?;
    let WatchArguments {
        prefix,
        from,
        to,
        records,
        cursor,
        marks,
        no_values,
        limit,
        keyspace,
        target,
        json,
        ..
    } = arguments;
    let (mut cursor, position) = match cursor.map(CursorFile::open).transpose()? {
        Some((file, position)) => (Some(file), position),
        None => (None, None),
    };
    let from = from.map_or(Bound::Unbounded, |key| Bound::Included(key.into_vec()));
    let to = to.map_or(Bound::Unbounded, |key| Bound::Excluded(key.into_vec()));
    let range = (from, to);
    let prefix = prefix.map(OsString::into_vec).unwrap_or_default();
    let lists_records = records && position.is_none();
    let options = WatchOptions {
        cursor: position,
        range: KeyRange::of(range.clone()),
        prefix: prefix.clone().into(),
        values: !no_values,
        changes_max: u32::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(u32::MAX).clamp(1, PAGE_CHANGES),
        ..WatchOptions::default()
    };
    let client = target.connect().await?;
    let keyspace = client.keyspace(&keyspace).await?;
    let mut watch = keyspace.watch(options)?;
    let list = RecordList { keyspace: &keyspace, range, prefix, values: !no_values, json };
    let mut left = limit.unwrap_or(u64::MAX);
    let follows = left > 0 || cursor.is_some();
    let first = tokio::select! {
        first = begin(&mut watch, (&client, lists_records.then_some(&list)), (marks, follows)) => first?,
        () = signals.received() => return Ok(CommandEnding::Interrupted),
    };
    left = left.saturating_sub(first.len() as u64);
    print_changes(json, &first)?;
    let mut ending = CommandEnding::Done;
    if let Some((file, position)) = cursor.as_mut().zip(watch.cursor()) {
        // A file that cannot be written is reported soon.
        file.keep(position)?;
        file.write()?;
    }
    while left > 0 {
        let event = tokio::select! {
            event = watch.next() => event,
            () = signals.received() => {
                ending = CommandEnding::Interrupted;
                break;
            }
        };
        match event? {
            WatchEvent::Changes(changes) => {
                left = left.saturating_sub(changes.len() as u64);
                print_changes(json, &changes)?;
            }
            WatchEvent::Mark(through) if marks => print_mark(json, through)?,
            WatchEvent::Mark(_) => {}
        }
        if let Some((file, position)) = cursor.as_mut().zip(watch.cursor()) {
            file.keep(position)?;
        }
    }
    if let Some(file) = &mut cursor {
        file.write()?;
    }
    Ok(ending)
}

/// Begins the watch, and prints the records if they are listed. Returns the changes behind the records, up to the position of the watch: it has none
/// while it may return changes again that the records have.
async fn begin(
    watch: &mut Watch,
    (client, list): (&Client, Option<&RecordList<'_>>),
    (marks, follows): (bool, bool),
) -> Result<Vec<ChangedRecord>, CommandError> {
    let mut changes = Vec::new();
    if follows || list.is_some() {
        watch.begin().await?;
    }
    let Some(list) = list else { return Ok(changes) };
    let snapshot = client.snapshot(&[list.keyspace]).await?;
    list.print(&snapshot).await?;
    let listed = snapshot.at();
    snapshot.close().await?;
    if marks {
        print_mark(list.json, listed)?;
    }
    if !follows {
        return Ok(changes);
    }
    loop {
        match watch.next().await? {
            WatchEvent::Changes(some) => changes.extend(some.into_iter().filter(|change| change.at > listed)),
            WatchEvent::Mark(through) if through >= listed => return Ok(changes),
            WatchEvent::Mark(_) => {}
        }
    }
}

fn print_changes(json: bool, changes: &[ChangedRecord]) -> Result<(), CommandError> {
    let (mut out, printed) = (Vec::new(), output::NameList::new(false));
    for change in changes {
        match json {
            true => add_json(&mut out, &change_output(change)),
            false => add_change(&mut out, &printed, change),
        }
    }
    if out.is_empty() { Ok(()) } else { output::raw(&[&out]) }
}

fn add_json(out: &mut Vec<u8>, line: &impl Serialize) {
    out.extend_from_slice(output::json_text(line).as_bytes());
    out.push(b'\n');
}

/// One line: what happened, the key, and the value if it is known.
fn add_change(out: &mut Vec<u8>, printed: &output::NameList, change: &ChangedRecord) {
    let word = match (change.record, change.cause) {
        (Some(_), _) => "put",
        (None, ChangeCause::Expiry) => "expired",
        (None, ChangeCause::Write) => "removed",
    };
    out.extend_from_slice(word.as_bytes());
    out.push(b'\t');
    match &change.value {
        Some(value) => printed.add_with_value(out, &change.key, value),
        None => printed.add(out, &change.key, ""),
    }
}

fn print_mark(json: bool, through: Timestamp) -> Result<(), CommandError> {
    match json {
        true => output::json(&MarkOutput { event: "mark", through: through.to_string() }),
        false => output::result(&format!("mark\t{through}")),
    }
}

fn change_output(change: &ChangedRecord) -> ChangeOutput<'_> {
    ChangeOutput {
        event: if change.record.is_some() { "put" } else { "remove" },
        key: JsonKey(&change.key),
        record: change.record.map(type_name),
        version: change.at.to_string(),
        before: (change.before != Timestamp::ZERO).then(|| change.before.to_string()),
        cause: change.cause.text(),
        partition: change.partition.0,
        index: change.index,
        value: change.value.as_deref().map(JsonValue),
    }
}
