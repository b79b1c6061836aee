//! Whether an operation waits for others, so that they are sent together.

/// Whether an operation may wait a short time for others to the same instance, so that they are sent together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coalescing {
    /// As the keyspace is configured.
    #[default]
    AsKeyspace,
    /// Never: the operation is sent with the next write to the socket.
    Never,
    /// Within these bounds.
    Within(Collect),
}

/// Limits of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collect {
    /// How long the first operation waits, in microseconds. 0: only for operations that are submitted in the same turn.
    pub delay_us: u32,
    /// Number of bytes of operations to one instance at which they are sent at once.
    pub bytes: u32,
}
