//! `zerohop queue redrive` and `zerohop queue purge`: what happens to dead letters.

use std::collections::BTreeSet;
use std::io::{IsTerminal, stdin};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_layer_queue::{MessageId, QueueError};
use zerohop_queue_client::QueueClient;
use zerohop_wire::plurals::{by_number, counted};

use super::dead::DeadLetters;
use super::place::{QueuePlace, millis, queue_name};
use super::refusal::{CommandUse, failed, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{interrupt, names};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct QueueRedriveArguments {
    /// The queue.
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(super) name: String,
    /// The highest number of dead letters, the oldest of a partition first [default: all].
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

#[derive(Args, Debug)]
pub(crate) struct QueuePurgeArguments {
    /// The queue.
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(super) name: String,
    /// Does not ask for confirmation.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

/// What happens to dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeadAction {
    Redrive,
    Purge,
}

#[derive(Serialize)]
struct DeadActionOutput<'a> {
    queue: &'a str,
    done: bool,
    /// How many dead letters were pushed again or removed.
    messages: u64,
}

pub(super) async fn redrive(arguments: QueueRedriveArguments) -> Result<CommandEnding, CommandError> {
    let QueueRedriveArguments { name, limit, place } = arguments;
    match place.open(&name).await? {
        Ok(queue) => carry_out(&place, &name, &queue, DeadAction::Redrive, limit).await,
        Err(refusal) => refusal.print(place.json, &name),
    }
}

pub(super) async fn purge(arguments: QueuePurgeArguments) -> Result<CommandEnding, CommandError> {
    let QueuePurgeArguments { name, yes, place } = arguments;
    let queue = match place.open(&name).await? {
        Ok(queue) => queue,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    if !yes && stdin().is_terminal() && !is_confirmed(&name)? {
        output::problem("Nothing was removed.");
        return Ok(CommandEnding::No);
    }
    carry_out(&place, &name, &queue, DeadAction::Purge, None).await
}

fn is_confirmed(name: &str) -> Result<bool, CommandError> {
    crate::keyspace::confirm_removal(
        &format!("all dead letters of the queue {}", names::text(name.as_bytes())),
        "the name of the queue",
        name,
    )
}

async fn carry_out(
    place: &QueuePlace,
    name: &str,
    queue: &QueueClient,
    action: DeadAction,
    limit: Option<u64>,
) -> Result<CommandEnding, CommandError> {
    interrupt::note_sent(output::WRITE);
    let mut messages = 0;
    if let Err(error) = all_pages(queue, action, limit, place.target.timeout(), &mut messages).await {
        return match messages {
            0 => print_refusal(place.json, name, CommandUse::Write, error),
            // Each page is a transaction of its own.
            done => Err(CommandError::Partly(format!(
                "{}; {}",
                failed(CommandUse::Write, &error),
                sentence(action, done)
            ))),
        };
    }
    output::note_done(output::WRITE);
    if place.json {
        output::json(&DeadActionOutput { queue: name, done: true, messages })?;
    } else {
        output::result(&sentence(action, messages))?;
    }
    Ok(CommandEnding::Done)
}

fn sentence(action: DeadAction, messages: u64) -> String {
    let letters = counted(messages, "dead letter");
    match action {
        DeadAction::Redrive => format!("{letters} {} pushed again", by_number(messages, "is", "are")),
        DeadAction::Purge => format!("{letters} {} removed", by_number(messages, "is", "are")),
    }
}

/// Counts in `messages` what is done, also before an error.
async fn all_pages(
    queue: &QueueClient,
    action: DeadAction,
    limit: Option<u64>,
    patience: Duration,
    messages: &mut u64,
) -> Result<(), QueueError> {
    let mut letters = DeadLetters::new(queue, 0..queue.options().partitions, limit);
    // A message that becomes a dead letter again is not pushed once more, so that the command ends.
    let mut seen: BTreeSet<MessageId> = BTreeSet::new();
    while let Some((partition, page)) = letters.next_page().await? {
        let fresh = page.iter().filter(|letter| seen.insert(letter.id));
        let fresh: Vec<(u64, MessageId)> = fresh.map(|letter| (letter.died, letter.id)).collect();
        let until = queue.now().saturating_add(millis(patience));
        let count = match action {
            DeadAction::Redrive => queue.redrive(partition, fresh, until).await?,
            DeadAction::Purge => queue.purge(partition, fresh, until).await?,
        };
        *messages += count as u64;
    }
    Ok(())
}
