//! `zerohop log groups`.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use zerohop_layer_log::{MemberId, Membership};
use zerohop_log_client::{GroupSummary, PartitionOffset};
use zerohop_wire::plurals::counted;

use super::place::{LogPlace, log_name};
use super::refusal::failed_to_read;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct LogGroupsArguments {
    /// The log.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

/// The JSON of a group.
#[derive(Serialize)]
struct GroupOutput<'a> {
    group: &'a str,
    generation: u64,
    /// The records that the group has not read, of the partitions where it has committed an offset.
    lag: u64,
    members: Vec<MemberOutput>,
    offsets: Vec<OffsetOutput>,
}

#[derive(Serialize)]
struct MemberOutput {
    member: String,
    first_partition: u32,
    partitions: u32,
}

#[derive(Serialize)]
struct OffsetOutput {
    partition: u32,
    offset: u64,
    lag: u64,
}

impl<'a> GroupOutput<'a> {
    fn new(group: &'a str, summary: &GroupSummary) -> Self {
        let offset = |one: &PartitionOffset| OffsetOutput {
            partition: one.partition,
            offset: one.offset,
            lag: one.lag(),
        };
        let member = |(MemberId(id), Membership { partitions, .. }): &(MemberId, Membership)| MemberOutput {
            member: id.iter().fold(String::new(), |mut text, byte| {
                // A string takes everything.
                let _ = write!(text, "{byte:02x}");
                text
            }),
            first_partition: partitions.start,
            partitions: partitions.end - partitions.start,
        };
        let offsets: Vec<OffsetOutput> = summary.offsets.iter().map(offset).collect();
        Self {
            group,
            generation: summary.generation,
            lag: offsets.iter().map(|one| one.lag).sum(),
            members: summary.members.iter().map(member).collect(),
            offsets,
        }
    }
}

pub(super) async fn run(arguments: LogGroupsArguments) -> Result<CommandEnding, CommandError> {
    let LogGroupsArguments { name, place } = arguments;
    let log = match place.open(&name).await? {
        Ok(log) => log,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let groups = log.groups().await.map_err(|error| failed_to_read(&error))?;
    for (group, summary) in &groups {
        let shown = GroupOutput::new(group, summary);
        if place.json {
            output::json(&shown)?;
            continue;
        }
        let mut lines = vec![format!(
            "{}: {}, {} not read",
            names::text(group.as_bytes()),
            counted(shown.members.len() as u64, "member"),
            counted(shown.lag, "record")
        )];
        lines.extend(shown.offsets.iter().map(|one| {
            format!(
                "  partition {}: offset {}, {} not read",
                one.partition,
                one.offset,
                counted(one.lag, "record")
            )
        }));
        output::result(&lines.join("\n"))?;
    }
    Ok(CommandEnding::Done)
}
