//! What `zerohop log` and `zerohop queue` share: each log and each queue is a keyspace of its own.

mod drop;
mod list;
mod survey;

pub(crate) use self::drop::{LayerDropArguments, drop_layer};
pub(crate) use self::list::{LayerSummary, list, print_metrics};
pub(crate) use self::survey::{LayerSurvey, greatest_lag, log_metrics, queue_metrics};
