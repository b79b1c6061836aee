//! `zerohop restore`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zerohop_backup::format::manifest;
use zerohop_backup::{Chain, Progress};
use zerohop_client::{Client, Keyspace};
use zerohop_wire::admin::KeyspaceSettings;

use super::progress::Shown;
use crate::common::admin;
use crate::common::ending::{CommandError, Ending};
use crate::common::quantity::shown_bytes;
use crate::common::runtime::StopSignals;
use crate::common::target::Target;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct RestoreArguments {
    /// The folder of the backup.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// A keyspace of the backup; may be given several times. All, if none is given.
    #[arg(short, long, value_name = "NAME")]
    keyspace: Vec<String>,
    /// Restores the one keyspace that was named under this name.
    #[arg(long = "as", value_name = "NAME", requires = "keyspace")]
    renamed: Option<String>,
    /// The folder of a backup that this one goes on from, if it is not where it was; may be given several times.
    #[arg(long, value_name = "DIR")]
    base: Vec<PathBuf>,
    /// Restores into keyspaces that hold something: records and blobs of the backup replace those of the same key, and all
    /// others stay.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    target: Target,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shows {
    at_ms: u64,
    keyspaces: Vec<One>,
}

#[derive(Serialize)]
struct One {
    name: String,
    made: bool,
    records: u64,
    bytes: u64,
}

pub(crate) async fn run(arguments: RestoreArguments) -> Result<Ending, CommandError> {
    if arguments.renamed.is_some() && arguments.keyspace.len() != 1 {
        return Err(CommandError::Usage("--as wants one --keyspace".to_owned()));
    }
    // Nothing is written before all of it is known to be whole. Until then nothing is to be said of an interruption, which ends it.
    let chain = checked(&arguments)?;
    let mut signals = StopSignals::new()?;
    let name = arguments.folder.display().to_string();
    let ended = tokio::select! {
        ended = restore(&chain, arguments) => Some(ended),
        () = signals.come() => None,
    };
    ended.unwrap_or_else(|| {
        output::problem(&format!(
            "zerohop: interrupted; a keyspace may be half restored: `zerohop restore {name}` again makes it whole"
        ));
        Ok(Ending::Interrupted)
    })
}

fn checked(arguments: &RestoreArguments) -> Result<Chain, CommandError> {
    let mut shown = Shown::new("checked files");
    let mut progress = Progress::default();
    let chain = zerohop_backup::check(&arguments.folder, &arguments.base, &mut |_, bytes| {
        progress = Progress { records: progress.records + 1, bytes: progress.bytes + bytes };
        shown.tell(progress);
    })?;
    Ok(chain)
}

async fn restore(chain: &Chain, arguments: RestoreArguments) -> Result<Ending, CommandError> {
    let RestoreArguments { keyspace, renamed, overwrite, target, json, .. } = arguments;
    let manifest = chain.newest();
    if let Some(name) = keyspace.iter().find(|name| !manifest.keyspaces.iter().any(|one| one.name == **name))
    {
        return Err(CommandError::Refused(format!("the backup has no keyspace {name:?}")));
    }
    let client = target.connect().await?;
    let mut shown = Shown::new("restored");
    let mut all = Vec::new();
    for (place, settings) in (0..).zip(&manifest.keyspaces) {
        if !keyspace.is_empty() && !keyspace.contains(&settings.name) {
            continue;
        }
        let name = renamed.as_ref().unwrap_or(&settings.name);
        let (into, made) = open_or_make(&client, name, settings).await?;
        let mut tell = |progress| shown.tell(progress);
        let restored = zerohop_backup::restore(chain, place, &into, overwrite, &mut tell).await?;
        let (name, zerohop_backup::Restored { records, bytes }) = (name.clone(), restored);
        all.push(One { name, made, records, bytes });
    }
    drop(shown);
    if json {
        output::json(&Shows { at_ms: manifest.at_ms, keyspaces: all })?;
    } else {
        for One { name, made, records, bytes } in &all {
            let made = if *made { "made, " } else { "" };
            output::result(&format!("{name}: {made}{records} records and blobs, {}", shown_bytes(*bytes)))?;
        }
    }
    Ok(Ending::Done)
}

/// The keyspace of this name; one that is not there is made as the one that was backed up was.
async fn open_or_make(
    client: &Client,
    name: &str,
    settings: &manifest::Keyspace,
) -> Result<(Keyspace, bool), CommandError> {
    let all = admin::status(client).await?.keyspaces;
    let made = !all.iter().any(|one| one.name == name);
    if made {
        let manifest::Keyspace { partitions, hash, replicas, min_in_sync, durability, chunk_bytes, .. } =
            settings.clone();
        let settings = KeyspaceSettings {
            name: name.to_owned(),
            partitions: Some(partitions),
            hash: Some(hash),
            replicas: Some(replicas),
            min_in_sync: Some(min_in_sync),
            durability: Some(durability),
            chunk_bytes: Some(chunk_bytes),
        };
        admin::create(client, settings).await?;
    }
    Ok((client.keyspace(name).await?, made))
}
