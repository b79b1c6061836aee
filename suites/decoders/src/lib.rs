//! What the fuzz targets do with their inputs, as functions: the targets in `fuzz` search with them, and the tests here replay what
//! is committed in `fuzz/corpus`, without libFuzzer and in the profile of all tests.

pub mod agent_message;
pub mod backup;
pub mod change_history;
pub mod cluster_map;
pub mod control_log;
pub mod control_request;
pub mod control_state;
mod engine;
pub mod engine_checkpoint;
pub mod engine_journal;
pub mod engine_log;
pub mod engine_log_payload;
pub mod engine_segment;
pub mod gossip;
pub mod log_batch;
pub mod log_record;
pub mod node_state;
pub mod object_record;
pub mod partition_state;
pub mod resp_command;
pub mod rust_text;
pub mod transaction_entry;
pub mod transaction_items;
pub mod transaction_message;
pub mod wire_admin;
pub mod wire_frame;
pub mod wire_gather;
pub mod wire_greeting;

/// A target's name and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by name.
pub const ALL: [Target; 27] = [
    ("agent_message", agent_message::run),
    ("backup", backup::run),
    ("change_history", change_history::run),
    ("cluster_map", cluster_map::run),
    ("control_log", control_log::run),
    ("control_request", control_request::run),
    ("control_state", control_state::run),
    ("engine_checkpoint", engine_checkpoint::run),
    ("engine_journal", engine_journal::run),
    ("engine_log", engine_log::run),
    ("engine_log_payload", engine_log_payload::run),
    ("engine_segment", engine_segment::run),
    ("gossip", gossip::run),
    ("log_batch", log_batch::run),
    ("log_record", log_record::run),
    ("node_state", node_state::run),
    ("object_record", object_record::run),
    ("partition_state", partition_state::run),
    ("resp_command", resp_command::run),
    ("rust_text", rust_text::run),
    ("transaction_entry", transaction_entry::run),
    ("transaction_items", transaction_items::run),
    ("transaction_message", transaction_message::run),
    ("wire_admin", wire_admin::run),
    ("wire_frame", wire_frame::run),
    ("wire_gather", wire_gather::run),
    ("wire_greeting", wire_greeting::run),
];
