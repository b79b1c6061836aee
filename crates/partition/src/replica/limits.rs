//! Every bound of replication, each with its reason. Times are in microseconds of a clock that never runs backwards.

/// For how long the answer of a unit waits for what becomes of its entry, after its primary was deposed or too few were in sync.
/// Either takes a round trip as a rule; beyond it the client is told that nobody knows.
pub const KEPT_US: u64 = 2_000_000;

/// How long a grant lasts: what a failover waits at most beside its detection, and what may pass without a renewal
/// before reads stop.
pub const LEASE_US: u64 = 400_000;

/// How often a lease is asked for: three times within one.
pub const LEASE_RENEW_US: u64 = 100_000;

/// What a granter waits for its grant to have ended: an eighth more, for clocks that run at other rates.
pub const LEASE_WAIT_US: u64 = LEASE_US + LEASE_US / 8;

/// How far ahead of the time a ceiling is synced: four renewals, and less than what requests may be ahead of a clock
/// (`CLOCK_AHEAD_MS_MAX`), as whoever is promoted begins there.
pub const CEILING_AHEAD_MS: u64 = 400;

/// How far ahead where the clock had to begin ahead of the time already: just enough to go on.
pub const CEILING_STEP_MS: u64 = 20;

/// After so long a replica that does not hold what it was sent, or says nothing, is reported.
pub const LAG_US: u64 = 1_000_000;

/// The longest pause between two looks at its leases of an instance that is on time: half as much again as between two
/// renewals. Whoever was away for longer has missed the answers of others, and does not blame them for it.
pub const ON_TIME_US: u64 = LEASE_RENEW_US + LEASE_RENEW_US / 2;

/// After so long a replica is reported also by a primary that has not been on time for [`LAG_US`]: else one that hangs
/// would hold up writes for as long as the machine of its primary is overloaded.
pub const LAG_SURE_US: u64 = 10 * LAG_US;

/// How often a change of the group is asked for until the epoch is another.
pub const ASK_AGAIN_US: u64 = 200_000;

/// How often a peer hears of its primary while something is unacknowledged: losses are found by it.
pub const HEARTBEAT_US: u64 = 30_000;

/// How often one does that does not answer, or whose lease is not there, and a follower under an interval that has not
/// said that it has flushed everything. Who has said that, and that it holds and has applied everything, hears nothing:
/// leases tell whether it is there, and an idle partition should cost nothing.
pub const IDLE_US: u64 = 500_000;

/// So often the pause between two heartbeats that are not answered is doubled, up to [`IDLE_US`].
pub const BEATS_DOUBLED_MAX: u32 = 5;

/// How often a member says that it needs a whole state until it gets one.
pub const REPORT_US: u64 = 100_000;

/// How often a member whose disk is full says so.
pub const NO_ROOM_AGAIN_US: u64 = 300_000;

/// For how long it counts as full after it has said so: three words of it may be lost.
pub const NO_ROOM_US: u64 = 4 * NO_ROOM_AGAIN_US;

/// A primary whose disk is full waits so long until it hands over, so that others whose disk is the same have said so.
pub const NO_ROOM_SURE_US: u64 = 150_000;

/// How often a member looks whether it can go on where nothing tells it: requests that are parked, a full disk.
pub const POLL_US: u64 = 5_000;

/// A member is stepped for itself at most so often.
pub const NAP_US: u64 = 1_000;

/// How soon after it was touched a member looks at what is not urgent: whether a checkpoint is due.
pub const SETTLE_US: u64 = 50_000;

/// How long what was sent may be unacknowledged before it is sent again.
pub const RESEND_US: u64 = 60_000;

/// How long a member may be behind in what is committed before it is told so beside new entries, which tell it too: a message to each
/// for every entry of a partition that is written now and then would cost as much as the entry.
pub const COMMIT_US: u64 = 25_000;

/// How long a follower, on which nobody waits, may lack entries so that those of all partitions go to it together: a message for
/// every entry, its answer, and an awakening for both would cost it as much as one in sync. Well below [`COMMIT_US`] and
/// [`KEEPS_UP_US`].
pub const GATHER_US: u64 = 20_000;

/// With so many entries to be sent to a follower they do not wait for others.
pub const GATHER_ENTRIES_MAX: u64 = 64;

/// How soon a stream may step back again: entries that overtook each other bring one complaint each.
pub const REWIND_US: u64 = 2_000;

/// Entries that are under way to one member.
pub const WINDOW_ENTRIES: u64 = 4_096;

/// Bytes of entries in one message; one entry may pass it.
pub const MESSAGE_BYTES: usize = 256 << 10;

/// Entries in one message.
pub const MESSAGE_ENTRIES: usize = 512;

/// Bytes of entries that one step sends to one member: others have their turn.
pub const STEP_BYTES: usize = 4 << 20;

/// A follower this close behind the log's end may be asked to be admitted; beside, it has all that is committed.
pub const ADMIT_LAG_ENTRIES: u64 = 256;

/// A follower that holds what was appended within so long keeps up: what it has yet to flush is hardly younger to it than to
/// its primary. Longer than it takes to send again what was lost.
pub const KEEPS_UP_US: u64 = 100_000;

/// For how long a request is parked until the group is settled: as long as a failover takes.
pub const PARKED_US: u64 = 2_000_000;

/// Requests parked in one partition.
pub const PARKED_MAX: usize = 4_096;

/// Bytes of parked requests; one may pass it.
pub const PARKED_BYTES_MAX: usize = 32 << 20;

/// Messages of a newer epoch that wait for the map.
pub const EARLY_MAX: usize = 16;

/// Bytes of them; a larger one is let lie, and comes again.
pub const EARLY_BYTES_MAX: usize = 1 << 20;

/// Entries of one partition that are being repaired; with more the whole state is taken.
pub const REPAIR_MAX: usize = 256;

/// How long one member is given to send an entry that is corrupt here before another is asked.
pub const REPAIR_ASK_US: u64 = 100_000;

/// So often each other member is asked before a whole state is taken, or another becomes primary.
pub const REPAIR_ROUNDS: u32 = 3;

/// How often they are asked after that by a primary that nobody can take over from.
pub const REPAIR_SLOW_US: u64 = 1_000_000;

/// For how long a read waits for what it reads to be repaired: some rounds.
pub const REPAIR_WAIT_US: u64 = 1_000_000;

/// What one step of reading a log in search of corruption reads, about: some ten microseconds where the system has it in memory.
pub const SCRUB_BYTES: usize = 64 << 10;

/// So much an instance reads in search of corruption, a second, if not told otherwise: a terabyte takes a week and a half, and costs
/// a thousandth of a disk.
pub const SCRUB_BYTES_PER_S: u64 = 1 << 20;

/// Records that members compare at a time: each may have to be read from the disk.
pub const AUDIT_RECORDS: usize = 16;

/// After so long others may be compared though not all have answered.
pub const AUDIT_ROUND_US: u64 = 1_000_000;

/// A comparison that somebody asked for is begun again after this long, if it came to nothing,
pub const COMPARE_RETRY_US: u64 = 20_000;

/// and ends after this long, with those members that have answered.
pub const COMPARE_US: u64 = 5_000_000;

/// Comparisons of one partition that may be asked for at a time.
pub const COMPARES_MAX: usize = 8;

/// After so long without a part acknowledged a whole state is sent no more: what is dead in the log stays while it is.
pub const SENDING_US: u64 = 5_000_000;

/// After so long without a part it is waited for no more: sooner, so that whoever sends has not begun again meanwhile.
pub const TAKING_US: u64 = 3_000_000;

/// Bytes in one part of a whole state; one entry may pass it. They are read, checked and copied while the processor's cache has
/// them.
pub const STATE_PART_BYTES: usize = 256 << 10;

/// Bytes of parts that are under way to one member: several milliseconds of a fast link, and half of what an instance has
/// on its way to another at most.
pub const STATE_WINDOW_BYTES: usize = 4 << 20;

/// Bytes of parts that one step sends: half a millisecond of work, then requests have their turn.
pub const STATE_STEP_BYTES: usize = 1 << 20;

/// What an instance may send of copies at once after a pause, at the rate that is set: so much time's worth.
pub const COPY_BURST_US: u64 = 100_000;

/// An instance that sends copies and takes longer than this from one turn to the next sends less in each: requests wait for it.
pub const COPY_LATE_US: u64 = 5_000;

/// The least that a turn may send of copies, and by how much more each turn after that: one part.
pub const COPY_STEP_BYTES_MIN: u64 = STATE_PART_BYTES as u64;

/// How long nothing may be acknowledged before parts are sent again: the receiver may be waiting for its disk.
pub const RESEND_STATE_US: u64 = 120_000;

/// Bytes of what a partition knows beside its records: what a checkpoint may hold of it.
pub const STATE_BYTES_MAX: usize = zerohop_engine::limits::CHECKPOINT_EXTRA_BYTES_MAX;

/// A member that has nothing is sent the log as it stands if it has at least so many segments, of which all but the last are
/// whole; a shorter one is sent by its entries, which need no state beside.
pub const BULK_SEGMENTS: u64 = 2;

/// Damages of a copy that are told in words; of the others only how many there are.
pub const DAMAGES_NAMED_MAX: usize = 8;

const _: () = assert!(GATHER_US < COMMIT_US && GATHER_US < HEARTBEAT_US && 3 * GATHER_US < KEEPS_UP_US);
const _: () = assert!(GATHER_ENTRIES_MAX < ADMIT_LAG_ENTRIES);
const _: () = assert!(CEILING_AHEAD_MS < zerohop_wire::limits::CLOCK_AHEAD_MS_MAX);
const _: () = assert!(MESSAGE_ENTRIES <= zerohop_wire::limits::ENTRIES_MAX as usize);
