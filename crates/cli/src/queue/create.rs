//! `zerohop queue create`.

use std::time::Duration;

use clap::Args;
use zerohop_layer_queue::{CreateQueue, PARTITIONS_MAX, QueueError};
use zerohop_queue_client::{OpenError, QueueClient, StorageSettings, new_queue};

use super::place::{QueuePlace, millis, queue_name};
use super::refusal::{self, CommandUse, QueueRefusal, failed_to_read};
use super::stats::{QueueOutput, print_queue};
use crate::common::ending::{CommandEnding, CommandError, EXISTS};
use crate::common::{admin, interrupt, quantity};
use crate::keyspace::durability;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct QueueCreateArguments {
    /// The name of the queue: 1 to 63 ASCII letters, digits, `.`, `_` and `-`, of which the first is a letter or digit.
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(super) name: String,
    /// The number of partitions, 1 to 1024. Pushes and pops of several partitions do not wait for each other. The order of
    /// messages is kept within a partition, and that of a group always.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(PARTITIONS_MAX)))]
    partitions: u32,
    /// How long a lease lasts unless the pop says so. Then the message is delivered again.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration_above_zero)]
    lease: Duration,
    /// How often a message is popped, and not acknowledged, before it becomes a dead letter; 0: without limit.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    tries: u32,
    /// How long the name of a message counts: another message of this name is not pushed meanwhile; 0s: names do not count.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = quantity::duration)]
    names: Duration,
    /// Total number of copies, each on another node: 1 to 8 [default: 3, or as many as there are nodes].
    #[arg(long, value_name = "REPLICAS")]
    replicas: Option<u32>,
    /// Number of copies that must have a push before it is acknowledged [default: 2, or 1 if there is one copy].
    #[arg(long, value_name = "REPLICAS")]
    min_in_sync: Option<u32>,
    /// When a push counts as stored in a copy: memory, interval, interval:TIME or sync, as for `keyspace create`
    /// [default: interval, or memory for nodes without a disk].
    #[arg(long, value_name = "WHEN", value_parser = durability)]
    durability: Option<String>,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

pub(super) async fn run(arguments: QueueCreateArguments) -> Result<CommandEnding, CommandError> {
    let QueueCreateArguments {
        name,
        partitions,
        lease,
        tries,
        names,
        replicas,
        min_in_sync,
        durability,
        place,
    } = arguments;
    let client = place.target.connect().await?;
    let settings = StorageSettings { replicas, min_in_sync, durability };
    let is_made = match admin::create(&client, new_queue(name.clone(), partitions, settings)).await {
        Ok(_) => true,
        // It may be one that an interrupted creation has left.
        Err(CommandError::RefusedAs { word: EXISTS, .. }) => false,
        Err(error) => return Err(error),
    };
    let failed = |error: CommandError| if is_made { admin::half_made("queue", &name, &error) } else { error };
    let id = zerohop_system::entropy::random_bytes()
        .map_err(|error| CommandError::Node(format!("the system has no random bytes: {error}")))?;
    interrupt::note_sent(output::COMMAND);
    let create = CreateQueue { id, partitions, lease: millis(lease), tries, names: millis(names) };
    let queue = match QueueClient::create(&client, &name, create).await {
        Ok(queue) => queue,
        Err(OpenError::Client(error)) => return Err(failed(error.into())),
        Err(OpenError::Queue(QueueError::QueueExists)) => {
            return QueueRefusal::new("exists", "there is a queue of this name already")
                .print(place.json, &name);
        }
        Err(OpenError::Queue(QueueError::NoSuchQueue)) => {
            let text = "this name is that of a keyspace which has other data, or a queue of another number of partitions: choose another one";
            return QueueRefusal::new("exists", text).print(place.json, &name);
        }
        Err(OpenError::Queue(error)) => return Err(failed(refusal::failed(CommandUse::Write, &error))),
    };
    output::note_done(output::COMMAND);
    let shown = QueueOutput::read(&queue, name).await.map_err(|error| failed_to_read(&error))?;
    print_queue(&place, &shown)?;
    Ok(CommandEnding::Done)
}
