//! Every bound of the control group, with its reason.

/// Most managers in the control group: more would only make every decision wait for more.
pub const MANAGERS_MAX: usize = 5;

/// How far ahead the counters of a forced new cluster jump: more than was ever decided without its knowledge.
pub const NEW_CLUSTER_COUNTER_JUMP: u64 = 1 << 20;

/// Most commands that a snapshot may count as applied: a million a second for a hundred thousand years, and
/// far below the limit of 64 bits. A snapshot with more is damaged, and counting on from it would overflow.
pub const APPLIED_MAX: u64 = 1 << 62;

/// Outcomes remembered for retries, the oldest forgotten first. At hundreds of commands a second in an
/// unstable cluster these are many seconds; a retry from before the oldest is refused, not applied again.
pub const REQUESTS_REMEMBERED_MAX: usize = 4096;

/// Longest encoded command: a node with 255 instances of the longest addresses, and reports of many logs.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;

/// Requests in one entry of the log: all that may wait, and those of a plan.
pub const BATCH_REQUESTS_MAX: usize = 2 * WAITING_MAX;

/// Bytes of the requests in one entry of the log, encoded, with their lengths: the entry is no longer than the longest command.
pub const BATCH_BYTES_MAX: usize = COMMAND_BYTES_MAX;

/// How long a change of a group waits for others, in milliseconds, if the leader has proposed some shortly
/// before. A single change does not wait.
pub const REGROUP_DELAY_MS: u64 = 20;

/// The same if no client waits for the change: the admission of a copy beside enough others.
pub const REGROUP_DELAY_IDLE_MS: u64 = 50;

/// Logs in one report of a restarted node; the node sends several.
pub const REPORTED_LOGS_MAX: usize = 8192;

/// Longest text of a refusal.
pub const REFUSAL_BYTES_MAX: usize = 512;

/// Commands that may wait for their commit: beyond it the leader answers `Busy`.
pub const WAITING_MAX: usize = 1024;

/// Bytes of uncommitted proposals beyond which the leader answers `Busy`.
pub const UNCOMMITTED_BYTES_MAX: u64 = 32 << 20;

/// Bytes of entries in one message to another manager.
pub const MESSAGE_ENTRIES_BYTES_MAX: u64 = 1 << 20;

/// Longest message of one manager to another: a snapshot with the largest map and the data that only the
/// control group has.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Messages with entries to one manager that are not acknowledged.
pub const MESSAGES_IN_FLIGHT_MAX: usize = 64;

/// Number of log entries after which a snapshot replaces them.
pub const LOG_ENTRIES_MAX: usize = 1024;

/// Bytes of entries after which a snapshot replaces them, if they are also as many as the last snapshot has.
pub const LOG_BYTES_MAX: usize = 4 << 20;

/// Entries kept behind a snapshot, so that a manager that is a little late needs no snapshot.
pub const LOG_TRAIL_ENTRIES: usize = 128;

/// A time step of consensus. Ten to twenty steps without a leader's message start an election.
pub const TICK_MS: u64 = 50;

/// Ticks between a leader's heartbeats.
pub const HEARTBEAT_TICKS: usize = 2;

/// Least ticks without a leader's message before an election; the most are twice as many, less one.
pub const ELECTION_TICKS: usize = 10;

/// Ticks between two attempts of the first bootstrap member to be elected: the others start about as soon as
/// it does.
pub const BOOTSTRAP_ELECTION_TICKS: u64 = 2;

/// Ticks that are made up at once after a pause: enough for an election, not for several.
pub const TICKS_AT_ONCE_MAX: u64 = 2 * ELECTION_TICKS as u64;

/// Ticks after which a snapshot that was sent and not acknowledged is considered lost.
pub const SNAPSHOT_TIME_OUT_TICKS: u64 = 60;

/// Ticks after which a leader whose disk has not completed a pending write transfers leadership.
pub const STUCK_TICKS: u64 = 30;

/// How far behind, in entries, a learner may be to become a voter.
pub const LEARNER_BEHIND_MAX: u64 = 64;

/// Longest datagram of gossip: what fits a packet of Ethernet.
pub const GOSSIP_DATAGRAM_BYTES_MAX: usize = 1400;

/// How long a member of the control group may be without a leader before it reports that, in milliseconds: a
/// few elections, each of up to a second.
pub const LEADERLESS_MEMBER_MS: u64 = 3_000;

/// How long a node outside the control group may be without a leader before it reports that, in milliseconds. Such a node
/// hears from the leader every second and a half at least.
pub const LEADERLESS_NODE_MS: u64 = 5_000;

/// How long a node that is up in the map may be silent before that is reported, in milliseconds: with a
/// leader it is down in the map by then.
pub const SILENT_REPORT_MS: u64 = 2_000;

/// Milliseconds after which a waiting start first reports what it waits for.
pub const WAITS_FIRST_MS: u64 = 1_000;

/// Milliseconds between two of these reports.
pub const SILENT_REPORT_PAUSE_MS: u64 = 10_000;

/// Nodes of the map that get the announcement of a node at once: they pass it on.
pub const GOSSIP_ANNOUNCES: usize = 4;

/// Pinned partitions, which operators have moved manually: every plan looks each of them up.
pub const PLACEMENT_OVERRIDES_MAX: usize = 1024;

/// Partitions whose load the leader remembers: those of a few large keyspaces. Others count as one.
pub const LOADS_MAX: usize = 1 << 20;

/// Longest message between agents, which any transport carries in one piece. Longer content is sent in
/// pieces.
pub const AGENT_FRAME_BYTES_MAX: usize = 300 << 10;

/// Bytes of a map, or of a message between managers, in one message between agents.
pub const PIECE_BYTES: usize = 256 << 10;

/// Pieces of a map: the largest, and as much again for duplicates in a delta.
pub const MAP_PIECES_MAX: usize = 2 * zerohop_placement::limits::MAP_BYTES_MAX / PIECE_BYTES;

/// Pieces of a message of one manager to another.
pub const MESSAGE_PIECES_MAX: usize = MESSAGE_BYTES_MAX / PIECE_BYTES + 1;

/// Managers whose messages are reassembled at a time: all, and their replacements.
pub const MESSAGES_PIECED_MAX: usize = 2 * MANAGERS_MAX;

/// Encoded maps and deltas cached for nodes that fetch them in pieces.
pub const ENCODED_MAPS_MAX: usize = 4;

/// Pending requests of this node's instances: beyond it, the instances repeat them.
pub const INSTANCE_PROPOSALS_MAX: usize = 4096;

/// Pending reports of this node's instances that a keyspace is drained: beyond it, the instances repeat them.
pub const DRAINED_REPORTS_MAX: usize = 1024;

/// Pending commands of the operator.
pub const OPERATIONS_MAX: usize = 256;

/// Proposals sent and not answered: a few batches of the leader's disk. The others wait in a queue.
pub const PROPOSALS_IN_FLIGHT_MAX: usize = 256;

/// Logs in one report of an agent, so that the command fits a frame.
pub const AGENT_REPORTED_LOGS_MAX: usize = 4096;

/// Pending reports of logs: the next ones wait until these are decided.
pub const LOG_REPORTS_PENDING_MAX: usize = 4;

/// Other nodes' proposals that a leader has accepted and not answered.
pub const FORWARDED_MAX: usize = WAITING_MAX;

/// Nodes that one message reports.
pub const REPORTS_MAX: usize = 256;

/// Partitions whose load one message reports.
pub const LOADS_REPORTED_MAX: usize = 4096;

/// Addresses of contacts in the settings, in total.
pub const CONTACTS_MAX: usize = 1024;
