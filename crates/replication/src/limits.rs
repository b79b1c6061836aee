//! Every bound of replication, each with its reason. Times are in microseconds of a monotonic clock.

/// How long the answer of an atomic batch waits for the fate of its entry, after its primary was deposed or too few members were
/// in sync. Either case usually takes one round trip. After this time the client is answered that the outcome is unknown.
pub const RETAINED_REPLY_US: u64 = 2_000_000;

/// Transaction messages that wait until a primary may answer: as many as some dozen clients have under way. Others are sent again.
pub const WAITING_MESSAGES_MAX: usize = 1024;

/// Their bytes.
pub const WAITING_MESSAGE_BYTES_MAX: usize = 4 << 20;

/// How long a grant lasts. It bounds the wait of a failover beside detection, and the time without renewal after which reads
/// stop.
pub const LEASE_US: u64 = 400_000;

/// How often a lease is requested: three times within its duration.
pub const LEASE_RENEW_US: u64 = 100_000;

/// How soon a lease is requested again from a member whose timestamp bound is too low to write: the time in which it has synced a
/// higher one.
pub const BOUND_AGAIN_US: u64 = 10_000;

/// How long a granter waits until its grant has ended: an eighth more, for clocks that run at other rates.
pub const LEASE_WAIT_US: u64 = LEASE_US + LEASE_US / 8;

/// How far ahead of the clock a timestamp bound is synced: four renewals. It is less than the lead over the clock that requests
/// may have (`CLOCK_AHEAD_MS_MAX`), because a promoted replica starts at the bound.
pub const TIMESTAMP_BOUND_AHEAD_MS: u64 = 400;

/// How far ahead the bound is synced if the partition's clock already had to start ahead of real time: just enough to continue.
pub const TIMESTAMP_BOUND_STEP_MS: u64 = 20;

/// After this time a replica is reported that lacks entries that it was sent, or that does not answer.
pub const LAG_US: u64 = 1_000_000;

/// The longest pause between two lease checks of an instance that counts as on time: one and a half renewal periods. After a
/// longer pause the instance has missed the answers of others, and does not report them for it.
pub const ON_TIME_US: u64 = LEASE_RENEW_US + LEASE_RENEW_US / 2;

/// After this time a replica is reported even by a primary that has not been on time for [`LAG_US`]. Otherwise a hanging replica
/// would block writes for as long as the machine of its primary is overloaded.
pub const LAG_SURE_US: u64 = 10 * LAG_US;

/// How often a change of the group is requested until the epoch changes.
pub const PROPOSAL_REPEAT_US: u64 = 200_000;

/// How often the primary sends a heartbeat to a member while something is unacknowledged. Heartbeats reveal lost messages.
pub const HEARTBEAT_US: u64 = 30_000;

/// How often the primary sends a heartbeat to a member that does not answer, or that has granted no lease. The same holds for a
/// follower under interval durability that has not reported its flush of everything. A member that has reported that flush, and
/// that it has and has applied everything, gets no heartbeat. Leases show whether it is alive, and an idle partition should cost
/// nothing.
pub const IDLE_US: u64 = 500_000;

/// How many times the pause between two unanswered heartbeats is doubled, up to [`IDLE_US`].
pub const BEATS_DOUBLED_MAX: u32 = 5;

/// How often a member reports that it needs a snapshot until it receives one.
pub const REPORT_US: u64 = 100_000;

/// How often a member whose disk is full reports that.
pub const DISK_FULL_REPORT_US: u64 = 300_000;

/// How long a member counts as full after its report. Three of its reports may be lost.
pub const DISK_FULL_VALID_US: u64 = 4 * DISK_FULL_REPORT_US;

/// How long a primary whose disk is full waits before it hands over, so that members with the same disk have reported theirs.
pub const DISK_FULL_HANDOVER_US: u64 = 150_000;

/// How often a member polls for conditions that no event signals: queued requests, a full disk.
pub const POLL_US: u64 = 5_000;

/// The shortest pause between two steps that a member requests for itself.
pub const STEP_PAUSE_US_MIN: u64 = 1_000;

/// How soon after an event a member checks what is not urgent: whether a checkpoint is due.
pub const DEFERRED_CHECK_US: u64 = 50_000;

/// How long sent entries may be unacknowledged before they are sent again.
pub const RESEND_US: u64 = 60_000;

/// How long a member may lack a commit index that no new entry carries, before the primary sends it separately. New entries carry
/// it too. A message to each member for every entry of a rarely written partition would cost as much as the entry.
pub const COMMIT_US: u64 = 25_000;

/// How long a follower, for which no request waits, may lack entries so that the entries of all partitions travel together. A
/// message for every entry, its answer, and a wake-up for both would cost as much as for an in-sync replica. The value is well
/// below [`COMMIT_US`] and [`KEEPING_UP_US`].
pub const COALESCE_US: u64 = 20_000;

/// With this many entries to be sent to a follower, they do not wait for those of other partitions.
pub const COALESCE_ENTRIES_MAX: u64 = 64;

/// How soon a stream may step back again, to another position. Entries that overtake each other cause one report each.
pub const REWIND_US: u64 = 2_000;

/// Entries that may be in flight to one member.
pub const WINDOW_ENTRIES: u64 = 4_096;

/// The fewest entries that may be in flight, after many steps back.
pub const WINDOW_ENTRIES_MIN: u64 = 16;

/// Bytes of entries in one message; a single entry may exceed it.
pub const MESSAGE_BYTES: usize = 256 << 10;

/// Entries in one message.
pub const MESSAGE_ENTRIES: usize = 512;

/// Bytes of entries that one step sends to one member, so that other members get their turn.
pub const STEP_BYTES: usize = 4 << 20;

/// How many entries a follower may lack at the log's end when its admission is requested. It must also have all committed
/// entries.
pub const ADMIT_LAG_ENTRIES: u64 = 256;

/// A follower that has appended entries within this time keeps up: its unflushed entries are hardly newer to it than to its
/// primary. The value is longer than it takes to send lost entries again.
pub const KEEPING_UP_US: u64 = 100_000;

/// How long a request is queued until the group is settled: as long as a failover takes.
pub const QUEUED_US: u64 = 2_000_000;

/// Requests queued in one partition.
pub const QUEUED_REQUESTS_MAX: usize = 4_096;

/// Bytes of queued requests; a single request may exceed it.
pub const QUEUED_BYTES_MAX: usize = 32 << 20;

/// Messages of a newer epoch that wait for the map.
pub const EARLY_MAX: usize = 16;

/// Bytes of one such message; a larger one is dropped, and its sender repeats it.
pub const EARLY_BYTES_MAX: usize = 1 << 20;

/// Entries of one partition that may be under repair. With more the replica installs a snapshot.
pub const REPAIR_MAX: usize = 256;

/// How long a member has to send an entry that is corrupt here before another member is asked.
pub const REPAIR_REQUEST_US: u64 = 100_000;

/// How often each other member is asked before the replica installs a snapshot, or another member becomes primary.
pub const REPAIR_ROUNDS: u32 = 3;

/// How often the others are asked after that by a primary that no member can replace.
pub const REPAIR_SLOW_US: u64 = 1_000_000;

/// How long a read waits for the repair of the entries that it needs: some rounds.
pub const REPAIR_WAIT_US: u64 = 1_000_000;

/// The approximate bytes that one scrub step reads: about ten microseconds if the operating system has them in memory.
pub const SCRUB_BYTES: usize = 64 << 10;

/// The default scrub rate of an instance in bytes per second. A terabyte takes a week and a half, at a thousandth of a disk's
/// rate.
pub const SCRUB_BYTES_PER_S: u64 = 1 << 20;

/// Records that members compare at a time; each may have to be read from disk.
pub const AUDIT_RECORDS: usize = 16;

/// After this time the next records may be compared even if not all members have answered.
pub const AUDIT_ROUND_US: u64 = 1_000_000;

/// After this time a requested comparison that has failed is started again.
pub const COMPARE_RETRY_US: u64 = 20_000;

/// After this time a requested comparison ends with the members that have answered.
pub const COMPARE_US: u64 = 5_000_000;

/// Comparisons of one partition that may be requested at a time.
pub const COMPARES_MAX: usize = 8;

/// After this time without an acknowledged part, the primary stops sending a snapshot. While it sends one, dead space of the log
/// stays.
pub const SENDING_US: u64 = 5_000_000;

/// After this time without a part, the receiver gives up a snapshot install. It is shorter, so that the sender has not started
/// again meanwhile.
pub const INSTALL_TIME_OUT_US: u64 = 3_000_000;

/// Bytes in one part of a snapshot; a single entry may exceed it. Parts are read, checked and copied while they are in the
/// processor's cache.
pub const STATE_PART_BYTES: usize = 256 << 10;

/// Bytes of parts in flight to one member: several milliseconds of a fast link. They are at most half of the bytes that an
/// instance may have in flight to another.
pub const STATE_WINDOW_BYTES: usize = 4 << 20;

/// Parts in flight to one member. The end of a segment ends a part, so parts may be small.
pub const STATE_WINDOW_PARTS: usize = 16;

/// After a missing acknowledgement has halved the window, it grows by one part for this many acknowledged parts.
pub const STATE_WINDOW_GROWTH_PARTS: usize = 16;

/// Bytes of parts that one step sends: half a millisecond of work, then requests get their turn.
pub const STATE_STEP_BYTES: usize = 1 << 20;

/// The burst of snapshot bytes that an instance may send after a pause, as time at the configured rate.
pub const COPY_BURST_US: u64 = 100_000;

/// If an instance that sends snapshots takes longer than this from one turn to the next, requests wait. It then sends less in
/// each turn.
pub const COPY_LATE_US: u64 = 5_000;

/// The least number of snapshot bytes that a turn may send, and the increment per turn after that: one part.
pub const COPY_STEP_BYTES_MIN: u64 = STATE_PART_BYTES as u64;

/// How long parts may be unacknowledged before they are sent again. The receiver may be waiting for its disk.
pub const RESEND_STATE_US: u64 = 120_000;

/// Bytes of an encoded history that a member accepts: more than is sent, since changes take less when encoded.
pub const HISTORY_BYTES_MAX: usize = zerohop_partition::limits::HISTORY_SENT_BYTES_MAX;

/// Bytes of a partition's state beside its records: the most that a checkpoint may contain.
pub const STATE_BYTES_MAX: usize = zerohop_engine::limits::CHECKPOINT_EXTRA_BYTES_MAX;

/// A member without data is sent complete segments if the log has at least this many, of which all but the last are full. A
/// shorter log is sent entry by entry, which needs no state beside it.
pub const BULK_SEGMENTS: u64 = 2;

/// How many damages of a copy are described in words. The others are only counted.
pub const DAMAGES_NAMED_MAX: usize = 8;

const _: () =
    assert!(COALESCE_US < COMMIT_US && COALESCE_US < HEARTBEAT_US && 3 * COALESCE_US < KEEPING_UP_US);
const _: () = assert!(COALESCE_ENTRIES_MAX < ADMIT_LAG_ENTRIES);
const _: () = assert!(TIMESTAMP_BOUND_AHEAD_MS < zerohop_wire::limits::CLOCK_AHEAD_MS_MAX);
const _: () = assert!(MESSAGE_ENTRIES <= zerohop_wire::limits::ENTRIES_MAX as usize);
