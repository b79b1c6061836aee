//! All limits of the embedded store, in one place, each with its reason.

use std::time::Duration;

/// Maximum length of a value in one call, in bytes, as everywhere in zerohop. Larger data is stored in parts.
pub const VALUE_BYTES_MAX: usize = zerohop_wire::limits::VALUE_BYTES_MAX;

/// Maximum number of log bytes of the parts of one record. A lookup returns an entire record in memory: the store refuses data that it could not
/// return.
pub const RECORD_BYTES_MAX: u64 = 256 << 20;

/// Default maximum number of worker threads: more gain little inside one process, and each has a journal of its own to flush.
pub const INSTANCES_DEFAULT_MAX: u16 = 8;

/// Maximum number of worker threads: the limit of a node's instances.
pub const INSTANCES_MAX: u16 = zerohop_placement::limits::INSTANCES_PER_NODE_MAX as u16;

/// Maximum number of requests that wait for one worker. Callers wait for their answers, so there are never more than calling threads.
pub const WAITING_REQUESTS_MAX: usize = 4096;

/// Maximum number of bytes of keys and values that wait for one worker; an empty queue accepts a request of any size.
pub const WAITING_BYTES_MAX: usize = 64 << 20;

/// Maximum number of answer bytes that wait for one flush: beyond it the batch is flushed and answered early.
pub const BATCH_ANSWER_BYTES_MAX: usize = 64 << 20;

/// Number of records of `insert_many` in one request to a worker.
pub const GROUP_RECORDS_MAX: usize = 1024;

/// Number of bytes of `insert_many` in one request to a worker, without the last record.
pub const GROUP_BYTES_MAX: usize = 1 << 20;

/// Number of keys that one step of the iteration returns, without the last page of the index.
pub const KEYS_PER_STEP: usize = 4096;

/// How long a caller waits for room in a worker's queue. Queues move every few milliseconds: after this time the disk has a problem.
pub const QUEUE_SPACE_WAIT: Duration = Duration::from_secs(60);

/// How long a caller waits for its answer: longer than a disk needs to recover from an error by itself.
pub const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// How long a write waits while the disk has no room and compaction gives space back: shorter than [`ANSWER_WAIT`]. The engine ends the wait
/// sooner if nothing is given back.
pub const ROOM_WAIT: Duration = Duration::from_secs(60);

/// How often such a write is tried again.
pub const ROOM_RETRY: Duration = Duration::from_millis(5);

/// Time limit for opening, `sync` and `close`: they read or write in proportion to the data.
pub const BULK_WAIT: Duration = Duration::from_secs(3600);

/// How long a caller waits for the reason when its answer was lost: the worker is just ending.
pub const END_WAIT: Duration = Duration::from_secs(5);

/// Interval of background maintenance of a worker without requests.
pub const MAINTENANCE_INTERVAL: Duration = Duration::from_millis(5);

/// The same interval after [`IDLE_ROUNDS`] idle rounds: its writes are synced by then, and a sleeping process should not wake up often.
pub const MAINTENANCE_INTERVAL_IDLE: Duration = Duration::from_millis(200);

/// Number of rounds of [`MAINTENANCE_INTERVAL`] without a request after which a worker is idle: two seconds.
pub const IDLE_ROUNDS: u32 = 400;

/// Number of records with recent appends whose size a worker remembers.
pub const SIZES_MAX: usize = 4096;

/// Maximum length of a key that it remembers.
pub const SIZE_KEY_BYTES_MAX: usize = 1 << 10;

/// Maximum number of bytes read from the settings file: it has four short lines.
pub const SETTINGS_BYTES_MAX: u64 = 4 << 10;
