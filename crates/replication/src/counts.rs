//! Counters of the events in a replica, by which tests judge a run.

/// Counters of the events in a replica, by which tests judge a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCounts {
    /// Promotions to primary.
    pub promotions: u64,
    /// Truncations of the log.
    pub truncations: u64,
    /// Snapshots installed.
    pub snapshots_installed: u64,
    /// Times at which the primary stopped answering because a lease had expired.
    pub lease_expiries: u64,
    /// Requests of the primary that another member take over, because its disk was full.
    pub handover_requests: u64,
    /// Reports to the primary that the disk is full.
    pub disk_full_reports: u64,
    /// Requests that were queued.
    pub queued_requests: u64,
    /// Bytes of its log that were read in search of corruption.
    pub scrubbed_bytes: u64,
    /// Corrupt entries, or unreadable places in files, that scrubbing has found.
    pub corruption_found: u64,
    /// Entries that were repaired with another member's copy.
    pub repaired: u64,
    /// Ranges that it has compared, as primary, with all other members.
    pub audits: u64,
    /// Times at which its contents were found to differ from those of the others.
    pub differed: u64,
}
