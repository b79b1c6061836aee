//! The commands that a connection executes itself.

/// Commands that change the state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionCommand {
    AskingRedirect,
    Auth,
    Client,
    Cluster,
    Discard,
    Exec,
    Hello,
    Keyspace,
    Multi,
    Quit,
    Unwatch,
    Watch,
}
