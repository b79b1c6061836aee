//! Every bound of the embedded store, in one place, each with its reason.

use std::time::Duration;

/// The longest value given in one call, in bytes, as everywhere in zerohop. Larger things are stored in parts.
pub const VALUE_BYTES_MAX: usize = zerohop_wire::limits::VALUE_BYTES_MAX;

/// Bytes of log that the parts of one record may take. A lookup returns a record whole, in memory: what could not be
/// read again is not taken in.
pub const RECORD_BYTES_MAX: u64 = 256 << 20;

/// Most worker threads, unless asked for: more gain little inside one process, and each has a journal of its own to
/// flush.
pub const INSTANCES_DEFAULT_MAX: u16 = 8;

/// Most worker threads that may be asked for: as many as a node may have.
pub const INSTANCES_MAX: u16 = zerohop_placement::limits::INSTANCES_PER_NODE_MAX as u16;

/// Requests that wait for one worker. Callers wait for their answers, so there are never more than threads calling.
pub const WAITING_REQUESTS_MAX: usize = 4096;

/// Bytes of keys and values that wait for one worker; a request that comes to an empty queue is taken whatever its
/// size.
pub const WAITING_BYTES_MAX: usize = 64 << 20;

/// Bytes of answers held back for one flush: beyond it the batch is flushed and answered early.
pub const BATCH_ANSWER_BYTES_MAX: usize = 64 << 20;

/// Records of `insert_many` that travel to a worker in one request.
pub const GROUP_RECORDS_MAX: usize = 1024;

/// Bytes of `insert_many` that travel to a worker in one request, the last record not counted.
pub const GROUP_BYTES_MAX: usize = 1 << 20;

/// Keys that a step of the walk over all keys brings, the last page of the index not counted.
pub const KEYS_PER_STEP: usize = 4096;

/// How long a caller waits for room in a worker's queue. Queues move every few milliseconds: after this something is
/// wrong with the disk.
pub const ROOM_WAIT: Duration = Duration::from_secs(60);

/// How long a caller waits for its answer: longer than a disk that recovers from an error by itself.
pub const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// How long opening, `sync` and `close` may take: they read or write in proportion to the data.
pub const BULK_WAIT: Duration = Duration::from_secs(3600);

/// How long a caller whose answer was lost waits to hear why: the worker is just ending.
pub const END_WAIT: Duration = Duration::from_secs(5);

/// How often a worker that nobody calls looks after its engine.
pub const UPKEEP_EVERY: Duration = Duration::from_millis(5);

/// The same once it has been idle for [`IDLE_ROUNDS`]: what it wrote is synced by then, and a sleeping process should
/// stay asleep.
pub const UPKEEP_IDLE_EVERY: Duration = Duration::from_millis(200);

/// Rounds of [`UPKEEP_EVERY`] without a request after which a worker is idle: two seconds.
pub const IDLE_ROUNDS: u32 = 400;

/// Appended-to records whose type and size a worker remembers.
pub const TAILS_MAX: usize = 4096;

/// The longest key of which it does.
pub const TAIL_KEY_BYTES_MAX: usize = 1 << 10;

/// Bytes of the settings file that are read: it has four short lines.
pub const SETTINGS_BYTES_MAX: u64 = 4 << 10;
