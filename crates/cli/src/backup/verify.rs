//! `zerohop verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use zerohop_backup::{BackupError, BackupTotals};
use zerohop_client::{Error, Failure, SnapshotOptions};
use zerohop_wire::admin::NodeStatus;
use zerohop_wire::plurals::{by_number, counted};

use super::compared::{ComparisonTotals, compare};
use super::progress::BackupProgress;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::outage;
use crate::common::quantity::format_bytes;
use crate::common::target::ClusterTarget;
use crate::common::{admin, damaged, names};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct VerifyArguments {
    /// The folder of a backup [default: none, the command checks the data of the cluster].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The folder of the earlier backup that this backup continues. May be given several times [default: its
    /// folder beside DIR].
    #[arg(long, value_name = "DIR", requires = "folder")]
    base: Vec<PathBuf>,
    /// A keyspace of the cluster. May be given several times [default: all keyspaces].
    #[arg(short, long, value_name = "NAME", conflicts_with = "folder")]
    keyspace: Vec<String>,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Default, Serialize)]
struct VerifyOutput {
    intact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Folders that were read, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    folders: Vec<String>,
    at_ms: u64,
    records: u64,
    /// For a cluster: bytes of contents that were read, as of `backup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// For a backup: bytes of all files that were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_bytes: Option<u64>,
    /// For a cluster: what the members of partitions found when they compared their contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<ComparisonTotals>,
    /// Troubles of the nodes since they started, such as a copy that differed from the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    troubles: Vec<String>,
}

pub(crate) async fn run(arguments: VerifyArguments) -> Result<CommandEnding, CommandError> {
    let VerifyArguments { folder, base, keyspace, target, json } = arguments;
    let (shows, summary) = match &folder {
        Some(folder) => of_backup(folder, &base)?,
        None => match of_cluster(&target, &keyspace).await {
            Ok(found) => found,
            Err(error) => return Err(outage::explained(&target, error).await),
        },
    };
    let ending = if shows.intact { CommandEnding::Done } else { CommandEnding::No };
    match (json, shows.intact) {
        (true, _) => output::json(&shows)?,
        (false, true) => output::result(&summary)?,
        (false, false) => output::problem(&summary),
    }
    if !json {
        let differing = shows.compared.iter().flat_map(|compared| &compared.differing);
        differing.for_each(|one| output::problem(&one.sentence()));
        shows.troubles.iter().for_each(|trouble| output::problem(trouble));
    }
    Ok(ending)
}

fn of_backup(folder: &Path, base: &[PathBuf]) -> Result<(VerifyOutput, String), CommandError> {
    let mut shown = BackupProgress::new("checked files");
    let mut file_bytes = 0;
    let checked = zerohop_backup::check(folder, base, &mut |done, total| {
        file_bytes = done;
        shown.update_bytes(done, total);
    });
    drop(shown);
    match checked {
        Ok(chain) => {
            let manifest = chain.newest();
            let records = manifest.parts.iter().map(|part| part.records).sum();
            let folders: Vec<String> = chain.folders().map(|folder| folder.display().to_string()).collect();
            let summary = format!(
                "{}: intact; {}, {}, {} in {}",
                names::path(folder),
                counted(manifest.keyspaces.len(), "keyspace"),
                super::records_and_blobs(records),
                format_bytes(file_bytes),
                counted(folders.len(), "folder")
            );
            let (at_ms, file_bytes) = (manifest.at_ms, Some(file_bytes));
            Ok((
                VerifyOutput { intact: true, folders, at_ms, records, file_bytes, ..VerifyOutput::default() },
                summary,
            ))
        }
        Err(error @ (BackupError::Damaged { .. } | BackupError::Absent(_))) => {
            let summary = error.to_string();
            Ok((VerifyOutput { why: Some(summary.clone()), ..VerifyOutput::default() }, summary))
        }
        Err(error) => Err(error.into()),
    }
}

async fn of_cluster(
    target: &ClusterTarget,
    keyspaces: &[String],
) -> Result<(VerifyOutput, String), CommandError> {
    let client = target.connect().await?;
    let targets = super::keyspaces(&client, keyspaces).await?;
    let mut shown = BackupProgress::new("read");
    let mut tell = |progress| shown.update(progress);
    let read = zerohop_backup::read_all(&client, &targets, SnapshotOptions::default(), &mut tell).await;
    drop(shown);
    let BackupTotals { at_ms, records, bytes, .. } = match read {
        Ok(totals) => totals,
        Err(BackupError::Client(error)) if is_corrupt(&error) => return Ok(cannot_be_read(&error)),
        Err(error) => return Err(error.into()),
    };
    let compared = match compare(&targets).await {
        Ok(compared) => compared,
        Err(error) if is_corrupt(&error) => return Ok(cannot_be_read(&error)),
        Err(error) => return Err(CommandError::Client(error)),
    };
    let mut status = admin::status(&client).await?;
    damaged::find(target, &mut status).await;
    let of = status.keyspaces.iter().filter(|one| keyspaces.is_empty() || keyspaces.contains(&one.name));
    let short: u32 = of.map(|one| one.below_min_in_sync.max(one.rebuilding)).sum();
    let copies = match short {
        0 => "every partition has all its copies".to_owned(),
        short => format!("{} {} copies", counted(short, "partition"), by_number(short, "lacks", "lack")),
    };
    let summary = format!(
        "{}, {}, {}: all was read; {}; {copies}",
        counted(targets.len(), "keyspace"),
        super::records_and_blobs(records),
        format_bytes(bytes),
        compared.sentence()
    );
    let tell = |node: &NodeStatus| {
        let id = node.id;
        node.troubles.iter().map(move |trouble| format!("node {id}: {trouble}")).collect::<Vec<_>>()
    };
    let troubles = status.nodes.iter().flat_map(tell).collect();
    let intact = compared.differing.is_empty();
    let (compared, bytes) = (Some(compared), Some(bytes));
    Ok((
        VerifyOutput { intact, at_ms, records, bytes, compared, troubles, ..VerifyOutput::default() },
        summary,
    ))
}

/// Whether the error says that a partition and all of its other members cannot read the data.
fn is_corrupt(error: &Error) -> bool {
    matches!(error.failure(), Some(Failure::DataCorrupt))
}

fn cannot_be_read(error: &Error) -> (VerifyOutput, String) {
    let summary = error.to_string();
    (VerifyOutput { why: Some(summary.clone()), ..VerifyOutput::default() }, summary)
}
