//! How long it takes to write and to read a frame: `cargo run --release -p zerohop-wire --example codec_speed`.
//!
//! The figure to compare with: a fixed header and bytes cost about 10 ns to write and 2 ns to read (ARCHITECTURE.md,
//! "Frames"), without checksums; a CRC-32C of 147 bytes costs about 14 ns each way.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]

use std::hint::black_box;
use std::time::Instant;

use zerohop_wire::ids::{KeyspaceId, PartitionId, RequestId, Sequence, SessionId, Timestamp};
use zerohop_wire::messages::{
    Condition, Expiry, Insert, Outcome, Query, RecordRead, RecordWrite, Stamp, WriteChange,
};
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope, Features, Message};

const ROUNDS: u32 = 300;
const FRAMES: u32 = 20_000;

fn main() {
    let key = [b'k'; 15];
    let value = [b'v'; 132];
    let version = Timestamp::from_millis(1_700_000_000_000);
    let insert = WriteChange::Insert(Insert { value: &value, expiry: Expiry::Never });
    let stamp = Stamp {
        session: SessionId { issued: version, nonce: 7 },
        sequence: Sequence(10),
        lowest_unanswered: Sequence(9),
        seen: version,
    };
    let write = RecordWrite { key: &key, condition: Condition::Always, change: insert };
    let messages = [
        ("insert 15+132 B", Message::Write { stamp, write }),
        (
            "lookup 15 B",
            Message::Read { seen: version, read: RecordRead { key: &key, query: Query::Lookup } },
        ),
        ("answer, done", Message::Answer(Ok(Outcome::Done { version, number: 0 }))),
        ("answer, 132 B", Message::Answer(Ok(Outcome::Value { version, length: 132, bytes: &value }))),
    ];
    println!(
        "{:<18} {:>9} {:>8} {:>8}   ns, least of {ROUNDS} rounds",
        "message", "checksum", "encode", "decode"
    );
    for (name, message) in &messages {
        for body_checksum in [true, false] {
            let encoder = Encoder { body_checksum, ..Encoder::default() };
            let (encode, decode) = (encode_ns(encoder, message), decode_ns(encoder, message));
            let checksum = if body_checksum { "both" } else { "header" };
            println!("{name:<18} {checksum:>9} {encode:>8.1} {decode:>8.1}");
        }
    }
}

fn envelope(request: u32) -> Envelope {
    Envelope {
        request: RequestId(request.into()),
        keyspace: KeyspaceId(1),
        partition: PartitionId(5),
        ..Envelope::default()
    }
}

fn encode_ns(encoder: Encoder, message: &Message<'_>) -> f64 {
    let mut out = Vec::with_capacity(1 << 12);
    least_ns(|request| {
        out.clear();
        let message = black_box(message);
        encoder.encode(&envelope(request), message, &mut out).expect("within bounds");
        black_box(&out);
    })
}

fn decode_ns(encoder: Encoder, message: &Message<'_>) -> f64 {
    let mut bytes = Vec::new();
    encoder.encode(&envelope(1), message, &mut bytes).expect("within bounds");
    let decoder = Decoder::with_version(1, Features::default());
    let mut scratch = Vec::new();
    least_ns(|_| match decoder.decode(black_box(&bytes)) {
        DecodeResult::Frame { frame, used } => {
            black_box((frame.message(&mut scratch).expect("what was encoded"), used));
        }
        other => panic!("{other:?}"),
    })
}

/// Nanoseconds that one call takes in the fastest round: others on the machine only ever add.
fn least_ns(mut work: impl FnMut(u32)) -> f64 {
    (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..FRAMES).for_each(&mut work);
            start.elapsed().as_secs_f64() * 1e9 / f64::from(FRAMES)
        })
        .fold(f64::INFINITY, f64::min)
}
