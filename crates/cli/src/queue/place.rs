//! Where a queue is, and how the answer is printed.

use std::time::Duration;

use clap::Args;
use zerohop_client::Reason;
use zerohop_layer_queue::QueueError;
use zerohop_queue_client::{OpenError, QueueClient};

use super::refusal::{QueueRefusal, failed_to_read};
use crate::common::ending::CommandError;
use crate::common::target::ClusterTarget;

/// Which cluster, and how the answer is printed.
#[derive(Args, Clone, Debug)]
pub(crate) struct QueuePlace {
    #[command(flatten)]
    pub(super) target: ClusterTarget,
    /// Prints JSON, one object a line.
    #[arg(long)]
    pub(super) json: bool,
}

impl QueuePlace {
    /// Opens a queue. The inner error is a negative answer.
    pub(super) async fn open(&self, name: &str) -> Result<Result<QueueClient, QueueRefusal>, CommandError> {
        let client = self.target.connect().await?;
        match QueueClient::open(&client, name).await {
            Ok(queue) => Ok(Ok(queue)),
            Err(OpenError::Client(error)) => match error.reason() {
                Some(Reason::NoKeyspace { .. }) => Ok(Err(QueueRefusal::no_queue())),
                _ => Err(error.into()),
            },
            Err(OpenError::Queue(QueueError::NoSuchQueue)) => Ok(Err(QueueRefusal::not_a_queue())),
            Err(OpenError::Queue(error)) => Err(failed_to_read(&error)),
        }
    }

    /// The end of what the command waits for, in milliseconds since 1970.
    pub(super) fn until(&self, queue: &QueueClient) -> u64 {
        queue.now().saturating_add(millis(self.target.timeout()))
    }
}

/// Whole milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Reads the name of a queue, which is that of its keyspace; a manager checks the rest.
pub(super) fn queue_name(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("a queue has a name".to_owned()),
        false => Ok(text.to_owned()),
    }
}
