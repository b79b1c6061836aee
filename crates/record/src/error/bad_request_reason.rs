//! Details of invalid requests.

use crate::numbered;

numbered!(
    /// The detail of [`Failure::BadRequest`](super::Failure::BadRequest). Each is a bug in the sender's program.
    BadRequestReason: u32 {
        /// The body is shorter than the fixed fields of its kind.
        FieldsCut = 1, "the body ends before its fixed fields do";
        /// Lengths within the fields do not add up to the body.
        Lengths = 2, "the lengths in the fields do not add up to the length of the body";
        /// A byte that must be zero in this version is not zero.
        Reserved = 3, "a byte that must be zero in this version is not";
        /// A flag of the header that this version does not know.
        Flags = 4, "the header has a flag that this version does not know";
        /// A condition that this version does not know, or one with a wrong operand.
        Condition = 5, "the condition is none of always, if absent, if present, if at a version";
        /// An expiry that this version does not know, or one after the last timestamp.
        Expiry = 6, "the expiry is none of never, after, at, keep, or lies beyond the last timestamp";
        /// A wait for a state that this version does not know.
        Until = 7, "what is waited for is none of equals, differs, absent, present, changed";
        /// A session without a sequence number, or a sequence number without a session.
        HalfSession = 8, "a session id and a sequence number must both be given, or neither";
        /// The sequence is below the lowest unanswered one, or too far above it.
        Window = 9, "the sequence number is outside the session's window: await earlier answers first";
        /// The time-out exceeds the maximum.
        TimeOut = 10, "the time-out is longer than a day: wait for less and ask again";
        /// The bit is beyond the maximum length of a value.
        BitOffset = 11, "the bit lies beyond the longest value";
        /// A bit that is not 0 or 1, or an unknown presence mark.
        Detail = 12, "the detail byte has a value that this operation does not know";
        /// A compressed body on a connection that did not agree to it.
        NotAgreed = 13, "the body is compressed, but the connection has not agreed on LZ4";
        /// A compressed body with an impossible block or length.
        Compressed = 14, "the compressed body does not expand to the length it states";
        /// An item of a batch that is not an operation on a record.
        ItemKind = 15, "an item of the batch is not an operation on a record";
        /// A number in the frame that this version does not know.
        Outcome = 16, "the answer is of a shape that this version does not know";
        /// Text that is not UTF-8.
        NotText = 17, "a name is not UTF-8";
        /// A frame before `Hello`.
        HelloExpected = 18, "the first frame of a connection must be Hello";
        /// A kind that this side does not accept, such as an answer that is sent to a server.
        Unexpected = 19, "this end of the connection does not take frames of this kind";
        /// The keyspace has no partition of this number.
        NoSuchPartition = 20, "the keyspace has no partition of this number";
        /// A page with a maximum of zero items.
        EmptyPage = 21, "a page must be allowed at least one key";
        /// The body of a control request is not a valid message.
        NotAdmin = 22, "the control request is not a message that can be read";
        /// An operator or a type of number that this version does not know, or two that do not fit together.
        Transform = 23, "the transform has an unknown operator or type, an operand beyond its type, or combines bits of a float";
        /// The number would end beyond the maximum length of a value.
        NumberOffset = 24, "the number lies beyond the longest value";
        /// A frame before `Prove`.
        ProofExpected = 25, "the frame behind the answer to Hello must be Prove";
        /// A cursor that the partition's index did not make, or made for another order of the keys.
        Cursor = 26, "the cursor is no position in this partition: begin the scan again";
        /// A scan with bounds or a direction, of a keyspace whose keys have no order.
        NotOrdered = 27, "the keyspace is not ordered: only a prefix and a number of keys limit its scans (`zerohop keyspace create --ordered` makes one that is)";
        /// A scan whose lower bound is above its upper bound.
        Bounds = 28, "the lower bound of the range is above its upper bound: exchange them";
        /// A write of a session whose request has the partition epoch 0.
        NoEpoch = 29, "a write of a session names the epoch of its partition: its number counts in that partition only";
        /// A reader of changes, of a keyspace without a history.
        NoHistory = 30, "the keyspace keeps no history of its changes: set one (`zerohop keyspace alter NAME --history 1h`)";
        /// A write or read of a chunk outside its limits, or an invalid chunk size.
        Chunk = 40, "the name of the blob is empty, its chunks have no such size, or the range is not within one chunk";
        /// The key belongs to a blob's header or chunk, and the operation is for other records.
        ReservedKey = 41, "the key is reserved for the header or a chunk of a blob: use the operations of blobs, or another key";
        /// A read of a snapshot with an operation that snapshots do not support.
        SnapshotQuery = 50, "at the time of a snapshot a record can be looked up, read in part and inspected, and nothing else";
        /// A lease of zero length, or one that exceeds the maximum.
        SnapshotLease = 51, "a snapshot's lease is 1 ms to 5 minutes, and it stays open for at most a week";
        /// The partition has the maximum number of snapshots.
        Snapshots = 52, "the partition has as many open snapshots as it keeps (64): close some, or wait until their leases are over";
        /// The token has the maximum number of a partition's snapshots.
        TokenSnapshots = 60, "the token, or all tokens together, have the highest number of open snapshots of this partition (16, 48). \
                              Close some, or wait until their leases are over";
        /// The token has the maximum number of sessions.
        TokenSessions = 61, "the token has written in as many sessions as it may within ten minutes (16,384): use one session for many writes";
        /// Requests that wait use the maximum amount of memory.
        TooMuchWaits = 62, "too much waits already, of this token or of all clients of the instance: wait for fewer records, or watch fewer partitions, at a time";
        /// A client opens a snapshot with an id of those for long replies of Redis clients.
        SnapshotId = 63, "ids of snapshots that begin with 0x616e7377 are chosen by servers: choose another";
    }
);
