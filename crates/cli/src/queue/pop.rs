//! `zerohop queue pop`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_layer_queue::SettleAction;
use zerohop_queue_client::{LeaseToken, LeasedMessage, QueueConsumer};
use zerohop_wire::plurals::counted;

use super::message::MessageOutput;
use super::place::{QueuePlace, millis, queue_name};
use super::refusal::{CommandUse, QueueRefusal, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{interrupt, quantity};
use crate::output::{self, ContentsList};

#[derive(Args, Debug)]
pub(crate) struct QueuePopArguments {
    /// The queue.
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(super) name: String,
    /// The highest number of messages, all of one partition.
    #[arg(long, value_name = "MESSAGES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    limit: u32,
    /// How long the lease lasts [default: as the queue says].
    #[arg(long, value_name = "TIME", value_parser = quantity::duration_above_zero)]
    lease: Option<Duration>,
    /// How long to wait for a message.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::duration)]
    wait: Duration,
    /// Acknowledges the messages as soon as they are printed. Without this option, `queue ack` does so.
    #[arg(long)]
    ack: bool,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

/// The JSON of a message with its lease.
#[derive(Serialize)]
struct PoppedOutput<'a> {
    receipt: String,
    #[serde(flatten)]
    message: MessageOutput<'a>,
    lease_until_ms: u64,
}

pub(super) async fn run(arguments: QueuePopArguments) -> Result<CommandEnding, CommandError> {
    let QueuePopArguments { name, limit, lease, wait, ack, place } = arguments;
    let queue = match place.open(&name).await? {
        Ok(queue) => queue,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let lease = lease.map_or(queue.options().lease, millis);
    let wait_until = queue.now().saturating_add(millis(wait));
    // Before it finds a message, and while it waits, the pop changes nothing.
    let mut consumer = QueueConsumer::new(queue).noting(|leases| match leases {
        true => interrupt::note_sent(output::WRITE),
        false => interrupt::note_not_done(),
    });
    let popped = match consumer.pop(limit, lease, wait_until, place.target.timeout()).await {
        Ok(popped) => popped,
        Err(error) => return print_refusal(place.json, &name, CommandUse::Write, error),
    };
    if popped.is_empty() {
        return QueueRefusal::new("no_message", "there is no message to pop").print(place.json, &name);
    }
    if !ack {
        output::note_done(output::WRITE);
        print_messages(&place, &popped, ack)?;
        return Ok(CommandEnding::Done);
    }
    // What cannot be printed is not acknowledged, and is popped again.
    print_messages(&place, &popped, ack)?;
    let leases: Vec<LeaseToken> = popped.iter().map(|one| one.lease).collect();
    let until = place.until(consumer.queue());
    match consumer.queue().settle(&leases, SettleAction::Acknowledge, until).await {
        Ok((lapsed, _)) if lapsed.is_empty() => {
            output::note_done(output::WRITE);
            Ok(CommandEnding::Done)
        }
        Ok((lapsed, _)) => {
            let text = format!(
                "{} of {} lapsed before the acknowledgement: other consumers may have the messages",
                counted(lapsed.len() as u64, "lease"),
                leases.len()
            );
            QueueRefusal::new("lapsed", text).print(place.json, &name)
        }
        Err(error) => print_refusal(place.json, &name, CommandUse::Write, error),
    }
}

/// Prints messages: their values, one a line, with their receipts on standard error; or JSON.
fn print_messages(place: &QueuePlace, popped: &[LeasedMessage], ack: bool) -> Result<(), CommandError> {
    let list = ContentsList::new();
    for LeasedMessage { lease, message } in popped {
        if place.json {
            output::json(&PoppedOutput {
                receipt: lease.to_string(),
                message: MessageOutput::new(
                    lease.partition,
                    lease.receipt.message,
                    lease.receipt.tries,
                    message,
                ),
                lease_until_ms: lease.receipt.due,
            })?;
            continue;
        }
        let mut out = Vec::new();
        list.add(&mut out, &message.value);
        output::raw(&[&out])?;
        if !ack {
            output::problem(&format!("receipt {lease}"));
        }
    }
    Ok(())
}
