//! `zerohop blob ls`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::Args;
use serde::Serialize;

use super::BlobPlace;
use crate::common::display::Name;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct BlobListArguments {
    /// The prefix of the names [default: none, for all names].
    #[arg(value_name = "PREFIX", allow_hyphen_values = true)]
    prefix: Option<OsString>,
    /// The highest number of names to print [default: no limit].
    #[arg(long, value_name = "NAMES", value_parser = quantity::parse_whole)]
    limit: Option<u64>,
    /// Prints only names that come after this name.
    #[arg(long, value_name = "NAME")]
    after: Option<OsString>,
    /// Prints also the names of unfinished blobs: a put of them is in progress, or its writer ended early. A tab and "unfinished"
    /// follow such a name, except with --null.
    #[arg(long)]
    unfinished: bool,
    /// Prints names as they are, with a zero byte behind each instead of a line feed. Without this option a name that has a line feed or
    /// another control character is printed with escapes (`\n`, `\xNN`). On a terminal so is a name that has a backslash or is not UTF-8.
    #[arg(short = '0', long, conflicts_with = "json")]
    null: bool,
    #[command(flatten)]
    pub(super) place: BlobPlace,
}

#[derive(Serialize)]
struct BlobOutput<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    finished: bool,
}

pub(super) async fn run(arguments: BlobListArguments) -> Result<CommandEnding, CommandError> {
    let place = &arguments.place;
    let keyspace = place.open().await?;
    let bytes = |text: Option<OsString>| text.map(OsString::into_vec).unwrap_or_default();
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut list = keyspace.list_blobs(bytes(arguments.prefix)).behind(bytes(arguments.after));
    if arguments.unfinished {
        list = list.with_unfinished();
    }
    if left < 256 {
        list = list.page_names(left as u32);
    }
    let printed = output::NameList::new(arguments.null);
    while left > 0
        && let Some(names) = list.next_page().await?
    {
        // Without the option the listing has only blobs that are finished.
        let found = match arguments.unfinished {
            true => keyspace
                .stat_blobs(&names)
                .await?
                .into_iter()
                .map(|info| info.map(|info| info.finished))
                .collect(),
            false => vec![Some(true); names.len()],
        };
        let mut out = Vec::new();
        // A blob that was removed meanwhile is left out.
        let listed = names.iter().zip(found).filter_map(|(name, finished)| Some((name, finished?)));
        for (name, finished) in listed.take(usize::try_from(left).unwrap_or(usize::MAX)) {
            if place.json {
                out.extend_from_slice(
                    output::json_text(&BlobOutput { name: Name(name), finished }).as_bytes(),
                );
                out.push(b'\n');
            } else {
                printed.add(&mut out, name, if finished { "" } else { "\tunfinished" });
            }
            left -= 1;
        }
        output::raw(&[&out])?;
    }
    Ok(CommandEnding::Done)
}
