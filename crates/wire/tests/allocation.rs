//! How much memory the codec takes: none for the common operations, and never more than a bound for the worst bytes.
#![allow(missing_docs, unsafe_code, reason = "a test that counts allocations")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::BODY_BYTES_MAX;
use zerohop_wire::messages::*;
use zerohop_wire::messages::{Append, CompareSwap, Extend, Increment, Insert, Remove};
use zerohop_wire::{
    DecodeResult, Decoder, Elements, Encoder, Envelope, Features, Flags, FrameHeader, FrameKind, Message,
    checksum,
};

const DECODER: Decoder = Decoder::with_version(1, Features(Features::LZ4.0 | Features::COALESCED.0));

/// Counts, per thread, what is allocated.
struct CountingAllocator;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Bytes that this thread allocates while it does `work`.
fn allocated(work: impl FnOnce()) -> usize {
    let before = BYTES.with(Cell::get);
    work();
    BYTES.with(Cell::get) - before
}

#[test]
fn common_operations_allocate_nothing() {
    let key = [b'k'; 15];
    let value = [b'v'; 132];
    let values: [&[u8]; 2] = [&value, &value];
    let write = |change| RecordWrite { key: &key, condition: Condition::Always, change };
    let changes = [
        WriteChange::Insert(Insert { value: &value, expiry: Expiry::Never }),
        WriteChange::Remove(Remove),
        WriteChange::Append(Append { values: Elements::from_slice(&values) }),
        WriteChange::Extend(Extend { bytes: &value }),
        WriteChange::CompareSwap(CompareSwap { expected: Some(&value), new: None }),
        WriteChange::Increment(Increment { delta: 1 }),
    ];
    let operations = changes.map(|change| RecordOperation::Write(write(change)));
    let version = Timestamp(1);
    let answers: [OperationAnswer<'_>; 2] = [
        Ok(Outcome::Done { version, number: 0 }),
        Ok(Outcome::Value { version, length: 132, bytes: &value }),
    ];
    let mut messages =
        Vec::from(changes.map(|change| Message::Write { stamp: Stamp::default(), write: write(change) }));
    messages.extend([
        Message::Read { seen: version, read: RecordRead { key: &key, query: Query::Lookup } },
        Message::Batch(OperationBatch {
            stamp: Stamp::default(),
            operations: Elements::from_slice(&operations),
        }),
        Message::Answer(answers[1].clone()),
        Message::Answer(Err(zerohop_wire::Failure::CompareFailed {
            version,
            seen: Some((&value[..]).into()),
        })),
        Message::BatchAnswer(Elements::from_slice(&answers)),
    ]);
    let mut out = Vec::with_capacity(1 << 16);
    for message in &messages {
        let kind = message.kind();
        let bytes = allocated(|| {
            out.clear();
            Encoder::default().encode(&Envelope::default(), message, &mut out).unwrap();
            let DecodeResult::Frame { frame, .. } = DECODER.decode(&out) else { panic!("{kind}") };
            match frame.message(&mut Vec::new()).unwrap() {
                Message::Batch(batch) => assert_eq!(batch.numbered().count(), operations.len()),
                Message::BatchAnswer(answers) => assert_eq!(answers.iter().count(), 2),
                _ => {}
            }
        });
        assert_eq!(bytes, 0, "{kind}");
    }
}

#[test]
fn hostile_counts_and_lengths_allocate_nothing() {
    // Every four bytes of a small body in turn claim the most they can.
    for kind in FrameKind::ALL {
        for place in 0..60 {
            let mut body = [0u8; 256];
            body[place * 4..place * 4 + 4].fill(0xff);
            let frame = sealed(*kind, Flags::BODY_CHECKSUM, &body);
            let bytes = allocated(|| {
                if let DecodeResult::Frame { frame, .. } = DECODER.decode(&frame) {
                    let _ = frame.message(&mut Vec::new());
                }
            });
            assert_eq!(bytes, 0, "{kind}, {place}");
        }
    }
}

#[test]
fn compressed_body_allocates_at_most_its_possible_length() {
    for claim in [0, 1 << 10, 255 * 96, 255 * 96 + 1, 1 << 24, u32::MAX] {
        let mut body = [0x1fu8; 100];
        body[..4].copy_from_slice(&u32::to_le_bytes(claim));
        let frame = sealed(FrameKind::Insert, Flags::BODY_CHECKSUM.with(Flags::LZ4), &body);
        let bytes = allocated(|| {
            let DecodeResult::Frame { frame, .. } = DECODER.decode(&frame) else { panic!() };
            assert!(frame.message(&mut Vec::new()).is_err());
        });
        assert!(bytes <= 255 * 96, "{claim}: {bytes}");
    }
}

#[test]
fn oversized_batch_is_refused_before_it_is_fully_copied() {
    let value = vec![0; 1 << 20];
    let change = WriteChange::Insert(Insert { value: &value, expiry: Expiry::Never });
    let write = RecordWrite { key: b"key", condition: Condition::Always, change };
    let operations = [RecordOperation::Write(write); 4096];
    let batch = Message::Batch(OperationBatch {
        stamp: Stamp::default(),
        operations: Elements::from_slice(&operations),
    });
    let mut out = Vec::new();
    let bytes = allocated(|| {
        assert!(Encoder::default().encode(&Envelope::default(), &batch, &mut out).is_err());
    });
    assert!(out.is_empty() && bytes < 8 * BODY_BYTES_MAX, "{bytes}");
}

fn sealed(kind: FrameKind, flags: Flags, body: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        version: 1,
        kind: kind.number(),
        flags,
        envelope: Envelope::default(),
        body_len: body.len() as u32,
        body_crc: checksum::crc32c(body),
    };
    [&header.encode()[..], body].concat()
}
