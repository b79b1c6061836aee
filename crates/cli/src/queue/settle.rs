//! `zerohop queue ack`, `release` and `extend`: what happens to leased messages.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_layer_queue::SettleAction;
use zerohop_queue_client::{LeaseToken, QueueClient};
use zerohop_wire::plurals::counted;

use super::place::{QueuePlace, millis, queue_name};
use super::refusal::{CommandUse, QueueRefusal, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{interrupt, names, quantity};
use crate::output;

/// Leases of a queue.
#[derive(Args, Debug)]
pub(crate) struct QueueLeases {
    /// The queue.
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(super) name: String,
    /// The receipts that `queue pop` has printed with the messages.
    #[arg(value_name = "RECEIPT", required = true)]
    receipts: Vec<String>,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

#[derive(Args, Debug)]
pub(crate) struct QueueAckArguments {
    #[command(flatten)]
    pub(super) leases: QueueLeases,
}

#[derive(Args, Debug)]
pub(crate) struct QueueReleaseArguments {
    #[command(flatten)]
    pub(super) leases: QueueLeases,
    /// How long the messages cannot be popped.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::duration)]
    delay: Duration,
}

#[derive(Args, Debug)]
pub(crate) struct QueueExtendArguments {
    #[command(flatten)]
    pub(super) leases: QueueLeases,
    /// How long the leases last from now on [default: as the queue says].
    #[arg(long, value_name = "TIME", value_parser = quantity::duration_above_zero)]
    lease: Option<Duration>,
}

impl QueueLeases {
    /// The leases, each once.
    fn parse(&self) -> Result<Vec<LeaseToken>, CommandError> {
        let mut leases: Vec<LeaseToken> = Vec::new();
        for text in &self.receipts {
            let lease: LeaseToken = text.parse().map_err(|error| {
                CommandError::Usage(format!("{}: {error}", names::quoted(text.as_bytes())))
            })?;
            if !leases.contains(&lease) {
                leases.push(lease);
            }
        }
        Ok(leases)
    }
}

/// The JSON of a lease that was settled.
#[derive(Serialize)]
struct SettledOutput {
    receipt: String,
    done: bool,
    #[serde(flatten)]
    extended: Option<ExtendedOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// The lease in place of the old one.
#[derive(Serialize)]
struct ExtendedOutput {
    new_receipt: String,
    lease_until_ms: u64,
}

pub(super) async fn acknowledge(arguments: QueueAckArguments) -> Result<CommandEnding, CommandError> {
    settle(arguments.leases, "acknowledged", |_| SettleAction::Acknowledge).await
}

pub(super) async fn release(arguments: QueueReleaseArguments) -> Result<CommandEnding, CommandError> {
    let delay = millis(arguments.delay);
    settle(arguments.leases, "released", |_| SettleAction::Release { delay }).await
}

pub(super) async fn extend(arguments: QueueExtendArguments) -> Result<CommandEnding, CommandError> {
    let lease = arguments.lease;
    let action =
        |queue: &QueueClient| SettleAction::Extend { lease: lease.map_or(queue.options().lease, millis) };
    settle(arguments.leases, "extended", action).await
}

async fn settle(
    leases: QueueLeases,
    verb: &str,
    action: impl FnOnce(&QueueClient) -> SettleAction,
) -> Result<CommandEnding, CommandError> {
    let receipts = leases.parse()?;
    let QueueLeases { name, place, .. } = leases;
    let queue = match place.open(&name).await? {
        Ok(queue) => queue,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let action = action(&queue);
    interrupt::note_sent(output::WRITE);
    let (lapsed, extended) = match queue.settle(&receipts, action, place.until(&queue)).await {
        Ok(settled) => settled,
        Err(error) => return print_refusal(place.json, &name, CommandUse::Write, error),
    };
    output::note_done(output::WRITE);
    let is_extension = matches!(action, SettleAction::Extend { .. });
    for lease in &receipts {
        let is_lapsed = lapsed.contains(lease);
        let of_message = |new: &&LeaseToken| {
            let key = |one: &LeaseToken| (one.partition, one.consumer, one.receipt.message);
            !is_lapsed && key(new) == key(lease)
        };
        let extended = extended.iter().find(of_message);
        if place.json {
            let extended = extended
                .map(|new| ExtendedOutput { new_receipt: new.to_string(), lease_until_ms: new.receipt.due });
            let reason = is_lapsed.then_some("lapsed");
            output::json(&SettledOutput { receipt: lease.to_string(), done: !is_lapsed, extended, reason })?;
        } else if is_lapsed {
            let text = format!("the lease of {lease} has lapsed: another consumer may have the message");
            QueueRefusal::new("lapsed", text).print(false, &name)?;
        } else if let Some(new) = extended {
            output::result(&new.to_string())?;
        }
    }
    if !place.json && !is_extension && lapsed.len() < receipts.len() {
        let done = (receipts.len() - lapsed.len()) as u64;
        output::result(&format!("{} {verb}", counted(done, "message")))?;
    }
    Ok(if lapsed.is_empty() { CommandEnding::Done } else { CommandEnding::No })
}
