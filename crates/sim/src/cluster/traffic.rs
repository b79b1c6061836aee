//! The senders of messages between nodes.

/// The kind of sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    Agents,
    Instances,
}
