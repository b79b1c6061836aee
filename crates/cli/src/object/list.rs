//! `zerohop object ls`.

use clap::Args;
use serde::Serialize;
use zerohop_object_client::{ClusterStore, ObjectClient};
use zerohop_objects::{BucketRecord, ListEntry, ListPage, ListRequest, ObjectError, ObjectRecord};
use zerohop_wire::plurals::UtcTime;

use super::place::{self, ObjectAddress, ObjectPlace};
use super::refusal::{CommandKind, failed, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity;
use crate::output;

/// Entries of a page.
const PAGE_ENTRIES: usize = 1000;

#[derive(Args, Debug)]
pub(crate) struct ObjectListArguments {
    /// The bucket, or a prefix of names in it [default: none, for all buckets].
    #[arg(value_name = "BUCKET[/PREFIX]", value_parser = place::prefix)]
    prefix: Option<ObjectAddress>,
    /// Lists all names that begin with the prefix, also those behind the next `/`.
    #[arg(short, long)]
    recursive: bool,
    /// The highest number of lines to print [default: no limit].
    #[arg(long, value_name = "LINES", value_parser = quantity::parse_whole)]
    limit: Option<u64>,
    #[command(flatten)]
    pub(super) place: ObjectPlace,
}

/// The JSON of a line: a bucket, an object or a common prefix.
#[derive(Serialize)]
struct EntryOutput<'a> {
    bucket: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

/// A moment in milliseconds since 1970, to the second.
pub(super) fn utc(ms: u64) -> String {
    UtcTime(ms / 1000).to_string()
}

pub(super) async fn run(arguments: ObjectListArguments) -> Result<CommandEnding, CommandError> {
    let ObjectListArguments { prefix, recursive, limit, place } = arguments;
    let left = limit.unwrap_or(u64::MAX);
    let objects = place.open().await?;
    match prefix {
        None => list_buckets(&objects, &place, left).await.map(|()| CommandEnding::Done),
        Some(address) => list_objects(&objects, &place, &address, recursive, left).await,
    }
}

async fn list_buckets(
    objects: &ObjectClient<ClusterStore>,
    place: &ObjectPlace,
    mut left: u64,
) -> Result<(), CommandError> {
    let mut after: Option<String> = None;
    while left > 0 {
        let page = objects.buckets(after.as_deref(), page_size(left)).await;
        let (buckets, has_more) = page.map_err(|error| failed(CommandKind::Read, &error))?;
        left -= buckets.len() as u64;
        let mut out = String::new();
        for (bucket, BucketRecord { created, .. }) in &buckets {
            out += &match place.json {
                true => output::json_text(&EntryOutput { created_ms: Some(*created), ..entry(bucket) }),
                false => format!("{}  {bucket}", utc(*created)),
            };
            out.push('\n');
        }
        output::raw(&[out.as_bytes()])?;
        match buckets.into_iter().next_back() {
            Some((last, _)) if has_more => after = Some(last),
            _ => break,
        }
    }
    Ok(())
}

async fn list_objects(
    objects: &ObjectClient<ClusterStore>,
    place: &ObjectPlace,
    address: &ObjectAddress,
    recursive: bool,
    mut left: u64,
) -> Result<CommandEnding, CommandError> {
    let mut request = ListRequest {
        bucket: address.bucket.clone(),
        prefix: address.name.clone().unwrap_or_default().into_bytes(),
        delimiter: (!recursive).then(|| b"/".to_vec()),
        after: None,
        after_id: None,
        max: 0,
    };
    while left > 0 {
        request.max = page_size(left);
        let page = match objects.objects(request.clone()).await {
            Ok(page) => page,
            Err(error) => return print_refusal(place, address, CommandKind::Read, error),
        };
        let mut out = Vec::new();
        for entry in &page.entries {
            add_entry(&mut out, place, &address.bucket, entry);
        }
        output::raw(&[&out])?;
        left -= page.entries.len() as u64;
        if !page.is_truncated {
            break;
        }
        request.after = page.entries.last().map(|entry| entry.name().to_vec());
    }
    Ok(CommandEnding::Done)
}

fn add_entry(out: &mut Vec<u8>, place: &ObjectPlace, bucket: &str, listed: &ListEntry<ObjectRecord>) {
    let name = String::from_utf8_lossy(listed.name());
    let printed = output::NameList::new(false);
    match listed {
        ListEntry::Record(_, _, object) if place.json => {
            let shown = EntryOutput {
                name: Some(&name),
                size: Some(object.size),
                modified_ms: Some(object.modified),
                etag: Some(object.etag.to_string()),
                ..entry(bucket)
            };
            out.extend_from_slice(output::json_text(&shown).as_bytes());
            out.push(b'\n');
        }
        ListEntry::Prefix(_) if place.json => {
            let shown = EntryOutput { prefix: Some(&name), ..entry(bucket) };
            out.extend_from_slice(output::json_text(&shown).as_bytes());
            out.push(b'\n');
        }
        ListEntry::Record(_, _, object) => {
            out.extend_from_slice(format!("{}  {:>12}  ", utc(object.modified), object.size).as_bytes());
            printed.add(out, listed.name(), "");
        }
        ListEntry::Prefix(_) => {
            out.extend_from_slice(format!("{:>23}  {:>12}  ", "", "").as_bytes());
            printed.add(out, listed.name(), "");
        }
    }
}

fn entry(bucket: &str) -> EntryOutput<'_> {
    EntryOutput {
        bucket,
        name: None,
        prefix: None,
        size: None,
        modified_ms: None,
        created_ms: None,
        etag: None,
    }
}

fn page_size(left: u64) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(PAGE_ENTRIES)
}

/// All names of objects that begin with a prefix, page after page.
pub(super) struct NamePages<'o> {
    objects: &'o ObjectClient<ClusterStore>,
    request: Option<ListRequest>,
}

impl<'o> NamePages<'o> {
    pub(super) fn new(objects: &'o ObjectClient<ClusterStore>, (bucket, prefix): (String, Vec<u8>)) -> Self {
        let request =
            ListRequest { bucket, prefix, delimiter: None, after: None, after_id: None, max: PAGE_ENTRIES };
        Self { objects, request: Some(request) }
    }

    /// The next names; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>, ObjectError> {
        let Some(request) = &mut self.request else { return Ok(None) };
        let ListPage { entries, is_truncated } = self.objects.objects(request.clone()).await?;
        let page: Vec<Vec<u8>> = entries.iter().map(|entry| entry.name().to_vec()).collect();
        request.after = page.last().cloned();
        if !is_truncated {
            self.request = None;
        }
        Ok(Some(page))
    }
}
