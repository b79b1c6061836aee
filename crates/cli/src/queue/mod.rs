//! `zerohop queue`: queues of messages, which producers push and consumers pop under leases.
//!
//! A negative answer (no such queue, nothing to pop, a lease that has lapsed) is printed on standard error or as JSON, and
//! the exit code is 1: see [`refusal`].

mod create;
mod dead;
mod drop;
mod list;
mod message;
mod place;
mod pop;
mod push;
mod redrive;
mod refusal;
mod settle;
mod stats;

use clap::Subcommand;

use self::place::QueuePlace;
use crate::common::display::LayerName;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::failure::FailedObject;
use crate::common::outage;

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Creates a queue.
    ///
    /// The queue is an ordered keyspace of its own, with a region for each partition of the queue.
    Create(create::QueueCreateArguments),
    /// Lists the queues of the cluster.
    #[command(visible_alias = "ls")]
    List(list::QueueListArguments),
    /// Shows the options of a queue, and how many messages each partition has.
    #[command(alias = "info")]
    Stats(stats::QueueStatsArguments),
    /// Pushes messages: the arguments, or the lines of standard input.
    ///
    /// Each message is in the queue once, also if an answer is lost and the command repeats the push.
    Push(push::QueuePushArguments),
    /// Takes messages under leases, and prints them.
    ///
    /// Standard output has the messages, one a line. Standard error has a receipt for each, with which `ack`, `release` and `extend`
    /// name the lease. A message that is not acknowledged before the lease ends is delivered again. If there is no message, the
    /// exit code is 1.
    Pop(pop::QueuePopArguments),
    /// Acknowledges messages: they are processed, and removed.
    Ack(settle::QueueAckArguments),
    /// Returns messages to the queue before their leases end.
    Release(settle::QueueReleaseArguments),
    /// Extends leases, and prints the new receipts. The old receipts count no longer.
    Extend(settle::QueueExtendArguments),
    /// Prints dead letters, which were popped as often as the queue allows, and not acknowledged.
    Dead(dead::QueueDeadArguments),
    /// Pushes dead letters again.
    Redrive(redrive::QueueRedriveArguments),
    /// Removes dead letters.
    ///
    /// On a terminal the command asks for confirmation, unless --yes is given.
    Purge(redrive::QueuePurgeArguments),
    /// Drops a queue with all its messages.
    ///
    /// On a terminal the command asks for confirmation, unless --yes is given.
    Drop(drop::QueueDropArguments),
}

impl QueueCommand {
    fn place(&self) -> &QueuePlace {
        match self {
            Self::Create(arguments) => &arguments.place,
            Self::List(arguments) => &arguments.place,
            Self::Stats(arguments) => &arguments.place,
            Self::Push(arguments) => &arguments.place,
            Self::Pop(arguments) => &arguments.place,
            Self::Ack(arguments) => &arguments.leases.place,
            Self::Release(arguments) => &arguments.leases.place,
            Self::Extend(arguments) => &arguments.leases.place,
            Self::Dead(arguments) => &arguments.place,
            Self::Redrive(arguments) => &arguments.place,
            Self::Purge(arguments) => &arguments.place,
            Self::Drop(arguments) => &arguments.place,
        }
    }

    /// The queue that the command is about.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Create(arguments) => Some(&arguments.name),
            Self::List(_) => None,
            Self::Stats(arguments) => Some(&arguments.name),
            Self::Push(arguments) => Some(&arguments.name),
            Self::Pop(arguments) => Some(&arguments.name),
            Self::Ack(arguments) => Some(&arguments.leases.name),
            Self::Release(arguments) => Some(&arguments.leases.name),
            Self::Extend(arguments) => Some(&arguments.leases.name),
            Self::Dead(arguments) => Some(&arguments.name),
            Self::Redrive(arguments) => Some(&arguments.name),
            Self::Purge(arguments) => Some(&arguments.name),
            Self::Drop(arguments) => Some(&arguments.name),
        }
    }
}

pub(crate) async fn run(command: QueueCommand) -> Result<CommandEnding, CommandError> {
    let (place, name) = (command.place().clone(), command.name().map(str::to_owned));
    let ending = done(command).await;
    let layer = name.as_deref().map(|name| LayerName { kind: "queue", name });
    let about = FailedObject { layer, ..FailedObject::default() };
    outage::reported_about(about, &place.target, place.json, ending).await
}

async fn done(command: QueueCommand) -> Result<CommandEnding, CommandError> {
    match command {
        QueueCommand::Create(arguments) => create::run(arguments).await,
        QueueCommand::List(arguments) => list::run(arguments).await,
        QueueCommand::Stats(arguments) => stats::run(arguments).await,
        QueueCommand::Push(arguments) => push::run(arguments).await,
        QueueCommand::Pop(arguments) => pop::run(arguments).await,
        QueueCommand::Ack(arguments) => settle::acknowledge(arguments).await,
        QueueCommand::Release(arguments) => settle::release(arguments).await,
        QueueCommand::Extend(arguments) => settle::extend(arguments).await,
        QueueCommand::Dead(arguments) => dead::run(arguments).await,
        QueueCommand::Redrive(arguments) => redrive::redrive(arguments).await,
        QueueCommand::Purge(arguments) => redrive::purge(arguments).await,
        QueueCommand::Drop(arguments) => drop::run(arguments).await,
    }
}
