//! Where a log is, and how the answer is printed.

use std::ops::Range;

use clap::Args;
use zerohop_client::Reason;
use zerohop_layer_log::LogError;
use zerohop_log_client::{LogClient, OpenError};

use super::refusal::{LogRefusal, failed_to_read};
use crate::common::ending::CommandError;
use crate::common::target::ClusterTarget;

/// Which cluster, and how the answer is printed.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogPlace {
    #[command(flatten)]
    pub(super) target: ClusterTarget,
    /// Prints JSON, one object a line.
    #[arg(long)]
    pub(super) json: bool,
}

impl LogPlace {
    /// Opens a log. The inner error is a negative answer.
    pub(super) async fn open(&self, name: &str) -> Result<Result<LogClient, LogRefusal>, CommandError> {
        let client = self.target.connect().await?;
        match LogClient::open(&client, name).await {
            Ok(log) => Ok(Ok(log)),
            Err(OpenError::Client(error)) => match error.reason() {
                Some(Reason::NoKeyspace { .. }) => Ok(Err(LogRefusal::no_log())),
                _ => Err(error.into()),
            },
            Err(OpenError::Log(LogError::NoSuchLog)) => Ok(Err(LogRefusal::not_a_log())),
            Err(OpenError::Log(error)) => Err(failed_to_read(&error)),
        }
    }

    /// The end of what the command waits for, in milliseconds since 1970.
    pub(super) fn until(&self, log: &LogClient) -> u64 {
        log.now().saturating_add(u64::try_from(self.target.timeout().as_millis()).unwrap_or(u64::MAX))
    }
}

/// The partitions that a command is about: one, or all.
pub(super) fn partitions(log: &LogClient, partition: Option<u32>) -> Result<Range<u32>, LogRefusal> {
    let count = log.options().partitions;
    match partition {
        None => Ok(0..count),
        Some(partition) if partition < count => Ok(partition..partition + 1),
        Some(_) => Err(LogRefusal::no_partition(count)),
    }
}

/// Reads the name of a log, which is that of its keyspace; a manager checks the rest.
pub(super) fn log_name(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("a log has a name".to_owned()),
        false => Ok(text.to_owned()),
    }
}
