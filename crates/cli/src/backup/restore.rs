//! `zerohop restore`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zerohop_backup::format::manifest;
use zerohop_backup::{Chain, Progress, RestoreTotals};
use zerohop_client::{Client, DropOptions, Error, Keyspace};
use zerohop_wire::admin::{KeyspaceSettings, REFUSED_UNKNOWN};
use zerohop_wire::plurals::counted;

use super::progress::BackupProgress;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity::format_bytes;
use crate::common::target::ClusterTarget;
use crate::common::{admin, interrupt, names};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct RestoreArguments {
    /// The folder of the backup.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// A keyspace of the backup. May be given several times [default: all keyspaces].
    #[arg(short, long, value_name = "NAME")]
    keyspace: Vec<String>,
    /// Restores one keyspace under this name: the keyspace of --keyspace, or the only keyspace of the backup.
    #[arg(long = "as", value_name = "NAME")]
    renamed: Option<String>,
    /// Number of copies of each created keyspace [default: as in the backup, at most one per node].
    #[arg(long, value_name = "REPLICAS", value_parser = clap::value_parser!(u32).range(1..))]
    replicas: Option<u32>,
    /// The folder of the earlier backup that this backup continues, if it is not beside this one. May be given
    /// several times.
    #[arg(long, value_name = "DIR")]
    base: Vec<PathBuf>,
    /// Restores into keyspaces that are not empty. Records and blobs of the backup replace those with the same key. All
    /// others stay.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RestoreOutput {
    at_ms: u64,
    keyspaces: Vec<RestoredKeyspace>,
}

#[derive(Serialize)]
struct RestoredKeyspace {
    name: String,
    created: bool,
    records: u64,
    bytes: u64,
}

pub(crate) async fn run(arguments: RestoreArguments) -> Result<CommandEnding, CommandError> {
    // The whole backup is verified before anything is written.
    let chain = checked(&arguments)?;
    restore(&chain, arguments).await
}

/// Notes that keyspaces are changed from now on.
fn note_begun() {
    let again = names::this_command();
    interrupt::note_begun(format!(
        "keyspaces may be half restored: the same `{again}` again makes them whole"
    ));
}

fn checked(arguments: &RestoreArguments) -> Result<Chain, CommandError> {
    let mut shown = BackupProgress::new("checked files");
    let mut tell = |done, total| shown.update_bytes(done, total);
    Ok(zerohop_backup::check(&arguments.folder, &arguments.base, &mut tell)?)
}

/// A keyspace of the backup, and its target.
struct RestoreTarget {
    /// Its position in the manifest.
    position: u32,
    /// The settings with which it is created if it does not exist.
    settings: KeyspaceSettings,
}

/// A keyspace of the backup, with the open target keyspace.
struct RestoreKeyspace {
    position: u32,
    name: String,
    into: Keyspace,
    created: bool,
}

async fn restore(chain: &Chain, arguments: RestoreArguments) -> Result<CommandEnding, CommandError> {
    let requested = wanted_keyspaces(chain.newest(), &arguments)?;
    let RestoreArguments { target, json, .. } = &arguments;
    let client = target.connect().await?;
    let opened = open_or_make(&client, requested, &arguments).await?;
    let total = opened.iter().map(|one| chain.records_of(one.position)).fold(0, u64::saturating_add);
    let mut shown = BackupProgress::new("restored").with_total(total);
    let mut all = Vec::new();
    let result = restore_all(chain, &opened, &mut all, &mut |progress| shown.update(progress)).await;
    drop(shown);
    result.map_err(|error| {
        let again = names::this_command();
        let names: Vec<&str> = opened.iter().map(|one| &*one.name).collect();
        let done: Vec<&str> = all.iter().map(|one: &RestoredKeyspace| &*one.name).collect();
        CommandError::Partly(format!(
            "{error}; restored so far: {}; what is in {} is not whole: the same `{again}` again makes it so",
            if done.is_empty() { "no keyspace".to_owned() } else { done.join(", ") },
            names.join(", ")
        ))
    })?;
    interrupt::note_sent(output::COMMAND);
    output::note_done(output::COMMAND);
    if *json {
        output::json(&RestoreOutput { at_ms: chain.newest().at_ms, keyspaces: all })?;
    } else {
        for RestoredKeyspace { name, created, records, bytes } in &all {
            let created = if *created { "created, " } else { "" };
            output::result(&format!(
                "{name}: {created}{}, {}",
                super::records_and_blobs(*records),
                format_bytes(*bytes)
            ))?;
        }
    }
    Ok(CommandEnding::Done)
}

/// Every keyspace is marked before the first record is written and until the last is written. So an
/// interrupted restore is detected, and repeated as a whole.
async fn restore_all(
    chain: &Chain,
    opened: &[RestoreKeyspace],
    all: &mut Vec<RestoredKeyspace>,
    tell: &mut dyn FnMut(Progress),
) -> Result<(), CommandError> {
    note_begun();
    for one in opened {
        zerohop_backup::begin(&one.into).await?;
    }
    let mut before = Progress::default();
    for RestoreKeyspace { position: place, name, into, created } in opened {
        let sum = |one: Progress| Progress {
            records: before.records + one.records,
            bytes: before.bytes + one.bytes,
        };
        let mut tell = |progress| tell(sum(progress));
        let RestoreTotals { records, bytes } =
            zerohop_backup::restore(chain, *place, into, &mut tell).await?;
        before = sum(Progress { records, bytes });
        all.push(RestoredKeyspace { name: name.clone(), created: *created, records, bytes });
    }
    for one in opened {
        zerohop_backup::finish(&one.into).await?;
    }
    Ok(())
}

/// The keyspaces to restore, as the command line names them.
fn wanted_keyspaces(
    manifest: &manifest::Manifest,
    arguments: &RestoreArguments,
) -> Result<Vec<RestoreTarget>, CommandError> {
    let RestoreArguments { keyspace, renamed, replicas, .. } = arguments;
    if let Some(name) = keyspace.iter().find(|name| !manifest.keyspaces.iter().any(|one| one.name == **name))
    {
        return Err(CommandError::Refused(format!(
            "the backup has no keyspace {}",
            names::quoted(name.as_bytes())
        )));
    }
    let is_wanted = |one: &manifest::Keyspace| keyspace.is_empty() || keyspace.contains(&one.name);
    let mut requested = Vec::new();
    for (place, one) in (0..).zip(&manifest.keyspaces).filter(|(_, one)| is_wanted(one)) {
        let manifest::Keyspace { partitions, hash, min_in_sync, durability, chunk_bytes, separators, .. } =
            one.clone();
        let settings = KeyspaceSettings {
            name: renamed.as_ref().unwrap_or(&one.name).clone(),
            partitions: Some(partitions),
            hash: Some(hash),
            replicas: Some(replicas.unwrap_or(one.replicas)),
            min_in_sync: Some(min_in_sync),
            durability: Some(durability),
            chunk_bytes: Some(chunk_bytes),
            split_at: separators,
            ..KeyspaceSettings::default()
        };
        requested.push(RestoreTarget { position: place, settings });
    }
    if renamed.is_some() && requested.len() != 1 {
        let names: Vec<&str> = manifest.keyspaces.iter().map(|one| &*one.name).collect();
        let message =
            format!("--as is for one keyspace: name it with --keyspace; the backup has {}", names.join(", "));
        return Err(CommandError::Usage(message));
    }
    Ok(requested)
}

/// Opens the keyspaces of these names after checking that all of them can be restored, and creates
/// those that do not exist. If one cannot be restored, none is.
async fn open_or_make(
    client: &Client,
    requested: Vec<RestoreTarget>,
    arguments: &RestoreArguments,
) -> Result<Vec<RestoreKeyspace>, CommandError> {
    let status = admin::status(client).await?;
    let nodes = status.nodes.len().max(1) as u32;
    let is_there = |name: &str| status.keyspaces.iter().any(|one| one.name == name);
    let (mut opened, mut missing) = (Vec::new(), Vec::new());
    for RestoreTarget { position: place, mut settings } in requested {
        let name = settings.name.clone();
        if is_there(&name) {
            let into = client.keyspace(&name).await?;
            if !arguments.overwrite && !zerohop_backup::is_free(&into).await? {
                return Err(CommandError::Refused(format!(
                    "the keyspace {name} is not empty: nothing was restored. Restore into another with --as, or replace what has \
                     the same key with --overwrite"
                )));
            }
            opened.push(RestoreKeyspace { position: place, name, into, created: false });
            continue;
        }
        let replicas = settings.replicas.unwrap_or(1);
        if replicas > nodes && arguments.replicas.is_none() {
            output::problem(&format!(
                "WARNING: keyspace {name} is made with {} where it had {replicas}, as the cluster has no more nodes; \
                 once it has, `zerohop keyspace alter {name} --replicas {replicas}` makes more",
                counted(nodes, "copy")
            ));
            settings.replicas = Some(nodes);
        }
        // `min_in_sync` must not exceed the number of copies.
        settings.min_in_sync =
            settings.min_in_sync.map(|least| least.min(settings.replicas.unwrap_or(least)));
        missing.push((place, settings));
    }
    let mut made = Vec::new();
    if !missing.is_empty() {
        note_begun();
    }
    for (place, settings) in missing {
        let name = settings.name.clone();
        let into = match admin::create(client, settings).await {
            Ok(_) => {
                made.push(name.clone());
                client.keyspace(&name).await.map_err(CommandError::from)
            }
            Err(error) => Err(error),
        };
        match into {
            Ok(into) => opened.push(RestoreKeyspace { position: place, name, into, created: true }),
            Err(error) => {
                // If the answer to a create request is missing, another client may have created the
                // keyspace: it is named in the error, and stays.
                let is_open = !made.contains(&name) && matches!(error, CommandError::Client(_));
                let doubtful = is_open.then_some(name);
                return Err(remove_created(client, (&made, doubtful), error, arguments).await);
            }
        }
    }
    opened.sort_by_key(|one| one.position);
    Ok(opened)
}

/// Removes the keyspaces that this command has created, and names those that may still exist.
async fn remove_created(
    client: &Client,
    (made, doubtful): (&[String], Option<String>),
    error: CommandError,
    arguments: &RestoreArguments,
) -> CommandError {
    let mut left = Vec::from_iter(doubtful.as_deref());
    for name in made {
        let options = DropOptions { at_once: true, wait: arguments.target.timeout() };
        match client.drop_keyspace_with(name, options, |_| ()).await {
            Ok(_) => {}
            Err(Error::Refused { code, .. }) if &*code == REFUSED_UNKNOWN => {}
            Err(_) => left.push(name.as_str()),
        }
    }
    match left.is_empty() {
        true => error,
        false => CommandError::Partly(format!(
            "{error}; nothing was restored, but keyspaces were made, and may be there, empty: {}",
            left.join(", ")
        )),
    }
}
