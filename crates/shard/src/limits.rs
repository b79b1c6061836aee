//! Limits and times of an instance.

/// Partitions split, or segments copied ahead for a split, in one batch. Each costs a dozen syncs, tens of milliseconds on many
/// disks, and requests and lease messages wait meanwhile. With several in one batch, leases lapse.
pub(crate) const SPLIT_STEPS_PER_BATCH: usize = 1;

/// Partitions that are split first because something waits for them. More of them are split in the usual order.
pub(crate) const SPLITS_PREFERRED_MAX: usize = 64;

/// When a failed split is tried again. A full disk may have room by then.
pub(crate) const SPLIT_AGAIN_MS: u64 = 200;

/// When a keyspace whose map change failed is tried again. The disk may work, or have room, by then.
pub(crate) const FOLLOW_AGAIN_MS: u64 = 500;

/// Partitions that are synced for one batch of log index reports. Each takes as long as a sync of the disk, in which the instance
/// does nothing else.
pub(crate) const REPORT_SYNCS_MAX: usize = 16;

/// Flushes in a row. The commits of the first may append more entries (waits that are answered, records that expire).
pub(crate) const FLUSH_ROUNDS_MAX: usize = 4;

/// How long entries that no client waits for may wait for the flush of others.
pub(crate) const FLUSH_LATER_MS: u64 = 5;

/// How often a recently used instance runs the engine's background maintenance.
pub(crate) const MAINTENANCE_MS: u64 = 5;

/// How long after the last request it does so: until the written entries are synced and checkpointed.
pub(crate) const MAINTENANCE_BUSY_MS: u64 = 2_000;

/// How often partitions whose dead space waits for a checkpoint are ticked. A tick starts the checkpoint.
pub(crate) const PRESSED_TICK_MS: u64 = 20;

/// How often an idle instance runs the engine's background maintenance. Dead space is searched for by a timer.
pub(crate) const MAINTENANCE_IDLE_MS: u64 = 1_000;

/// Damaged partitions of an instance whose damage is described. The others are only counted.
pub(crate) const DAMAGED_REPORTED_MAX: usize = 64;

/// Failures kept for the operator; the oldest is removed first.
pub(crate) const ERRORS_MAX: usize = 16;

/// Transaction messages that an instance queues; more are dropped.
pub(crate) const TRANSIT_MAX: usize = 65_536;

/// Transaction messages that are passed on in one turn. Requests are served in between.
pub(crate) const TRANSIT_PER_BATCH_MAX: usize = 4_096;

/// Rounds of flushes and messages between partitions of one instance in one batch: a transaction takes three.
pub(crate) const TRANSIT_ROUNDS_MAX: usize = 8;

/// For how long after a read with a read lock an instance reads its clock for each read of a socket. No read lock is granted
/// while the time may be from before the request's arrival.
pub(crate) const TIMELY_MS: u64 = 1_000;

/// After how long an instance first repeats its report that a keyspace being dropped is drained. Each pause is twice as long,
/// since each report is an entry of the control group's log.
pub(crate) const DRAINED_AGAIN_MS: u64 = 500;

/// The longest pause between two reports.
pub(crate) const DRAINED_AGAIN_MS_MAX: u64 = 30_000;

/// After how long the instance first checks again whether a keyspace is drained. Each pause is twice as long.
pub(crate) const DRAINED_CHECK_MS: u64 = 20;

/// The longest pause between two checks.
pub(crate) const DRAINED_CHECK_MS_MAX: u64 = 500;

/// How often an instance measures the regions whose primary is here.
pub(crate) const REGION_CHECK_MS: u64 = 1_000;

/// After how long a requested split of a region is requested again. Each pause is twice as long: the region may move, or the map be full.
pub(crate) const REGION_SPLIT_AGAIN_MS: u64 = 5_000;

/// The longest pause between two requests to split one region.
pub(crate) const REGION_SPLIT_AGAIN_MS_MAX: u64 = 300_000;

/// Watches of an instance that are counted. A hostile client could make one for each request at each partition.
pub(crate) const WATCHES_COUNTED_MAX: usize = 1 << 14;

/// Watches of an instance that are listed, those with the greatest lag first.
pub(crate) const WATCHES_LISTED_MAX: usize = 1 << 10;

/// Bytes of the keys that the listed watches select. All instances of a node answer one request for the list.
pub(crate) const WATCH_KEY_BYTES_LISTED_MAX: usize = 64 << 10;
