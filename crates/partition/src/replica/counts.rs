//! What has happened in a replica, by which tests judge a run.

/// Things that happened, by which tests judge a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCounts {
    /// It became primary.
    pub promotions: u64,
    /// It cut entries off.
    pub truncations: u64,
    /// It took a whole state.
    pub states_taken: u64,
    /// It stopped answering because a lease had lapsed.
    pub lapses: u64,
    /// As primary it asked that another take over, as its disk had no room.
    pub hand_overs: u64,
    /// It told its primary that its disk has no room.
    pub told_full: u64,
    /// Requests that waited.
    pub parked: u64,
    /// Bytes of its log that were read in search of corruption.
    pub scrubbed_bytes: u64,
    /// Entries, or places in its files, that were found corrupt so.
    pub corruption_found: u64,
    /// Entries that were repaired with what another member had.
    pub repaired: u64,
    /// Slices that it has compared, as primary, with what all others hold.
    pub audits: u64,
    /// Times that it was found to hold something else than the others.
    pub differed: u64,
}
