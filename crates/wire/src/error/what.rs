//! What was wrong with a request that could not be understood.

use crate::numbered::numbered;

numbered!(
    /// The detail of [`Failure::BadRequest`](super::Failure::BadRequest). Each is a fault of the sender's program.
    What: u32 {
        /// The body is shorter than the fixed fields of its kind.
        FieldsCut = 1, "the body ends before its fixed fields do";
        /// Lengths within the fields do not add up to the body.
        Lengths = 2, "the lengths in the fields do not add up to the length of the body";
        /// A byte that must be zero in this version is not.
        Reserved = 3, "a byte that must be zero in this version is not";
        /// A flag of the header that this version does not have.
        Flags = 4, "the header has a flag that this version does not know";
        /// A condition this version does not have, or one with an operand it does not take.
        Condition = 5, "the condition is none of always, if absent, if present, if at a version";
        /// An expiry this version does not have, or later than the end of time.
        Expiry = 6, "the expiry is none of never, after, at, keep, or lies beyond the last timestamp";
        /// A wait for something that this version does not have.
        Until = 7, "what is waited for is none of equals, differs, absent, present, changed";
        /// A session without a sequence number, or a sequence number without a session.
        HalfSession = 8, "a session id and a sequence number must both be given, or neither";
        /// The sequence is below the lowest unanswered one, or too far above it.
        Window = 9, "the sequence number is outside the session's window: await earlier answers first";
        /// The time-out is longer than a request may wait.
        TimeOut = 10, "the time-out is longer than a day: wait for less and ask again";
        /// The bit lies beyond the longest value.
        BitOffset = 11, "the bit lies beyond the longest value";
        /// A bit must be 0 or 1, a presence mark must be one of the known.
        Detail = 12, "the detail byte has a value that this operation does not know";
        /// A compressed body on a connection that did not agree to it.
        NotAgreed = 13, "the body is compressed, but the connection has not agreed on LZ4";
        /// A compressed body whose block or length is impossible.
        Compressed = 14, "the compressed body does not expand to the length it states";
        /// An item of a batch that is not an operation on a record.
        ItemKind = 15, "an item of the batch is not an operation on a record";
        /// A number of the frame is beyond what this version enumerates.
        Outcome = 16, "the answer is of a shape that this version does not know";
        /// Text that is not UTF-8.
        NotText = 17, "a name is not UTF-8";
        /// Something else came before `Hello`.
        HelloExpected = 18, "the first frame of a connection must be Hello";
        /// A kind that this end does not take, such as an answer sent to a server.
        Unexpected = 19, "this end of the connection does not take frames of this kind";
        /// The keyspace has fewer partitions.
        NoSuchPartition = 20, "the keyspace has no partition of this number";
        /// A page of nothing was asked for.
        EmptyPage = 21, "a page must be allowed at least one key";
        /// The body of a control request is no such message.
        NotAdmin = 22, "the control request is not a message that can be read";
        /// An operator or a type of number that this version does not have, or two that do not go together.
        Transform = 23, "the transform has an unknown operator or type, an operand beyond its type, or combines bits of a float";
        /// The number would end beyond the longest value.
        NumberOffset = 24, "the number lies beyond the longest value";
        /// Something else came before `Prove`.
        ProofExpected = 25, "the frame behind the answer to Hello must be Prove";
        /// A write or read of a chunk that no chunk allows, or a size of chunks that there is not.
        Chunk = 40, "the name of the blob is empty, its chunks have no such size, or the range is not within one chunk";
        /// The key is one of a blob's header or chunk, and the operation one of records.
        ReservedKey = 41, "the key is reserved for the header or a chunk of a blob: use the operations of blobs, or another key";
        /// A read of a snapshot that asks for something else than what was there.
        SnapshotQuery = 50, "at the time of a snapshot a record can be looked up, read in part and inspected, and nothing else";
        /// A lease of no time, or a longer one than may be asked for.
        SnapshotLease = 51, "a snapshot's lease is 1 ms to 5 minutes, and it stays open for at most a week";
        /// A partition keeps no more snapshots.
        Snapshots = 52, "the partition has as many open snapshots as it keeps (64): close some, or wait until their leases are over";
        /// A token has its share of a partition's snapshots.
        TokenSnapshots = 60, "the token, or all tokens together, have as many snapshots of this partition open as they may (16, 48): \
                              close some, or wait until their leases are over";
        /// A token has its share of the sessions.
        TokenSessions = 61, "the token has written in as many sessions as it may within ten minutes (16,384): use one session for many writes";
        /// Requests that wait have their share of the memory.
        TooMuchWaits = 62, "too much waits already, of this token or of all clients of the instance: wait for fewer records at a time";
    }
);
