//! The ends of processes.

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeEnd {
    /// Power loss.
    Power,
    /// It is killed; its issued writes reach the disk.
    Killed,
    /// It shuts down cleanly.
    Stopped,
    /// Power loss, with the loss of its instances' disks.
    DisksLost,
}
