//! A message of a queue as JSON.

use serde::Serialize;
use zerohop_layer_queue::{MessageId, MessageRecord};

use crate::common::display::JsonValue;

/// The fields that popped messages and dead letters have.
#[derive(Serialize)]
pub(super) struct MessageOutput<'a> {
    id: String,
    partition: u32,
    #[serde(flatten)]
    value: JsonValue<'a>,
    group: Option<&'a str>,
    name: Option<&'a str>,
    /// How often it was leased.
    tries: u32,
    pushed_ms: u64,
}

impl<'a> MessageOutput<'a> {
    pub(super) fn new(partition: u32, id: MessageId, tries: u32, message: &'a MessageRecord) -> Self {
        Self {
            id: id.to_string(),
            partition,
            value: JsonValue(&message.value),
            group: message.group.as_deref(),
            name: message.name.as_deref(),
            tries,
            pushed_ms: message.pushed,
        }
    }
}
