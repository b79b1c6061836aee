//! `zerohop backup`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_backup::BackupTotals;
use zerohop_client::SnapshotOptions;
use zerohop_wire::limits::SNAPSHOT_AGE_MS_MAX;
use zerohop_wire::plurals::counted;

use super::progress::BackupProgress;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names;
use crate::common::outage;
use crate::common::quantity::{self, format_bytes};
use crate::common::runtime::StopSignals;
use crate::common::target::ClusterTarget;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct BackupArguments {
    /// The folder of the backup. It must be new or empty.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// A keyspace to back up. May be given several times [default: all keyspaces].
    #[arg(short, long, value_name = "NAME")]
    keyspace: Vec<String>,
    /// The folder of an earlier backup of this cluster. Data that has not changed since then is not written again. A
    /// restore needs both folders.
    #[arg(long, value_name = "DIR")]
    since: Option<PathBuf>,
    /// The maximum time of the backup, for which the cluster keeps data that changes meanwhile: 6h, 2d; from 1ms to 7d.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
    within: Duration,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct BackupOutput<'a> {
    folder: &'a str,
    at_ms: u64,
    keyspaces: usize,
    records: u64,
    kept: u64,
    bytes: u64,
    written: u64,
}

/// Parses the maximum time. For clap.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let time = quantity::duration_above_zero(text)?;
    match u64::try_from(time.as_millis()) {
        Ok(ms) if ms <= SNAPSHOT_AGE_MS_MAX => Ok(time),
        _ => Err("the cluster keeps data for a backup for at most 7d".to_owned()),
    }
}

pub(crate) async fn run(arguments: BackupArguments) -> Result<CommandEnding, CommandError> {
    let BackupArguments { folder, keyspace, since, within, target, json } = arguments;
    let mut signals = StopSignals::new()?;
    let opened = async {
        let client = target.connect().await?;
        let targets = super::keyspaces(&client, &keyspace).await?;
        Ok((client, targets))
    };
    let (client, targets) = signals.interrupting(opened).await?;
    let mut shown = BackupProgress::new("backed up");
    let options = SnapshotOptions { age: within, ..SnapshotOptions::default() };
    let mut tell = |progress| shown.update(progress);
    let backup = zerohop_backup::create(&client, &targets, (&folder, since.as_deref()), options, &mut tell);
    let totals = tokio::select! {
        totals = backup => match totals {
            Ok(totals) => Some(totals),
            Err(error) => return Err(outage::explained(&target, error.into()).await),
        },
        // Dropping the writer removes what was written.
        () = signals.received() => None,
    };
    drop(shown);
    let Some(BackupTotals { at_ms, records, unchanged: kept, bytes, written }) = totals else {
        output::problem("zerohop: interrupted; what was written of the backup is removed");
        return Ok(CommandEnding::Interrupted);
    };
    if json {
        let folder = folder.display().to_string();
        let keyspaces = targets.len();
        output::json(&BackupOutput { folder: &folder, at_ms, keyspaces, records, kept, bytes, written })?;
    } else {
        let kept = if since.is_some() { format!(", {kept} of them as before") } else { String::new() };
        output::result(&format!(
            "{}: {}, {}{kept}, {} written",
            names::path(&folder),
            counted(targets.len(), "keyspace"),
            super::records_and_blobs(records),
            format_bytes(written)
        ))?;
    }
    Ok(CommandEnding::Done)
}
