//! Every bound of the control group, with its reason.

/// Most managers that agree: more would only make every decision wait for more.
pub const MANAGERS_MAX: usize = 5;

/// How far ahead a control group goes that is founded again: more than was ever decided without its knowing.
pub const FOUNDED_AGAIN_JUMP: u64 = 1 << 20;

/// Most commands that a snapshot may say were applied: at a million a second for a hundred thousand years, and far from the end of what
/// 64 bits count. One that says more is damaged, and counting on from it would overflow.
pub const APPLIED_MAX: u64 = 1 << 62;

/// Outcomes remembered for retries, the oldest forgotten first. At the hundreds of commands a second that a cluster in
/// trouble sees, many seconds of them; a retry from before the oldest is refused, not done again.
pub const REQUESTS_REMEMBERED_MAX: usize = 4096;

/// Longest encoded command: a node with 255 instances of the longest addresses, and reports of many logs.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;

/// Requests in one entry of the log: all that may wait, and what a plan adds.
pub const BATCH_REQUESTS_MAX: usize = 2 * WAITING_MAX;

/// Bytes of the requests in one entry of the log, encoded, with their lengths: the entry is no longer than the longest command.
pub const BATCH_BYTES_MAX: usize = COMMAND_BYTES_MAX;

/// How long a change of a group waits for others, in milliseconds, if the leader has proposed some so shortly before. One that
/// comes alone does not wait.
pub const GATHER_MS: u64 = 20;

/// The same where no client waits for the change: a copy is there, and counts beside enough others.
pub const GATHER_CALM_MS: u64 = 50;

/// Logs that one report of a restarted node tells of; the node sends several.
pub const HELD_LOGS_MAX: usize = 8192;

/// Longest text of a refusal.
pub const REFUSAL_BYTES_MAX: usize = 512;

/// Commands that may wait for their commit: beyond it the leader says that it is busy.
pub const WAITING_MAX: usize = 1024;

/// Bytes of proposals not yet committed, after which the leader says that it is busy.
pub const UNCOMMITTED_BYTES_MAX: u64 = 32 << 20;

/// Bytes of entries in one message to another manager.
pub const MESSAGE_ENTRIES_BYTES_MAX: u64 = 1 << 20;

/// Longest message of one manager to another: a snapshot with the largest map beside what only control keeps.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Messages with entries to one manager that are not acknowledged.
pub const MESSAGES_IN_FLIGHT_MAX: usize = 64;

/// Entries in the log after which a snapshot takes their place.
pub const LOG_ENTRIES_MAX: usize = 1024;

/// Bytes of entries after which a snapshot takes their place, if they are also as many as the last snapshot has.
pub const LOG_BYTES_MAX: usize = 4 << 20;

/// Entries kept behind a snapshot, so that a manager that is a little late needs no snapshot.
pub const LOG_TRAIL_ENTRIES: usize = 128;

/// A time step of consensus. Ten to twenty without a leader's word begin an election.
pub const TICK_MS: u64 = 50;

/// Ticks between a leader's words.
pub const HEARTBEAT_TICKS: usize = 2;

/// Least ticks without a leader's word before an election; the most are twice as many, less one.
pub const ELECTION_TICKS: usize = 10;

/// Ticks between two attempts of the first founder to be elected: the others come about as soon as it does.
pub const FOUNDING_TICKS: u64 = 2;

/// Ticks caught up with at once after a pause: enough for an election, not for several.
pub const TICKS_AT_ONCE_MAX: u64 = 2 * ELECTION_TICKS as u64;

/// Ticks after which a snapshot that was sent and not acknowledged is taken for lost.
pub const SNAPSHOT_LOST_TICKS: u64 = 60;

/// A leader that has had nothing put on its disk for so long, though it wants to, has another lead.
pub const STUCK_TICKS: u64 = 30;

/// How far behind, in entries, a new manager may be to be given a vote.
pub const LEARNER_BEHIND_MAX: u64 = 64;

/// Longest datagram of gossip: what fits a packet of Ethernet.
pub const GOSSIP_DATAGRAM_BYTES_MAX: usize = 1400;

/// How long a member of the control group may be without a leader before it says so, in milliseconds: a few elections, each of up
/// to a second.
pub const LEADERLESS_MEMBER_MS: u64 = 3_000;

/// The same of other nodes, which hear from the leader every second and a half at least.
pub const LEADERLESS_NODE_MS: u64 = 5_000;

/// How long a node that the map has as up may be silent before that is told, in milliseconds: with a leader it is down in the map
/// by then.
pub const SILENT_TOLD_MS: u64 = 2_000;

/// After how many milliseconds a start that waits tells what for, for the first time.
pub const WAITS_FIRST_MS: u64 = 1_000;

/// Milliseconds between two such words.
pub const WAITS_TOLD_MS: u64 = 10_000;

/// Nodes of the map that are told at once that a node is here: who hears of it passes it on.
pub const GOSSIP_ANNOUNCES: usize = 4;

/// Partitions that operators have moved by hand and that stay where they are: every plan looks each of them up.
pub const PINS_MAX: usize = 1024;

/// Partitions of which the leader remembers how much is asked: those of a few large keyspaces. Others count as one.
pub const LOADS_MAX: usize = 1 << 20;

/// Longest message between agents, which any transport takes in one piece. What is longer goes in pieces.
pub const AGENT_FRAME_BYTES_MAX: usize = 300 << 10;

/// Bytes of a map, or of a message between managers, that one message between agents carries.
pub const PIECE_BYTES: usize = 256 << 10;

/// Pieces of a map: the largest, and as much again for what a delta may say twice.
pub const MAP_PIECES_MAX: usize = 2 * zerohop_placement::limits::MAP_BYTES_MAX / PIECE_BYTES;

/// Pieces of a message of one manager to another.
pub const MESSAGE_PIECES_MAX: usize = MESSAGE_BYTES_MAX / PIECE_BYTES + 1;

/// Managers whose messages are put together at a time: all, and those that come in their places.
pub const MESSAGES_PIECED_MAX: usize = 2 * MANAGERS_MAX;

/// Encoded maps and deltas kept for those who fetch them in pieces.
pub const ENCODED_MAPS_MAX: usize = 4;

/// Asks of this node's instances that are waiting: beyond it, they ask again.
pub const INSTANCE_ASKS_MAX: usize = 4096;

/// Words of this node's instances that nothing is under way in a keyspace, which are waiting: beyond it, they say it again.
pub const DRAINED_ASKS_MAX: usize = 1024;

/// Commands of the operator that are waiting here.
pub const OPERATIONS_MAX: usize = 256;

/// Asks sent and not answered: a few batches of the leader's disk. The others wait their turn.
pub const ASKS_IN_FLIGHT_MAX: usize = 256;

/// Logs that an agent tells of at once, so that the command fits a frame.
pub const HELD_LOGS_TOLD_MAX: usize = 4096;

/// Reports of what logs hold under way: the next ones wait until these are decided.
pub const HELD_ASKS_MAX: usize = 4;

/// Other nodes' asks that a leader has taken up and not answered.
pub const FORWARDED_MAX: usize = WAITING_MAX;

/// Nodes that one message reports.
pub const REPORTS_MAX: usize = 256;

/// Partitions whose load one message tells.
pub const LOADS_TOLD_MAX: usize = 4096;

/// Addresses of contacts in the settings, all told.
pub const CONTACTS_MAX: usize = 1024;
