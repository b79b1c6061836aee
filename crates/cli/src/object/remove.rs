//! `zerohop object rm`.

use clap::Args;
use serde::Serialize;
use zerohop_objects::ObjectError;
use zerohop_wire::plurals::counted;

use super::list::NamePages;
use super::place::{self, ObjectAddress, ObjectPlace};
use super::refusal::{CommandKind, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::output;

/// Removals in flight.
const REMOVALS_AT_ONCE: usize = 16;

#[derive(Args, Debug)]
pub(crate) struct ObjectRemoveArguments {
    /// The object; with --recursive a bucket, or a prefix of names in it.
    #[arg(value_name = "BUCKET/NAME", value_parser = place::prefix)]
    object: ObjectAddress,
    /// Removes all objects whose names begin with NAME, one by one.
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    pub(super) place: ObjectPlace,
}

#[derive(Serialize)]
struct ObjectRemoveOutput<'a> {
    #[serde(flatten)]
    address: &'a ObjectAddress,
    done: bool,
    removed: u64,
}

pub(super) async fn run(arguments: ObjectRemoveArguments) -> Result<CommandEnding, CommandError> {
    let ObjectRemoveArguments { object, recursive, place } = arguments;
    if object.name.is_none() && !recursive {
        let wrong =
            "an object is named as BUCKET/NAME; --recursive removes all objects of a bucket".to_owned();
        return Err(CommandError::Usage(wrong));
    }
    let objects = place.open().await?;
    let (bucket, name) = object.object();
    interrupt::note_sent(output::WRITE);
    let mut removed = 0;
    if recursive {
        let mut pages = NamePages::new(&objects, (bucket.clone(), name));
        loop {
            let page = match pages.next().await {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(error) => return print_refusal(&place, &object, CommandKind::Write, error),
            };
            for names in page.chunks(REMOVALS_AT_ONCE) {
                let mut deletions = tokio::task::JoinSet::new();
                for name in names {
                    let (objects, bucket, name) = (objects.clone(), bucket.clone(), name.clone());
                    deletions.spawn(async move { objects.delete(bucket, name).await });
                }
                while let Some(deleted) = deletions.join_next().await {
                    let deleted = deleted.map_err(|error| CommandError::Node(error.to_string()))?;
                    match deleted {
                        Ok(was_there) => removed += u64::from(was_there),
                        Err(error) => return print_refusal(&place, &object, CommandKind::Write, error),
                    }
                }
            }
        }
    } else {
        match objects.delete(bucket, name).await {
            Ok(true) => removed = 1,
            Ok(false) => {
                return print_refusal(&place, &object, CommandKind::Write, ObjectError::NoSuchObject);
            }
            Err(error) => return print_refusal(&place, &object, CommandKind::Write, error),
        }
    }
    output::note_done(output::WRITE);
    if place.json {
        output::json(&ObjectRemoveOutput { address: &object, done: true, removed })?;
    } else if recursive {
        output::result(&format!("{} removed", counted(removed, "object")))?;
    }
    Ok(CommandEnding::Done)
}
