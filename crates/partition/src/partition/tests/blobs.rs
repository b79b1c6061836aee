//! Headers and chunks of blobs, compared with a plain model, committed at once or waiting, through crashes.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_engine::Durability;
use zerohop_wire::blob::{BlobHeader, BlobStamp, bytes_max, chunk_key, header_key};
use zerohop_wire::messages::{
    BlobChange, CompareSwap, Condition, Expire, Expiry, Extend, Number, Operator, Outcome, Query, ReadChunk,
    RecordType, Remove, ReturnedNumber, Stamp, Transform, WriteChange,
};
use zerohop_wire::{BadRequestReason, Failure};

use crate::limits::{CHUNK_PARTS_MAX, SEPARATE_BYTES_MIN, SHARED_BUFFER_KEPT_BYTES};
use crate::testing::{OwnedAnswer, PartitionBench, PartitionRig, insert, token};

const NAME: &[u8] = b"film";

fn blob(change: BlobChange<'_>) -> WriteChange<'_> {
    WriteChange::Blob(change)
}

fn create(bench: &mut PartitionBench, name: &[u8]) -> BlobStamp {
    let key = header_key(name).expect("a name");
    let made = bench.write(&key, blob(BlobChange::Create { chunk_bits: 12, attributes: b"blue" }));
    BlobStamp { id: made.number().expect("is done"), generation: 0 }
}

fn remove(bench: &mut PartitionBench, key: &[u8]) {
    let version = bench.read(key, Query::Inspect).version();
    let removed = bench.write_if(key, Condition::IfVersion(version), WriteChange::Remove(Remove));
    assert_eq!(removed.number(), Ok(1));
}

fn header_of(bench: &mut PartitionBench, name: &[u8]) -> Option<(BlobStamp, u64, u64, Vec<u8>)> {
    let bytes = bench.bytes(&header_key(name).expect("a name"))?;
    let header = BlobHeader::decode(&bytes).expect("is a header");
    Some((header.stamp, header.size, header.pending_truncation_end, header.attributes.to_vec()))
}

fn write(stamp: BlobStamp, offset: u32, bytes: &[u8], makes: bool) -> WriteChange<'_> {
    blob(BlobChange::WriteChunk { stamp, offset, length: bytes.len() as u32, bytes, makes })
}

/// The blob stamp and the bytes of a chunk.
fn chunk_of(answered: &OwnedAnswer) -> Result<(BlobStamp, Vec<u8>), Failure<'static>> {
    answered.with(|answer| match answer {
        Ok(Outcome::Chunk { stamp, bytes, .. }) => Ok((stamp, bytes.to_vec())),
        Ok(Outcome::ChunkMultiBuffer { stamp, pieces, .. }) => Ok((stamp, pieces.concat())),
        Ok(other) => panic!("no chunk: {other:?}"),
        Err(failure) => Err(failure.into_owned()),
    })
}

#[test]
fn blob_header_changes_require_current_generation() {
    let mut bench = PartitionBench::new();
    let key = header_key(NAME).expect("a name");
    let stamp = create(&mut bench, NAME);
    let again = bench.write(&key, blob(BlobChange::Create { chunk_bits: 12, attributes: b"" }));
    assert!(matches!(again.number(), Err(Failure::ConditionFailed { found: Some(RecordType::Bytes), .. })));
    assert_eq!(bench.write(&key, blob(BlobChange::Grow { stamp, size: 700 })).number(), Ok(700));
    assert_eq!(bench.write(&key, blob(BlobChange::Grow { stamp, size: 100 })).number(), Ok(700));
    assert_eq!(
        bench.write(&key, blob(BlobChange::Truncate { stamp, size: 900 })).number(),
        Ok(0),
        "no bytes go"
    );
    assert_eq!(bench.write(&key, blob(BlobChange::Truncate { stamp, size: 300 })).number(), Ok(1));
    let known = BlobStamp { generation: 1, ..stamp };
    let stale = Err(Failure::StaleBlob { known });
    assert_eq!(bench.write(&key, blob(BlobChange::Grow { stamp, size: 1_000 })).number(), stale);
    // Not while the truncation is pending either.
    assert_eq!(bench.write(&key, blob(BlobChange::Grow { stamp: known, size: 1_000 })).number(), stale);
    assert_eq!(header_of(&mut bench, NAME), Some((known, 300, 900, b"blue".to_vec())));
    assert_eq!(bench.write(&key, blob(BlobChange::Settle { stamp: known })).number(), Ok(0));
    assert_eq!(bench.write(&key, blob(BlobChange::Grow { stamp: known, size: 1_000 })).number(), Ok(1_000));
    // A client that knows an older generation may set attributes. A client that means another blob may not.
    assert_eq!(bench.write(&key, blob(BlobChange::Describe { stamp, attributes: b"red" })).number(), Ok(0));
    let other = BlobStamp { id: stamp.id + 1, ..stamp };
    assert_eq!(
        bench.write(&key, blob(BlobChange::Describe { stamp: other, attributes: b"" })).number(),
        stale
    );
    assert_eq!(header_of(&mut bench, NAME), Some((known, 1_000, 0, b"red".to_vec())));
    remove(&mut bench, &key);
    assert_eq!(bench.write(&key, blob(BlobChange::Grow { stamp, size: 1 })).number(), Err(Failure::NotFound));
    assert!(create(&mut bench, NAME).id > stamp.id, "a later one is known as such");
}

#[test]
fn chunk_refuses_writes_of_older_generation() {
    let mut bench = PartitionBench::new();
    let key = chunk_key(NAME, 3).expect("a name");
    let stamp = BlobStamp { id: 50, generation: 2 };
    assert_eq!(bench.write(&key, write(stamp, 10, b"abc", false)).number(), Err(Failure::NeedHeader));
    assert_eq!(bench.write(&key, write(stamp, 10, b"abc", true)).number(), Ok(0));
    assert_eq!(bench.write(&key, write(stamp, 12, b"XY", false)).number(), Ok(0));
    let read = Query::ReadChunk(ReadChunk { offset: 9, length: 100 });
    assert_eq!(chunk_of(&bench.read(&key, read)), Ok((stamp, b"\0abXY".to_vec())));
    // A single write outside a transaction has no blob of its own.
    let own = BlobStamp { id: BlobStamp::OWN, generation: 0 };
    assert_eq!(bench.write(&key, write(own, 0, b"no", true)).number(), Err(BadRequestReason::Chunk.into()));
    let older = BlobStamp { generation: 1, ..stamp };
    let stale = Err(Failure::StaleBlob { known: stamp });
    assert_eq!(bench.write(&key, write(older, 0, b"no", true)).number(), stale);
    // A later generation writes without a truncation: the chunk still knows only the older truncation.
    let later = BlobStamp { generation: 5, ..stamp };
    assert_eq!(bench.write(&key, write(later, 0, b"later", false)).number(), Ok(0));
    assert_eq!(chunk_of(&bench.read(&key, read)).map(|(stamp, _)| stamp), Ok(stamp));
    let cut = |stamp, keep| blob(BlobChange::TruncateChunk { stamp, keep, creates_absent: false });
    assert_eq!(bench.write(&key, cut(later, 11)).number(), Ok(1));
    let whole = Query::ReadChunk(ReadChunk { offset: 0, length: 4096 });
    assert_eq!(chunk_of(&bench.read(&key, whole)), Ok((later, b"later\0\0\0\0\0a\0\0\0".to_vec())));
    // The same truncation again, after a write that knew it, removes nothing.
    assert_eq!(bench.write(&key, write(later, 20, b"!", false)).number(), Ok(0));
    assert_eq!(bench.write(&key, cut(later, 0)).number(), Ok(1));
    assert_eq!(chunk_of(&bench.read(&key, whole)).map(|(_, bytes)| bytes.len()), Ok(21));
    let last = BlobStamp { generation: 6, ..stamp };
    assert_eq!(bench.write(&key, cut(last, 0)).number(), Ok(1));
    assert_eq!(chunk_of(&bench.read(&key, whole)), Ok((last, Vec::new())));
    assert_eq!(bench.write(&key, write(last, 0, b"x", false)).number(), Err(Failure::NeedHeader));
    // Another blob of the same name has none of these bytes.
    let other = BlobStamp { id: 51, generation: 0 };
    assert_eq!(bench.write(&key, write(other, 1, b"new", false)).number(), Err(Failure::NeedHeader));
    assert_eq!(bench.write(&key, write(other, 1, b"new", true)).number(), Ok(0));
    assert_eq!(chunk_of(&bench.read(&key, whole)), Ok((other, b"\0new".to_vec())));
    assert_eq!(bench.write(&key, cut(last, 0)).number(), Err(Failure::StaleBlob { known: other }));
    assert_eq!(bench.write(&chunk_key(NAME, 9).expect("a name"), cut(last, 0)).number(), Ok(0));
}

#[test]
fn chunk_operations_refuse_wrong_keys_and_types() {
    let mut bench = PartitionBench::new();
    let (header, chunk) = (header_key(NAME).expect("a name"), chunk_key(NAME, 0).expect("a name"));
    let stamp = create(&mut bench, NAME);
    let wrong_key = Err(Failure::BadRequest { reason: BadRequestReason::Chunk });
    assert_eq!(bench.write(&header, write(stamp, 0, b"x", true)).number(), wrong_key);
    assert_eq!(bench.write(b"plain", write(stamp, 0, b"x", true)).number(), wrong_key);
    assert_eq!(bench.write(&chunk, blob(BlobChange::Grow { stamp, size: 1 })).number(), wrong_key);
    bench.write(&chunk, write(stamp, 0, b"x", true)).number().expect("is done");
    let is_chunk = Err(Failure::WrongType { found: RecordType::Chunk });
    assert_eq!(bench.read(&chunk, Query::Lookup).number(), is_chunk);
    bench.write(b"plain", insert(b"v")).number().expect("is done");
    let whole = Query::ReadChunk(ReadChunk { offset: 0, length: 1 });
    let is_bytes = Err(Failure::WrongType { found: RecordType::Bytes });
    assert_eq!(bench.read(b"plain", whole).number(), is_bytes);
    assert_eq!(bench.scan(b"", b"", 100).0, [b"plain".to_vec()], "blobs are not among the keys");
}

#[test]
fn blob_keys_accept_only_blob_operations() {
    let mut bench = PartitionBench::new();
    let (header, chunk) = (header_key(NAME).expect("a name"), chunk_key(NAME, 0).expect("a name"));
    let stamp = create(&mut bench, NAME);
    bench.write(&chunk, write(stamp, 0, b"x", true)).number().expect("is done");
    let before = (header_of(&mut bench, NAME), bench.bytes(&header));
    let reserved = Err(Failure::BadRequest { reason: BadRequestReason::ReservedKey });
    for key in [&header, &chunk] {
        for change in [
            insert(b"v"),
            WriteChange::Remove(Remove),
            WriteChange::Extend(Extend { bytes: b"y" }),
            WriteChange::CompareSwap(CompareSwap { expected: None, new: Some(b"z") }),
            WriteChange::Expire(Expire { expiry: Expiry::AfterMs(1) }),
        ] {
            assert_eq!(bench.write(key, change).number(), reserved, "{change:?}");
        }
        let absent = bench.write_if(key, Condition::IfAbsent, insert(b"v"));
        assert_eq!(absent.number(), reserved, "before the condition is looked at");
    }
    assert_eq!((header_of(&mut bench, NAME), bench.bytes(&header)), before);
    remove(&mut bench, &header);
    // A key that only starts like this does not belong to a blob.
    assert_eq!(bench.write(b"\xFFzhb12345678\x01", insert(b"v")).number(), Ok(0));
}

#[test]
fn staged_extension_is_published_unless_truncated_by_another() {
    let mut bench = PartitionBench::new();
    let key = header_key(NAME).expect("a name");
    let stamp = create(&mut bench, NAME);
    assert_eq!(bench.write(&key, blob(BlobChange::StageExtension { stamp, until: 9_000 })).number(), Ok(1));
    let filled = BlobStamp { generation: 1, ..stamp };
    let stale = Err(Failure::StaleBlob { known: filled });
    // A client that knew the blob before must read the header again, which shows the staged extension.
    assert_eq!(bench.write(&key, blob(BlobChange::Grow { stamp, size: 5 })).number(), stale);
    assert_eq!(bench.write(&key, blob(BlobChange::Grow { stamp: filled, size: 5 })).number(), stale);
    assert_eq!(bench.write(&key, blob(BlobChange::Settle { stamp: filled })).number(), stale);
    assert_eq!(
        bench.write(&key, blob(BlobChange::StageExtension { stamp: filled, until: 20_000 })).number(),
        Ok(1)
    );
    assert_eq!(header_of(&mut bench, NAME), Some((filled, 0, 20_000, b"blue".to_vec())));
    let published = bench.write(&key, blob(BlobChange::Publish { stamp: filled, size: 12_345 }));
    assert_eq!(published.number(), Ok(12_345));
    assert_eq!(header_of(&mut bench, NAME), Some((filled, 12_345, 0, b"blue".to_vec())));
    assert_eq!(bench.write(&key, blob(BlobChange::Publish { stamp: filled, size: 99_999 })).number(), stale);

    let fill = BlobChange::StageExtension { stamp: filled, until: 30_000 };
    assert_eq!(bench.write(&key, blob(fill)).number(), Ok(2));
    let again = BlobStamp { generation: 2, ..stamp };
    assert_eq!(bench.write(&key, blob(BlobChange::Truncate { stamp: again, size: 12_345 })).number(), Ok(3));
    let cut = BlobStamp { generation: 3, ..stamp };
    let late = bench.write(&key, blob(BlobChange::Publish { stamp: again, size: 30_000 }));
    assert_eq!(late.number(), Err(Failure::StaleBlob { known: cut }));
    assert_eq!(header_of(&mut bench, NAME), Some((cut, 12_345, 30_000, b"blue".to_vec())));
    // A chunk that did not exist is marked, so a late write does not create it.
    let chunk = chunk_key(NAME, 5).expect("a name");
    let mark = BlobChange::TruncateChunk { stamp: cut, keep: 0, creates_absent: true };
    assert_eq!(bench.write(&chunk, blob(mark)).number(), Ok(1));
    let late = bench.write(&chunk, write(filled, 0, b"late", true));
    assert_eq!(late.number(), Err(Failure::StaleBlob { known: cut }));
    assert_eq!(bench.write(&key, blob(BlobChange::Settle { stamp: cut })).number(), Ok(0));
    assert_eq!(bench.write(&chunk, write(cut, 0, b"new", true)).number(), Ok(0));
}

/// The chunk becomes one entry again. If a part hid all others, compaction would search the hidden bytes one by one.
#[test]
fn full_chunk_overwrite_makes_old_entries_dead() {
    let mut bench = PartitionBench::new();
    let key = chunk_key(NAME, 0).expect("a name");
    let stamp = BlobStamp { id: 5, generation: 0 };
    bench.write(&key, write(stamp, 0, &[1; 4096], true)).number().expect("is done");
    bench.write(&key, write(stamp, 100, &[2; 4000], false)).number().expect("is done");
    let handle = bench.at_once.partition.handle();
    for (bytes, parts) in [(&[3; 4099][..], 3), (&[4; 4100], 1), (&[5; 5000], 1), (&[6; 4999], 2)] {
        bench.write(&key, write(stamp, 0, bytes, false)).number().expect("is done");
        let state = bench.at_once.engine.chunk_state(handle, &key).expect("reads").expect("is there");
        assert_eq!(u64::from(state.parts), parts, "{state:?}");
    }
    let dead = bench.at_once.engine.partition_stats(handle).expect("is open").log.dead_bytes;
    assert!(dead > 4096 + 4000 + 4099 + 4100, "{dead}");
    let whole = Query::ReadChunk(ReadChunk { offset: 0, length: 6000 });
    assert_eq!(chunk_of(&bench.read(&key, whole)), Ok((stamp, [&[6; 4999][..], &[5]].concat())));
}

/// The bytes go from the request into the log without a copy, for both ways of commit and for an atomic batch.
#[test]
fn long_chunk_writes_read_back_unchanged_also_after_crash() {
    let lengths = [1, SEPARATE_BYTES_MIN - 1, SEPARATE_BYTES_MIN, 65_600, 300_000];
    let bytes_of = |length: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 / 5) as u8).collect() };
    let stamp = BlobStamp { id: 5, generation: 0 };
    let key = chunk_key(NAME, 0).expect("a name");
    let mut bench = PartitionBench::new();
    let mut wanted = Vec::new();
    for (turn, length) in lengths.into_iter().chain(lengths).enumerate() {
        let (offset, bytes) = (if turn < lengths.len() { 0 } else { 100 * turn }, bytes_of(length));
        bench.write(&key, write(stamp, offset as u32, &bytes, true)).number().expect("is done");
        wanted.resize(wanted.len().max(offset + length), 0);
        wanted[offset..offset + length].copy_from_slice(&bytes);
        let whole = Query::ReadChunk(ReadChunk { offset: 0, length: 1 << 20 });
        assert_eq!(chunk_of(&bench.read(&key, whole)), Ok((stamp, wanted.clone())));
    }
    let mut rig = PartitionRig::new(Durability::Sync);
    let session = Stamp::default();
    let mut wanted = Vec::new();
    for (number, length) in (1..).zip(lengths) {
        let bytes = bytes_of(length);
        rig.write(token(number), session, &key, write(stamp, 3, &bytes, true));
        wanted = [vec![0; 3], bytes].concat();
    }
    for round in 0..2 {
        rig.flush();
        let query = Query::ReadChunk(ReadChunk { offset: 0, length: 1 << 20 });
        let read = zerohop_wire::messages::RecordRead { key: &key, query };
        let seen = zerohop_wire::ids::Timestamp::ZERO;
        rig.send(token(100 + round), 0, &zerohop_wire::Message::Read { seen, read });
        let answered = rig.answer(token(100 + round)).expect("is answered");
        assert_eq!(chunk_of(&answered), Ok((stamp, wanted.clone())));
        if round == 0 {
            rig = rig.crash(Durability::Sync);
        }
    }
}

/// An instance has hundreds of partitions, and none of them is notified when another one is read.
#[test]
fn partition_keeps_no_read_buffer() {
    let mut rig = PartitionRig::new(Durability::Interval { ms: 10 });
    let key = chunk_key(NAME, 0).expect("a name");
    let bytes = vec![7; 6 << 20];
    let stamp = BlobStamp { id: 5, generation: 0 };
    rig.write(token(1), Stamp::default(), &key, write(stamp, 0, &bytes, true));
    // Of two entries, which are joined.
    let second = Stamp { sequence: zerohop_wire::ids::Sequence(2), ..Stamp::default() };
    rig.write(token(5), second, &key, write(stamp, 0, &bytes[..10], true));
    for (number, length, kept) in [(2, 1 << 20, 1 << 20), (3, 4 << 20, 4 << 20), (4, 6 << 20, 0)] {
        let query = Query::ReadChunk(ReadChunk { offset: 0, length });
        let read = zerohop_wire::messages::RecordRead { key: &key, query };
        let seen = zerohop_wire::ids::Timestamp::ZERO;
        rig.send(token(number), 0, &zerohop_wire::Message::Read { seen, read });
        let answered = rig.answer(token(number)).expect("is answered");
        assert_eq!(chunk_of(&answered), Ok((stamp, bytes[..length as usize].to_vec())));
        assert_eq!(rig.partition.buffers.contents.capacity(), 0);
        let shared = rig.engine.scratch().capacity();
        assert!(shared >= kept && shared <= SHARED_BUFFER_KEPT_BYTES, "{shared}");
    }
}

/// Ten thousand small writes into one chunk. It is read from one entry and those since it was last written completely. Hidden
/// entries are dead, so compaction frees them.
#[test]
fn chunk_overwritten_many_times_keeps_few_entries_and_bytes() {
    const CHUNK: usize = 1 << 16;
    let mut bench = PartitionBench::new();
    let key = chunk_key(NAME, 0).expect("a name");
    let stamp = BlobStamp { id: 5, generation: 0 };
    let mut wanted = vec![7; CHUNK];
    bench.write(&key, write(stamp, 0, &wanted, true)).number().expect("is done");
    let mut random = Random::new(1);
    for n in 0..10_000_u32 {
        let at = random.below(CHUNK as u64 - 16) as usize;
        let bytes = [n as u8; 16];
        wanted[at..at + 16].copy_from_slice(&bytes);
        bench.write(&key, write(stamp, at as u32, &bytes, false)).number().expect("is done");
    }
    let whole = Query::ReadChunk(ReadChunk { offset: 0, length: CHUNK as u32 });
    assert_eq!(chunk_of(&bench.read(&key, whole)), Ok((stamp, wanted)));
    let handle = bench.at_once.partition.handle();
    let state = bench.at_once.engine.chunk_state(handle, &key).expect("reads").expect("is there");
    assert!(u64::from(state.parts) <= CHUNK_PARTS_MAX, "{state:?}");
    assert!(state.covered <= 2 * CHUNK as u64, "{state:?}");
}

/// A truncation or removal visits all places where a chunk may be, so their number must be bounded.
#[test]
fn blob_beyond_chunk_limit_is_refused() {
    let mut bench = PartitionBench::new();
    let stamp = create(&mut bench, NAME);
    let key = header_key(NAME).expect("a name");
    let most = bytes_max(12);
    for size in [most + 1, 1 << 63, u64::MAX] {
        let fill = BlobChange::StageExtension { stamp, until: size };
        for change in [BlobChange::Grow { stamp, size }, BlobChange::Truncate { stamp, size }, fill] {
            let refused = bench.write(&key, blob(change)).number();
            assert!(
                matches!(refused, Err(Failure::ValueTooLong { length, .. }) if length == size),
                "{refused:?}"
            );
        }
    }
    assert_eq!(bench.write(&key, blob(BlobChange::Grow { stamp, size: most })).number(), Ok(most));
    assert_eq!(bench.write(&key, blob(BlobChange::StageExtension { stamp, until: most })).number(), Ok(1));
    let filled = BlobStamp { generation: 1, ..stamp };
    let refused = bench.write(&key, blob(BlobChange::Publish { stamp: filled, size: most + 1 })).number();
    assert!(matches!(refused, Err(Failure::ValueTooLong { .. })), "{refused:?}");
}

#[test]
fn blob_names_are_listed_in_order_by_page_also_after_crash() {
    let mut bench = PartitionBench::new();
    for n in 0..30 {
        create(&mut bench, format!("a/{:02}", n * 7 % 30).as_bytes());
    }
    create(&mut bench, b"b");
    for n in 0..5 {
        let key = header_key(format!("a/{n:02}").as_bytes()).expect("a name");
        remove(&mut bench, &key);
    }
    let (mut cursor, mut names) = (Vec::new(), Vec::new());
    loop {
        let (page, next) = bench.scan_blobs(&cursor, b"a/", 10);
        assert!(page.len() <= 10);
        names.extend(page);
        match next.is_empty() {
            true => break,
            false => cursor = next,
        }
    }
    let wanted: Vec<Vec<u8>> = (5..30).map(|n| format!("a/{n:02}").into_bytes()).collect();
    assert_eq!(names, wanted);
    // The state contains the names, and decodes to the same state.
    let state = bench.at_once.partition.state().encode();
    assert_eq!(crate::state::PartitionState::decode(&state).as_ref(), Ok(bench.at_once.partition.state()));
    let crate::testing::PartitionBench { flushed, .. } = bench;
    let rig = flushed.crash(Durability::Sync);
    assert_eq!(rig.partition.state().names.len(), 26);
}

#[test]
fn chunk_with_many_small_writes_is_rewritten_occasionally() {
    let mut bench = PartitionBench::new();
    let key = chunk_key(NAME, 0).expect("a name");
    let stamp = BlobStamp { id: 5, generation: 0 };
    let mut wanted = vec![7; 4096];
    bench.write(&key, write(stamp, 0, &wanted, true)).number().expect("is done");
    let before = bench.log_bytes();
    for n in 0..2 * CHUNK_PARTS_MAX as u32 {
        // Every third byte is written, so that no write hides another.
        let (at, byte) = (3 * n % 4096, [n as u8]);
        wanted[at as usize] = byte[0];
        bench.write(&key, write(stamp, at, &byte, false)).number().expect("is done");
    }
    let whole = Query::ReadChunk(ReadChunk { offset: 0, length: 4096 });
    assert_eq!(chunk_of(&bench.read(&key, whole)), Ok((stamp, wanted)));
    let state = {
        let handle = bench.at_once.partition.handle();
        bench.at_once.engine.chunk_state(handle, &key).expect("reads").expect("is there")
    };
    assert!(u64::from(state.parts) <= CHUNK_PARTS_MAX, "{state:?}");
    assert!(bench.log_bytes() - before < 1024 * 100 + 3 * 4200, "a small write costs little");
}

/// Hidden writes are no longer parts, so a long chunk has few parts. It is never copied, whatever is written.
#[test]
fn long_chunk_is_not_rewritten_for_4_kib_writes() {
    const CHUNK: usize = 1 << 20;
    const WRITES: u64 = 2500;
    let mut bench = PartitionBench::new();
    let key = chunk_key(NAME, 0).expect("a name");
    let stamp = BlobStamp { id: 5, generation: 0 };
    let mut wanted = vec![7; CHUNK];
    bench.write(&key, write(stamp, 0, &wanted, true)).number().expect("is done");
    let before = bench.log_bytes();
    let mut random = Random::new(2);
    for n in 0..WRITES {
        let at = random.below((CHUNK - 4096) as u64) as usize;
        let bytes = vec![n as u8; 4096];
        wanted[at..at + 4096].copy_from_slice(&bytes);
        bench.write(&key, write(stamp, at as u32, &bytes, false)).number().expect("is done");
    }
    let whole = Query::ReadChunk(ReadChunk { offset: 0, length: CHUNK as u32 });
    assert_eq!(chunk_of(&bench.read(&key, whole)), Ok((stamp, wanted)));
    let grown = bench.log_bytes() - before;
    assert!(grown < WRITES * (4096 + 200), "{grown} bytes for {WRITES} writes");
}

/// The model of a chunk.
#[derive(Clone, Debug, Default)]
struct ChunkModel {
    stamp: BlobStamp,
    bytes: Vec<u8>,
}

impl ChunkModel {
    fn overlay_write(&mut self, offset: usize, bytes: &[u8]) {
        if self.bytes.len() < offset + bytes.len() {
            self.bytes.resize(offset + bytes.len(), 0);
        }
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

/// Writes, transforms, truncations and reads of a few chunks, some of them uncommitted, compared with the model.
#[test]
fn random_chunk_histories_match_the_model() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut rig = PartitionRig::new(Durability::Sync);
        let mut chunks: BTreeMap<u64, ChunkModel> = BTreeMap::new();
        let (mut request, mut expected) = (0, Vec::new());
        for _ in 0..300 {
            let number = random.below(3);
            let key = chunk_key(NAME, number).expect("a name");
            let known = chunks.get(&number).map(|chunk| chunk.stamp);
            let stamp = known.unwrap_or(BlobStamp { id: 9, generation: 0 });
            let offset = random.below(3000) as u32;
            let most = if random.chance(1, 5) { 1000 } else { 20 };
            let mut bytes = vec![0; 1 + random.below(most) as usize];
            random.fill(&mut bytes);
            request += 1;
            let write_to = token(request);
            match random.below(10) {
                0..=4 => {
                    let zeros = random.chance(1, 5);
                    let data = if zeros { vec![0; bytes.len()] } else { bytes.clone() };
                    let change = BlobChange::WriteChunk {
                        stamp,
                        offset,
                        length: bytes.len() as u32,
                        bytes: if zeros { &[] } else { &bytes },
                        makes: true,
                    };
                    rig.write(write_to, Stamp::default(), &key, blob(change));
                    let chunk = chunks.entry(number).or_insert(ChunkModel { stamp, bytes: Vec::new() });
                    chunk.overlay_write(offset as usize, &data);
                    expected.push((write_to, Ok(None)));
                }
                5 => {
                    let add = Transform {
                        operator: Operator::Add,
                        number: u32::TYPE,
                        operand: random.below(1 << 32),
                        offset: u64::from(offset),
                        returns: ReturnedNumber::New,
                    };
                    let change = BlobChange::TransformChunk { stamp, transform: add, makes: true };
                    rig.write(write_to, Stamp::default(), &key, blob(change));
                    let chunk = chunks.entry(number).or_insert(ChunkModel { stamp, bytes: Vec::new() });
                    let mut old = [0; 4];
                    for (at, byte) in old.iter_mut().enumerate() {
                        *byte = chunk.bytes.get(offset as usize + at).copied().unwrap_or(0);
                    }
                    let new = u32::from_le_bytes(old).wrapping_add(add.operand as u32);
                    if add.operand != 0 {
                        chunk.overlay_write(offset as usize, &new.to_le_bytes());
                    }
                    expected.push((write_to, Ok(None)));
                }
                6 if known.is_some() => {
                    let stamp = BlobStamp { generation: stamp.generation + 1, ..stamp };
                    let keep = if random.chance(1, 3) { 0 } else { offset };
                    let change = BlobChange::TruncateChunk { stamp, keep, creates_absent: false };
                    rig.write(write_to, Stamp::default(), &key, blob(change));
                    let chunk = chunks.get_mut(&number).expect("is known");
                    chunk.stamp = stamp;
                    chunk.bytes.iter_mut().skip(keep as usize).for_each(|byte| *byte = 0);
                    expected.push((write_to, Ok(None)));
                }
                7 if random.chance(1, 10) => {
                    rig.write(write_to, Stamp::default(), &key, blob(BlobChange::DropChunk { stamp }));
                    chunks.remove(&number);
                    expected.push((write_to, Ok(None)));
                }
                _ => {
                    let read = Query::ReadChunk(ReadChunk { offset, length: 500 });
                    let message = zerohop_wire::Message::Read {
                        seen: zerohop_wire::ids::Timestamp::ZERO,
                        read: zerohop_wire::messages::RecordRead { key: &key, query: read },
                    };
                    rig.send(write_to, 0, &message);
                    let wanted = chunks.get(&number).map(|chunk| (chunk.stamp, chunk.bytes.clone()));
                    let wanted = wanted.ok_or(Failure::NotFound);
                    expected.push((write_to, wanted.map(|chunk| Some((chunk, offset as usize)))));
                }
            }
            if random.chance(1, 4) {
                rig.flush();
                for (token, wanted) in expected.drain(..) {
                    let answered = rig.answer(token).expect("is answered once flushed");
                    check(&answered, wanted, seed);
                }
            }
            if random.chance(1, 40) {
                rig.flush();
                expected.clear();
                rig = rig.crash(Durability::Sync);
            }
        }
    }
}

type ExpectedChunk = Result<Option<((BlobStamp, Vec<u8>), usize)>, Failure<'static>>;

fn check(answered: &OwnedAnswer, wanted: ExpectedChunk, seed: u64) {
    match wanted {
        Ok(None) => drop(answered.number().unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))),
        Ok(Some(((stamp, bytes), offset))) => {
            let (got_stamp, got) = chunk_of(answered).expect("is there");
            let all: Vec<u8> = bytes.iter().skip(offset).take(500).copied().collect();
            assert_eq!(got_stamp, stamp, "seed {seed}");
            // The bytes behind the returned ones are zeros.
            let short = got.len().min(all.len());
            assert_eq!(got[..short], all[..short], "seed {seed}");
            assert!(got[short..].iter().chain(&all[short..]).all(|byte| *byte == 0), "seed {seed}");
        }
        Err(failure) => assert_eq!(chunk_of(answered), Err(failure), "seed {seed}"),
    }
}
