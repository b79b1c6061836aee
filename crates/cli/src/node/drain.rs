//! `zerohop node drain`: asks the control group, and waits until the node has no copies.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep};
use zerohop_client::Client;
use zerohop_wire::admin::{KeyspaceStatus, NodeStatus, Status};
use zerohop_wire::plurals::{by_number, counted};

use super::one_node::OneNode;
use crate::common::ending::CommandError;
use crate::common::quantity::{self, format_time};
use crate::common::{admin, interrupt, names};
use crate::output::{self, StatusLine};

/// The pause between two looks at the node.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// How long to wait for the next copy to leave while a keyspace has too many copies for the other nodes.
const STANDSTILL_MAX: Duration = Duration::from_secs(10);

/// The time before the first words about progress.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// The pause between two lines of progress that no terminal shows.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub(crate) struct DrainArguments {
    #[command(flatten)]
    node: OneNode,
    /// How long to wait until the node has no data: 10m, 2h; 0s does not wait. The drain continues in any case.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = quantity::duration)]
    wait: Duration,
    /// Returns as soon as the drain is accepted.
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
}

/// The JSON of a drain.
#[derive(Serialize)]
struct DrainOutput {
    node: u32,
    state: &'static str,
    /// Copies that have left the node.
    moved: u32,
    /// Copies that the node still has.
    left: u32,
    done: bool,
}

/// The copies that a draining node had and still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CopyCount {
    most: u32,
    left: u32,
}

/// What one status says about the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainView {
    /// The node that answered does not know of the drain yet.
    NotYet,
    /// The drain has ended by another command.
    Ended,
    /// The node has so many copies.
    Copies(u32),
}

pub(super) async fn run(arguments: DrainArguments) -> Result<(), CommandError> {
    let DrainArguments { node: one, wait, no_wait } = arguments;
    let node = one.node;
    let client = one.target.connect().await?;
    let before = admin::status(&client).await?;
    let copies = copies_on(&before, node);
    admin::set_node_state(&client, node, "draining").await?;
    let mut count = CopyCount { most: copies, left: copies };
    copies_that_stay(&before, node).iter().for_each(|text| output::problem(text));
    if no_wait || wait.is_zero() {
        output::note_done(output::COMMAND);
    } else {
        interrupt::note_begun(format!(
            "the drain of node {node} goes on: `zerohop node drain {node}` waits for it again, and `zerohop node up {node}` \
             ends it"
        ));
        until_empty(&client, node, wait, &mut count).await?;
        output::note_done(output::COMMAND);
    }
    let CopyCount { most, left } = count;
    if one.json {
        return output::json(&DrainOutput { node, state: "draining", moved: most - left, left, done: true });
    }
    if left == 0 {
        let moved = counted(most as usize, "copy");
        let have = by_number(most as usize, "has", "have");
        return output::result(&format!("node {node} is empty: {moved} {have} left it"));
    }
    output::problem(&format!(
        "zerohop: the drain of node {node} is accepted: {} {} to leave it. `zerohop node list` shows how far it is",
        counted(left as usize, "copy"),
        by_number(left as usize, "has", "have")
    ));
    Ok(())
}

/// Waits until the node has no copies, at most this long, and shows how far the drain is.
async fn until_empty(
    client: &Client,
    node: u32,
    wait: Duration,
    count: &mut CopyCount,
) -> Result<(), CommandError> {
    let line = StatusLine::new();
    let began = Instant::now();
    let (mut answered, mut changed, mut next_line) = (began, began, began + SHOW_AFTER);
    let mut is_accepted = false;
    loop {
        match admin::status(client).await {
            Ok(status) => {
                answered = Instant::now();
                match view(&status, node, is_accepted) {
                    DrainView::NotYet => {}
                    DrainView::Ended => {
                        return Err(CommandError::Refused(format!(
                            "the drain of node {node} was ended by another command: it is up again, with {}",
                            counted(copies_on(&status, node) as usize, "copy")
                        )));
                    }
                    DrainView::Copies(left) => {
                        is_accepted = true;
                        if left != count.left {
                            changed = answered;
                        }
                        *count = CopyCount { most: count.most.max(left), left };
                        if left == 0 {
                            return Ok(());
                        }
                        if changed.elapsed() >= STANDSTILL_MAX && !copies_that_stay(&status, node).is_empty()
                        {
                            return Err(CommandError::UnderWay(format!(
                                "the drain of node {node} goes on, but {}, and the other nodes are too few for them: start more \
                                 nodes, or ask for fewer copies with `zerohop keyspace alter`",
                                progress(*count)
                            )));
                        }
                    }
                }
            }
            // The node that was asked may lose its leader for a moment.
            Err(error) if answered.elapsed() > client.options().deadline => {
                return Err(CommandError::UnderWay(format!(
                    "the drain of node {node} goes on, but its progress is not known: {error}"
                )));
            }
            Err(_) => {}
        }
        if began.elapsed() >= wait {
            return Err(CommandError::UnderWay(format!(
                "the drain of node {node} goes on, but {} after {}. `zerohop node drain {node} --wait TIME` waits longer, and \
                 `zerohop status` shows what is in the way",
                progress(*count),
                format_time(wait)
            )));
        }
        let text = format!("draining node {node}: {}", progress(*count));
        if Instant::now() >= next_line {
            if line.is_terminal() {
                line.show(&text);
            } else {
                output::problem(&text);
                next_line += LINE_INTERVAL;
            }
        }
        sleep(CHECK_INTERVAL.min(wait.saturating_sub(began.elapsed()))).await;
    }
}

/// `3 of 24 copies are left`.
fn progress(count: CopyCount) -> String {
    let CopyCount { most, left } = count;
    format!("{left} of {} {} left", counted(most as usize, "copy"), by_number(left as usize, "is", "are"))
}

fn of_node(status: &Status, node: u32) -> Option<&NodeStatus> {
    status.nodes.iter().find(|one| one.id == node)
}

fn copies_on(status: &Status, node: u32) -> u32 {
    of_node(status, node).map_or(0, |one| one.primaries + one.in_sync + one.following)
}

/// What a status says; `is_accepted`: an earlier one has shown the drain.
fn view(status: &Status, node: u32, is_accepted: bool) -> DrainView {
    // A node without copies may have been removed meanwhile.
    let state = of_node(status, node).map(|one| one.state.as_str());
    match (state, is_accepted) {
        (Some("up"), true) => DrainView::Ended,
        (Some("up" | "silent") | None, false) => DrainView::NotYet,
        _ => DrainView::Copies(copies_on(status, node)),
    }
}

/// The keyspaces with too many copies for the nodes beside a draining one.
fn copies_that_stay(status: &Status, draining: u32) -> Vec<String> {
    let others = status.nodes.iter().filter(|node| node.id != draining && node.state == "up").count();
    let has_too_many = |keyspace: &&KeyspaceStatus| keyspace.replicas as usize > others;
    let sentence = |keyspace: &KeyspaceStatus| {
        let (name, replicas) = (&keyspace.name, keyspace.replicas);
        let quoted = names::quoted(name.as_bytes());
        match others {
            0 => format!(
                "zerohop: node {draining} keeps its copies of keyspace {quoted}, because no other node is up: start more nodes"
            ),
            others => format!(
                "zerohop: keyspace {quoted} asks for {}, and {} {} up: start more nodes, or run `zerohop keyspace alter {name} --replicas {others}`",
                counted(replicas as usize, "copy"),
                counted(others, "other node"),
                by_number(others, "is", "are")
            ),
        }
    };
    status.keyspaces.iter().filter(has_too_many).map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_with_too_many_copies_names_the_command_that_helps() {
        let node = |id, state: &str| NodeStatus { id, state: state.to_owned(), ..NodeStatus::default() };
        let keyspace =
            |replicas, name: &str| KeyspaceStatus { replicas, name: name.to_owned(), ..Default::default() };
        let status = Status {
            nodes: vec![node(1, "up"), node(2, "up"), node(3, "draining"), node(4, "down")],
            keyspaces: vec![keyspace(3, "kept"), keyspace(2, "moved")],
            ..Status::default()
        };
        let sentences = copies_that_stay(&status, 3);
        let words = "asks for 3 copies, and 2 other nodes are up: start more nodes, or run `zerohop keyspace alter kept --replicas 2`";
        assert!(sentences.len() == 1 && sentences[0].ends_with(words), "{sentences:?}");
        let alone = Status { nodes: vec![node(3, "draining")], ..status };
        let sentences = copies_that_stay(&alone, 3);
        assert!(
            sentences.len() == 2
                && sentences[0].contains("node 3 keeps")
                && sentences[0].ends_with("no other node is up: start more nodes"),
            "{sentences:?}"
        );
    }

    #[test]
    fn node_counts_as_empty_only_in_a_status_that_shows_the_drain() {
        let with = |state: &str, primaries, in_sync, following| {
            let node = NodeStatus {
                id: 3,
                state: state.to_owned(),
                primaries,
                in_sync,
                following,
                ..Default::default()
            };
            Status { nodes: vec![node], ..Status::default() }
        };
        // The map of the node that answers may be from before the drain.
        assert_eq!(view(&with("up", 0, 0, 0), 3, false), DrainView::NotYet);
        assert_eq!(view(&with("silent", 0, 0, 0), 3, false), DrainView::NotYet);
        assert_eq!(view(&with("draining", 1, 2, 3), 3, false), DrainView::Copies(6));
        assert_eq!(view(&with("draining", 0, 0, 0), 3, false), DrainView::Copies(0));
        assert_eq!(view(&with("up", 5, 0, 0), 3, true), DrainView::Ended);
        // Another command has removed the empty node.
        assert_eq!(view(&Status::default(), 3, true), DrainView::Copies(0));
        assert_eq!(progress(CopyCount { most: 24, left: 1 }), "1 of 24 copies is left");
    }
}
