//! `zerohop recover`: partitions that are not served, and the operator's declaration that their
//! missing nodes will not return.

mod acknowledge;
mod control_group;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use zerohop_client::Client;
use zerohop_wire::admin::{DamagedPartition, PartitionStatus, Status};
use zerohop_wire::plurals::{by_number, counted};

use self::acknowledge::AcknowledgeArguments;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::replica_names::Places;
use crate::common::target::ClusterTarget;
use crate::common::{admin, damaged, view};
use crate::output;
use crate::partition::PartitionName;

/// The interval of map polls.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Partitions that are listed; of more, only the first ones.
const LISTED_PARTITIONS_MAX: usize = 20;

/// Why nothing is recovered while nothing is decided.
const NO_QUORUM: &str = "the control group has no quorum: the lost partitions are not known, and none can be recovered, before more \
                         than half of its managers return. If they cannot return: stop the nodes that are left, and run \
                         `zerohop recover --control-group DIR` on the folder of one of the managers (docs/operations.md)";

#[derive(Debug, Subcommand)]
pub(crate) enum RecoverCommand {
    /// Ends the report of missing data after restarts.
    ///
    /// Until then `zerohop status` prints it as TROUBLE, and `top` and the metric `zerohop_troubles` count it, also
    /// after restarts. The command changes only the report. Data that goes missing later is reported again.
    Acknowledge(AcknowledgeArguments),
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RecoverArguments {
    #[command(subcommand)]
    command: Option<RecoverCommand>,
    /// The partitions: KEYSPACE/PARTITION, as in default/17.
    #[arg(value_name = "KEYSPACE/PARTITION", conflicts_with = "all_lost")]
    partitions: Vec<PartitionName>,
    /// All lost partitions. Partitions whose only in-sync copy is damaged must be named one by one.
    #[arg(long)]
    all_lost: bool,
    /// Continues with the most complete other copy that is up, not with the readable part of the damaged copy. It is
    /// for a partition whose only in-sync copy is damaged.
    #[arg(long, requires = "accept_loss", conflicts_with = "all_lost")]
    from_follower: bool,
    /// Creates the control group again from the folder of one of its nodes, if the other managers are permanently lost.
    /// The node must not run. Without --accept-loss, the command only prints what the folder contains.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["partitions", "all_lost"])]
    control_group: Option<PathBuf>,
    /// Continues with the copies that are left. Data that exists only on nodes that are down, or in the damaged part of
    /// an only copy, is lost permanently.
    #[arg(long)]
    accept_loss: bool,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// What is left of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum RemainingCopies {
    /// Copies that are up were in sync, or the most complete of them is known: at most unflushed
    /// writes are lost.
    InSync,
    /// Only followers are up: the latest writes that they had not received are lost.
    Followers,
    /// The readable part of the sole copy, which is corrupt and reports what it lacks.
    Damaged,
    /// Nothing is left.
    Nothing,
}

/// The JSON of a partition.
#[derive(Serialize)]
struct RecoverOutput {
    keyspace: String,
    partition: u32,
    /// Members that are down.
    down: Vec<u32>,
    /// Members that are up.
    up: Vec<u32>,
    left: RemainingCopies,
    /// What its sole copy lacks, if that is up and corrupt.
    damaged: Option<RecoverDamage>,
    /// Whether it continues without the members that are down, or without the corrupt data.
    recovered: bool,
    /// The instance that serves it then.
    primary: Option<u32>,
}

/// What a corrupt copy lacks.
#[derive(Serialize)]
struct RecoverDamage {
    instance: u32,
    found: u64,
    named: Vec<String>,
}

/// The JSON where no partition is lost or damaged: how many are, and what is reported missing until it is acknowledged.
#[derive(Serialize)]
struct NothingToRecover<'s> {
    lost: usize,
    damaged: usize,
    missing: Vec<&'s str>,
}

struct LostPartition {
    name: PartitionName,
    status: PartitionStatus,
    damaged: Option<DamagedPartition>,
}

pub(crate) async fn run(arguments: RecoverArguments) -> Result<CommandEnding, CommandError> {
    let RecoverArguments {
        command,
        partitions,
        all_lost,
        from_follower,
        control_group,
        accept_loss,
        target,
        json,
    } = arguments;
    if let Some(RecoverCommand::Acknowledge(arguments)) = command {
        return acknowledge::run(arguments).await;
    }
    if let Some(folder) = control_group {
        return control_group::recover(&folder, accept_loss, json);
    }
    if accept_loss && partitions.is_empty() && !all_lost {
        let what = "name the partitions to recover, or use --all-lost; `zerohop recover` alone lists the lost partitions";
        return Err(CommandError::Usage(what.to_owned()));
    }
    let client = target.connect().await?;
    let status = admin::status(&client).await?;
    view::print_problems(&status, json)?;
    if accept_loss && !view::has_quorum(&status) {
        return Err(CommandError::Refused(NO_QUORUM.to_owned()));
    }
    let (mut lost, log_failed) = find(&client, &target, (&partitions, status.clone())).await?;
    // Damaged partitions that --all-lost leaves out.
    let mut left_out = 0;
    if accept_loss && all_lost {
        left_out = lost.iter().filter(|one| one.damaged.is_some()).count();
        lost.retain(|one| one.damaged.is_none());
    }
    if lost.is_empty() {
        let stands_still = status.view.as_ref().is_some_and(|view| view.no_primary + view.stuck > 0);
        if log_failed > 0 {
            return Err(CommandError::Refused(of_failed_logs(log_failed)));
        }
        if view::has_quorum(&status) && !stands_still {
            match json {
                true => {
                    let missing = missing(&status).collect();
                    output::json(&NothingToRecover { lost: 0, damaged: left_out, missing })?;
                }
                false => {
                    output::result(&nothing_to_recover(&partitions, left_out))?;
                    missing(&status).try_for_each(output::result)?;
                }
            }
        }
        return match (view::has_quorum(&status), stands_still) {
            (false, _) => Err(CommandError::Refused(NO_QUORUM.to_owned())),
            (true, true) => Err(CommandError::Refused(
                "no partition is known to be lost or damaged yet, but some are not served: repeat the command in a moment".to_owned(),
            )),
            (true, false) => Ok(CommandEnding::Done),
        };
    }
    if !accept_loss {
        return Err(print_loss(json, lost, &Places::of(&status))?);
    }
    for LostPartition { name, damaged, .. } in &lost {
        let keep_damaged = damaged.as_ref().map(|_| !from_follower);
        let recovered = admin::recover_partition(&client, &name.keyspace, name.partition, keep_damaged).await;
        if let Err(error) = recovered {
            // One of its members may just have returned.
            let is_lost = admin::partition(&client, &name.keyspace, name.partition).await?;
            if is_lost.is_none_or(|one| one.lost) || damaged.is_some() {
                return Err(error);
            }
        }
    }
    let after = wait(&client, &target, &lost).await?;
    let shown: Vec<RecoverOutput> =
        lost.iter().zip(&after).map(|(lost, primary)| lost.output(*primary, from_follower)).collect();
    print_recovered(json, &shown)?;
    match shown.iter().all(|one| one.recovered) {
        true => Ok(CommandEnding::Done),
        false => Err(CommandError::Refused(
            "some partitions are not served yet, because copies that are up have not reported their contents, or do not know of the decision. \
             They are served as soon as they do; `zerohop recover` lists the rest"
                .to_owned(),
        )),
    }
}

/// The lines of the node that was asked about data that went missing, which only an acknowledgement ends.
fn missing(status: &Status) -> impl Iterator<Item = &str> {
    let troubles = status.nodes.iter().flat_map(|node| &node.troubles);
    troubles.map(String::as_str).filter(|line| line.contains("`zerohop recover acknowledge "))
}

/// In words that partitions accept no writes though no data is known to be lost.
fn of_failed_logs(partitions: u32) -> String {
    format!(
        "no partition is known to be lost or damaged, but {} {} no writes, because {} log has failed. Repair the disk of the node that          `zerohop doctor` names, and start the node again",
        counted(partitions, "partition"),
        by_number(partitions, "accepts", "accept"),
        by_number(partitions, "its", "their")
    )
}

/// In words that no partition is lost, of those that were named or of all.
fn nothing_to_recover(named: &[PartitionName], left_out: usize) -> String {
    match (named.len(), left_out) {
        (0, 0) => "No partition is lost or damaged; there is nothing to recover.".to_owned(),
        (0, damaged) => format!(
            "No partition is lost. {} {} damaged: name {} to recover {}; `zerohop recover` lists {}.",
            counted(damaged, "partition"),
            by_number(damaged, "is", "are"),
            by_number(damaged, "it", "them one by one"),
            by_number(damaged, "it", "them"),
            by_number(damaged, "it", "them")
        ),
        (1, _) => "This partition is not lost or damaged; there is nothing to recover.".to_owned(),
        _ => "None of these partitions is lost or damaged; there is nothing to recover.".to_owned(),
    }
}

/// Those that are lost or damaged, of all or of those that were named; and the number of partitions whose log has failed.
async fn find(
    client: &Client,
    target: &ClusterTarget,
    (named, mut known): (&[PartitionName], Status),
) -> Result<(Vec<LostPartition>, u32), CommandError> {
    let mut damaged = damaged::find(target, &mut known).await;
    let log_failed = known.view.as_ref().map_or(0, |view| view.log_failed);
    let keyspaces: BTreeSet<String> = match named {
        [] => known.keyspaces.into_iter().map(|one| one.name).collect(),
        named => named.iter().map(|one| one.keyspace.clone()).collect(),
    };
    let mut lost = Vec::new();
    for keyspace in keyspaces {
        let (all, _) = admin::partitions(client, &keyspace).await?;
        if let Some(none) =
            named.iter().find(|one| one.keyspace == keyspace && one.partition as usize >= all.len())
        {
            let count = all.len();
            return Err(CommandError::Usage(format!(
                "{none}: the keyspace has {}, numbered from 0",
                counted(count, "partition")
            )));
        }
        for status in all {
            let name = PartitionName { keyspace: keyspace.clone(), partition: status.partition };
            let at = damaged
                .iter()
                .position(|one| one.keyspace == name.keyspace && one.partition == name.partition);
            let is_requested = named.is_empty() || named.contains(&name);
            if is_requested && (status.lost || at.is_some()) {
                let damaged = at.map(|at| damaged.swap_remove(at)).filter(|_| !status.lost);
                lost.push(LostPartition { name, status, damaged });
            }
        }
    }
    Ok((lost, log_failed))
}

/// Prints what is lost and what recovery would leave; the error says how to recover.
fn print_loss(json: bool, lost: Vec<LostPartition>, places: &Places) -> Result<CommandError, CommandError> {
    let shown: Vec<RecoverOutput> = lost.iter().map(|one| one.output(None, false)).collect();
    match json {
        true => output::json_lines(&shown)?,
        false => {
            let lines: Vec<String> =
                shown.iter().take(LISTED_PARTITIONS_MAX).map(|one| one.line(places)).collect();
            output::result(&lines.join("\n"))?;
            if shown.len() > LISTED_PARTITIONS_MAX {
                output::result(&format!("… and {} more", shown.len() - LISTED_PARTITIONS_MAX))?;
            }
        }
    }
    let damaged = shown.iter().filter(|one| one.damaged.is_some()).count();
    if damaged > 0 {
        let lost = shown.len() - damaged;
        return Ok(CommandError::Refused(format!(
            "{} {} a damaged copy and no other that is in sync; {lost} {} lost. `zerohop recover --accept-loss KEYSPACE/PARTITION` continues a \
             partition with the readable part of that copy, or, with --from-follower, with the most complete other copy that is up. \
             Data that this copy lacks is then lost permanently, unless you have a backup",
            counted(damaged, "partition"),
            by_number(damaged, "has", "have"),
            by_number(lost, "other is", "others are")
        )));
    }
    Ok(CommandError::Refused(format!(
        "{} {} lost. {} again as soon as a node with an in-sync copy returns. If no such node can return, `zerohop recover \
         --accept-loss --all-lost` continues with the copies that are left",
        counted(shown.len(), "partition"),
        by_number(shown.len(), "is", "are"),
        by_number(shown.len(), "It is served", "They are served")
    )))
}

/// Waits until all are served again; returns their primaries. The control group's decision serves no damaged partition before the instance with
/// the copy knows it: until then that instance reports the copy as damaged.
async fn wait(
    client: &Client,
    target: &ClusterTarget,
    lost: &[LostPartition],
) -> Result<Vec<Option<u32>>, CommandError> {
    let due = Instant::now() + client.options().deadline;
    let had_damage = lost.iter().any(|one| one.damaged.is_some());
    loop {
        let (mut after, mut damaged) = (Vec::new(), Vec::new());
        if had_damage {
            damaged = damaged::find(target, &mut admin::status(client).await?).await;
        }
        for LostPartition { name, .. } in lost {
            let now = admin::partition(client, &name.keyspace, name.partition).await?;
            let is_damaged =
                damaged.iter().any(|one| one.keyspace == name.keyspace && one.partition == name.partition);
            let served = now.filter(|now| !now.lost && now.state != "recovering" && !is_damaged);
            after.push(served.map(|now| now.primary));
        }
        if after.iter().all(Option::is_some) || Instant::now() >= due {
            return Ok(after);
        }
        sleep(CHECK_INTERVAL).await;
    }
}

fn print_recovered(json: bool, shown: &[RecoverOutput]) -> Result<(), CommandError> {
    if json {
        return output::json_lines(shown);
    }
    for RecoverOutput { keyspace, partition, damaged, .. } in shown.iter().filter(|one| one.recovered) {
        for lacking in damaged.iter().flat_map(|damaged| &damaged.named) {
            output::result(&format!("{keyspace}/{partition}: {lacking}"))?;
        }
    }
    let count = |left| shown.iter().filter(|one| one.recovered && one.left == left).count();
    for (count, one, several) in [
        (
            count(RemainingCopies::InSync),
            "continues with the most complete copy: up to an interval of writes may be missing",
            "continue with the most complete copy: up to an interval of writes may be missing",
        ),
        (
            count(RemainingCopies::Followers),
            "continues with a follower: writes that it had not received are missing",
            "continue with a follower: writes that it had not received are missing",
        ),
        (
            count(RemainingCopies::Damaged),
            "continues with the readable part of a damaged copy; sessions begin again there",
            "continue with the readable part of a damaged copy; sessions begin again there",
        ),
        (
            count(RemainingCopies::Nothing),
            "begins empty: all its data is gone",
            "begin empty: all their data is gone",
        ),
    ] {
        if count > 0 {
            output::result(&format!("{} {}", counted(count, "partition"), by_number(count, one, several)))?;
        }
    }
    Ok(())
}

impl LostPartition {
    fn output(&self, primary: Option<u32>, from_follower: bool) -> RecoverOutput {
        let PartitionStatus { primary: before, in_sync, followers, down, state, .. } = &self.status;
        let is_up = |one: &&u32| !down.contains(one);
        let members = || std::iter::once(before).chain(in_sync).chain(followers);
        let up: Vec<u32> = members().filter(is_up).copied().collect();
        // While a group recovers, the roles of members before the restart of their nodes are
        // unknown.
        let left = match up.is_empty() {
            true => RemainingCopies::Nothing,
            false if self.damaged.is_some() && !from_follower => RemainingCopies::Damaged,
            false if self.damaged.is_some() => RemainingCopies::Followers,
            false if state == "recovering" => RemainingCopies::InSync,
            false => RemainingCopies::Followers,
        };
        RecoverOutput {
            keyspace: self.name.keyspace.clone(),
            partition: self.name.partition,
            down: down.clone(),
            up,
            left,
            damaged: self.damaged.as_ref().map(|one| RecoverDamage {
                instance: one.instance,
                found: one.found,
                named: one.named.clone(),
            }),
            recovered: primary.is_some(),
            primary,
        }
    }
}

impl RecoverOutput {
    fn line(&self, places: &Places) -> String {
        let RecoverOutput { keyspace, partition, down, up, left, damaged, .. } = self;
        let some = |instances: &[u32]| places.names(instances);
        if let Some(RecoverDamage { instance, found, named }) = damaged {
            let others: Vec<u32> = up.iter().copied().filter(|one| one != instance).collect();
            let others = match &others[..] {
                [] => "no other is up".to_owned(),
                some_up => format!(
                    "{} up: {}",
                    by_number(some_up.len(), "follower that is", "followers that are"),
                    some(some_up)
                ),
            };
            let named = if named.is_empty() { "its log ends too soon".to_owned() } else { named.join("; ") };
            return format!(
                "{keyspace}/{partition}: the only in-sync copy, of {}, is damaged in {} ({named}); {others}",
                places.name(*instance),
                counted(*found, "place")
            );
        }
        let left = match left {
            RemainingCopies::InSync => {
                format!("left: {} (up to an interval of writes may be missing)", some(up))
            }
            RemainingCopies::Followers => {
                format!(
                    "left: {} {} (the last writes may be missing)",
                    by_number(up.len(), "follower", "followers"),
                    some(up)
                )
            }
            RemainingCopies::Damaged => "left: the readable part of a damaged copy".to_owned(),
            RemainingCopies::Nothing => "nothing is left: the partition would begin empty".to_owned(),
        };
        format!(
            "{keyspace}/{partition}: {} {} down (NODE:INSTANCE); {left}",
            some(down),
            by_number(down.len(), "is", "are")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_recover_message_names_the_partitions() {
        let named = |count| vec!["default/1".parse::<PartitionName>().unwrap(); count];
        assert!(nothing_to_recover(&[], 0).starts_with("No partition is lost or damaged;"));
        assert_eq!(
            nothing_to_recover(&[], 1),
            "No partition is lost. 1 partition is damaged: name it to recover it; `zerohop recover` lists it."
        );
        assert!(nothing_to_recover(&named(1), 0).starts_with("This partition is not lost"));
        assert!(nothing_to_recover(&named(2), 0).starts_with("None of these partitions is lost"));
    }

    #[test]
    fn a_line_agrees_with_the_number_of_copies() {
        let line = |down: &[u32], up: &[u32]| {
            let (left, down, up) = (RemainingCopies::Followers, down.to_vec(), up.to_vec());
            let keyspace = "default".to_owned();
            let output = RecoverOutput {
                keyspace,
                partition: 17,
                down,
                up,
                left,
                damaged: None,
                recovered: false,
                primary: None,
            };
            output.line(&Places::default())
        };
        let of = |instance: u32| Places::default().name(instance);
        let [one, two, three] = [of(1), of(2), of(3)];
        assert_eq!(
            line(&[1], &[2]),
            format!(
                "default/17: {one} is down (NODE:INSTANCE); left: follower {two} (the last writes may be missing)"
            )
        );
        let sentence = line(&[1, 2], &[3, 3]);
        assert!(sentence.contains(" are down (NODE:INSTANCE); left: followers "), "{sentence}");
        assert!(sentence.contains(&three), "{sentence}");
    }
}
