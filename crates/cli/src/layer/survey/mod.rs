//! All queues and logs of a cluster with their figures, for `status` and as metrics.
//!
//! Each keyspace and each partition is read by itself. What does not answer in time is named, and hides nothing else. The numbers of
//! keyspaces, of requests at once and of records that are read have bounds.

mod log;
mod metrics;
mod partitions;
mod queue;

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use zerohop_client::{Client, Error, Failure, KeyOrder, Reason};
use zerohop_wire::admin::KeyspaceStatus;

use self::log::LogFigures;
pub(crate) use self::log::greatest_lag;
pub(crate) use self::metrics::{LayerMetrics, log_metrics, queue_metrics};
use self::queue::QueueFigures;

/// How long the survey of a cluster may take.
const TIME_MAX: Duration = Duration::from_secs(2);
/// How long one answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// The most ordered keyspaces that are read.
const KEYSPACES_MAX: usize = 256;

/// Why something was not read that did not answer.
const NO_ANSWER: &str = "no answer in time";

/// The queues and logs of a cluster, by name.
#[derive(Debug, Default, Serialize)]
pub(crate) struct LayerSurvey {
    queues: Vec<QueueFigures>,
    logs: Vec<LogFigures>,
    /// Ordered keyspaces that may have a queue or a log, and were not read.
    pub(super) unread_keyspaces: Vec<UnreadKeyspace>,
}

/// An ordered keyspace that was not read.
#[derive(Debug, Serialize)]
pub(super) struct UnreadKeyspace {
    keyspace: String,
    why: String,
}

/// What a keyspace has.
enum KeyspaceContent {
    /// Neither a queue nor a log, or none that the command may read.
    Other,
    Queue(QueueFigures),
    Log(LogFigures),
    Unread(UnreadKeyspace),
}

#[derive(Clone, Copy)]
enum LayerKind {
    Queue,
    Log,
}

impl LayerSurvey {
    /// Reads the queues and logs among these keyspaces.
    pub(crate) async fn read(client: &Client, keyspaces: &[KeyspaceStatus]) -> Self {
        let until = Instant::now() + TIME_MAX;
        let mut survey = Self::default();
        let mut reads = JoinSet::new();
        let ordered = keyspaces.iter().filter(|one| one.hash == KeyOrder::ORDERED && !one.dropping);
        for (place, keyspace) in ordered.enumerate() {
            let (client, name) = (client.clone(), keyspace.name.clone());
            if place < KEYSPACES_MAX {
                reads.spawn(async move { read_keyspace(&client, name, until).await });
            } else {
                let why = format!("only {KEYSPACES_MAX} ordered keyspaces are read");
                survey.unread_keyspaces.push(UnreadKeyspace { keyspace: name, why });
            }
        }
        while let Some(ended) = reads.join_next().await {
            match ended {
                Ok(KeyspaceContent::Queue(queue)) => survey.queues.push(queue),
                Ok(KeyspaceContent::Log(log)) => survey.logs.push(log),
                Ok(KeyspaceContent::Unread(keyspace)) => survey.unread_keyspaces.push(keyspace),
                Ok(KeyspaceContent::Other) | Err(_) => {}
            }
        }
        survey.queues.sort_by(|one, other| one.queue.cmp(&other.queue));
        survey.logs.sort_by(|one, other| one.log.cmp(&other.log));
        survey.unread_keyspaces.sort_by(|one, other| one.keyspace.cmp(&other.keyspace));
        survey
    }
}

impl fmt::Display for LayerSurvey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queues.iter().try_for_each(|queue| writeln!(f, "queue {queue}"))?;
        self.logs.iter().try_for_each(|log| writeln!(f, "log {log}"))?;
        self.unread_keyspaces.iter().try_for_each(|one| writeln!(f, "{one}"))
    }
}

impl fmt::Display for UnreadKeyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keyspace, why } = self;
        write!(f, "keyspace {keyspace} may have a queue or a log, and was not read: {why}")
    }
}

async fn read_keyspace(client: &Client, name: String, until: Instant) -> KeyspaceContent {
    let kind = match timeout(ANSWER_MAX, kind_of(client, &name)).await {
        Ok(Ok(kind)) => kind,
        Ok(Err(error)) if is_no_concern(&error) => return KeyspaceContent::Other,
        Ok(Err(error)) => {
            return KeyspaceContent::Unread(UnreadKeyspace { keyspace: name, why: cause(&error) });
        }
        Err(_) => {
            return KeyspaceContent::Unread(UnreadKeyspace { keyspace: name, why: NO_ANSWER.to_owned() });
        }
    };
    match kind {
        Some(LayerKind::Queue) => KeyspaceContent::Queue(QueueFigures::read(client, name, until).await),
        Some(LayerKind::Log) => KeyspaceContent::Log(LogFigures::read(client, name, until).await),
        None => KeyspaceContent::Other,
    }
}

/// What a keyspace has, by the records of its options.
async fn kind_of(client: &Client, name: &str) -> Result<Option<LayerKind>, Error> {
    let keyspace = client.keyspace(name).await?;
    let options = [zerohop_layer_queue::keys::options(), zerohop_layer_log::keys::options()];
    let found = keyspace.read_many(&options).await?;
    Ok(match found.as_slice() {
        [Some(_), _] => Some(LayerKind::Queue),
        [None, Some(_)] => Some(LayerKind::Log),
        _ => None,
    })
}

/// Why a keyspace was not read, without the key, which is one of the layer's.
fn cause(error: &Error) -> String {
    error.reason().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Whether the command may not read the keyspace, or the keyspace was dropped since it was listed.
fn is_no_concern(error: &Error) -> bool {
    let is_gone = matches!(
        error.reason(),
        Some(Reason::NoKeyspace { .. } | Reason::Answer { failure: Failure::UnknownKeyspace { .. } })
    );
    is_gone || error.is_access()
}
