//! The kinds of frames, and their use.

use crate::numbered;

numbered!(
    /// The kind of a frame. 00xx concerns the connection and the cluster, 01xx are reads, 02xx writes, 03xx messages between instances; the highest
    /// bit marks answers.
    FrameKind: u16 {
        /// First frame of a connection: versions and features of the client.
        Hello = 0x0001, "hello";
        /// Checks whether the peer is alive, and how new its map is.
        Ping = 0x0002, "ping";
        /// Requests a session.
        SessionOpen = 0x0003, "session_open";
        /// Requests the cluster map, complete or since an epoch.
        MapGet = 0x0004, "map_get";
        /// A control request; its body is Protocol Buffers, which this crate does not interpret.
        Admin = 0x0005, "admin";
        /// The client's proof that it knows the cluster's secret.
        Prove = 0x0006, "prove";
        /// Several requests, each for a partition of its own: a coalesced frame.
        Gather = 0x0007, "gather";
        /// Reads a complete record.
        Lookup = 0x0101, "lookup";
        /// Reads a part of a list or of bytes.
        LookupRange = 0x0102, "lookup_range";
        /// Reads version, type, length and expiry of a record.
        Inspect = 0x0103, "inspect";
        /// Reads one bit.
        GetBit = 0x0104, "get_bit";
        /// Counts the one bits.
        CountBits = 0x0105, "count_bits";
        /// Answers when the record has the given state, or at the time-out.
        Wait = 0x0106, "wait";
        /// Reads a page of the keys of a partition.
        Scan = 0x0107, "scan";
        /// Asks whether a record is unchanged since it was read.
        Confirm = 0x0108, "confirm";
        /// Reads the changes of a partition behind a log index, or waits for one.
        ReadChanges = 0x0109, "read_changes";
        /// Reads a complete record before an update of it, or ends the lock of such a read.
        UpdateLock = 0x010A, "update_lock";
        /// Reads a part of a chunk of a blob.
        ReadChunk = 0x0110, "read_chunk";
        /// Reads a page of the names of blobs in a partition, in their order.
        ScanBlobs = 0x0111, "scan_blobs";
        /// Has the members of a partition compare their contents.
        Compare = 0x0112, "compare";
        /// Lists the chunks that exist of one blob in a partition.
        ListChunks = 0x0113, "list_chunks";
        /// Renews the lease of a snapshot.
        RenewSnapshot = 0x0118, "renew_snapshot";
        /// Reads a record as it was at the time of a snapshot.
        ReadAt = 0x0119, "read_at";
        /// Reads a page of the keys, or names of blobs, that existed at the time of a snapshot.
        ScanAt = 0x011A, "scan_at";
        /// Several operations on records of one partition.
        Batch = 0x0200, "batch";
        /// Stores a value.
        Insert = 0x0201, "insert";
        /// Removes a record.
        Remove = 0x0202, "remove";
        /// Adds values to the end of a list.
        Append = 0x0203, "append";
        /// Adds bytes to the end of a bytes record.
        Extend = 0x0204, "extend";
        /// Replaces a value if it is the expected one.
        CompareSwap = 0x0205, "compare_swap";
        /// Adds to a decimal counter.
        Increment = 0x0206, "increment";
        /// Sets or clears one bit.
        SetBit = 0x0207, "set_bit";
        /// Changes when a record expires.
        Expire = 0x0208, "expire";
        /// Keeps a part of a list and drops the rest.
        Trim = 0x0209, "trim";
        /// Changes a number inside a bytes record.
        Transform = 0x020A, "transform";
        /// Removes a record and returns it.
        Take = 0x020B, "take";
        /// Executes a transaction over any partitions.
        Transact = 0x0210, "transact";
        /// Stages data that a transaction will refer to.
        Stage = 0x0211, "stage";
        /// Creates the header of a blob.
        CreateBlob = 0x0220, "create_blob";
        /// Makes a blob at least as large as given.
        GrowBlob = 0x0221, "grow_blob";
        /// Truncates or extends a blob, and increments its generation.
        TruncateBlob = 0x0222, "truncate_blob";
        /// Replaces the attributes of a blob.
        DescribeBlob = 0x0223, "describe_blob";
        /// Writes a part of a chunk.
        WriteChunk = 0x0224, "write_chunk";
        /// Zeroes a chunk from an offset on.
        TruncateChunk = 0x0225, "truncate_chunk";
        /// Changes a number inside a chunk.
        TransformChunk = 0x0226, "transform_chunk";
        /// Records that the truncation of a blob has reached all chunks.
        SettleBlob = 0x0227, "settle_blob";
        /// Removes a chunk of a blob that is being removed.
        DropChunk = 0x0228, "drop_chunk";
        /// Starts a staged extension behind the end of a blob, which no reader sees.
        StageExtension = 0x0229, "stage_extension";
        /// Makes a staged extension a part of the blob.
        PublishBlob = 0x022A, "publish_blob";
        /// Keeps the present state of a partition for a snapshot.
        OpenSnapshot = 0x0238, "open_snapshot";
        /// Releases a snapshot.
        CloseSnapshot = 0x0239, "close_snapshot";
        /// Entries of a partition's log, from its primary to another member.
        Replicate = 0x0300, "replicate";
        /// What a member has stored, or where its log differs.
        ReplicateAck = 0x0301, "replicate_ack";
        /// Requests a lease from another instance.
        LeaseQuery = 0x0304, "lease_query";
        /// Grants the lease.
        LeaseGrant = 0x0305, "lease_grant";
        /// An old primary no longer acts in an older epoch.
        Yield = 0x0306, "yield";
        /// The receiver of a message knows a newer epoch.
        Stale = 0x0307, "stale";
        /// Requests a log entry that is corrupt at the sender.
        EntryGet = 0x0308, "entry_get";
        /// The entry.
        EntryGot = 0x0309, "entry_got";
        /// The entry is absent or corrupt here too.
        EntryLost = 0x030A, "entry_lost";
        /// Requests a digest of a hash range of the partition.
        DigestQuery = 0x030B, "digest_query";
        /// The digest.
        DigestReply = 0x030C, "digest_reply";
        /// The digest differs from the primary's.
        DigestDiffers = 0x030D, "digest_differs";
        /// A unit of Redis commands to execute.
        UnitQuery = 0x030E, "unit_query";
        /// The result of a unit.
        UnitReply = 0x030F, "unit_reply";
        /// A message of the transaction protocol.
        Transaction = 0x0310, "transaction";
        /// A part of a partition's complete state, for a member that the log cannot bring up to date, or that has nothing.
        StatePart = 0x0318, "state_part";
        /// Which parts have arrived.
        StateAck = 0x0319, "state_ack";
        /// Answers `Hello`.
        HelloAck = 0x8001, "hello_ack";
        /// Answers `Ping`.
        Pong = 0x8002, "pong";
        /// Answers `SessionOpen`.
        SessionOpened = 0x8003, "session_opened";
        /// Answers `MapGet`.
        Map = 0x8004, "map";
        /// Answers `Admin`.
        AdminAnswer = 0x8005, "admin_answer";
        /// Answers `Prove`.
        Proved = 0x8006, "proved";
        /// Several answers, to requests of any frames: a coalesced frame.
        Gathered = 0x8007, "gathered";
        /// Answers an operation, or any request that failed.
        Answer = 0x8100, "answer";
        /// Answers `Batch`.
        BatchAnswer = 0x8200, "batch_answer";
        /// Answers `Transact`.
        Transacted = 0x8210, "transacted";
    }
);

impl FrameKind {
    /// Whether frames of this kind answer a request.
    #[must_use]
    pub const fn is_answer(self) -> bool {
        self.number() & 0x8000 != 0
    }

    /// Whether frames of this kind concern one partition, which the header names.
    #[must_use]
    pub const fn is_for_partition(self) -> bool {
        matches!(self.number() >> 8, 0x01 | 0x02)
    }

    /// Whether frames of this kind go from one instance to another: no client sends them, and each is a separate message.
    #[must_use]
    pub const fn is_between_instances(self) -> bool {
        self.number() >> 8 == 0x03
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinct_and_name_their_class() {
        for pair in FrameKind::ALL.windows(2) {
            assert!(pair[0].number() < pair[1].number());
        }
        assert!(FrameKind::BatchAnswer.is_answer() && !FrameKind::Batch.is_answer());
        assert!(FrameKind::Scan.is_for_partition() && !FrameKind::MapGet.is_for_partition());
        assert!(!FrameKind::Gather.is_for_partition(), "frames are not gathered into frames again");
    }
}
