//! When answers are sent, and from which buffer.

use super::*;
use crate::limits::{PIECES_MAX, SEND_BYTES};

#[test]
fn first_answers_are_sent_before_the_last_are_ready() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    let writes = bench.world.borrow().peers[peer].writes;
    let keys: Vec<Vec<u8>> = (0..40).map(|key| vec![key; 2_000]).collect();
    let all: Vec<u8> = keys.iter().zip(0..).flat_map(|(key, id)| lookup(id, key)).collect();
    bench.send(peer, &all);
    let expected: Vec<(u64, ReceivedAnswer)> =
        (0..).zip(keys.into_iter().map(ReceivedAnswer::Value)).collect();
    assert_eq!(bench.answers(peer), expected);
    let writes = bench.world.borrow().peers[peer].writes - writes;
    let least = 40 * 2_000 / (SEND_BYTES + 2_100);
    assert!((least..least + 4).contains(&writes), "{writes} writes");
}

#[test]
fn multi_piece_answer_arrives_complete_at_slow_reader() {
    let key = b"0123456789abcdef";
    for (piece_bytes, repeat) in [(1 << 16, 20_000), (1_000, 20_000), (7, 10_000), (64 << 10, 10)] {
        let answer = ReceivedAnswer::Value(key.repeat(repeat));
        for window in [usize::MAX, 100_000, 4_099] {
            let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
            let peer = bench.connect_with_hello();
            bench.answers(peer);
            bench.reactor.service.repeat = repeat;
            bench.reactor.service.piece_bytes = Some(piece_bytes);
            bench.world.borrow_mut().set_window(peer, window);
            bench.send(peer, &[lookup(7, key), lookup(8, key)].concat());
            let all = bench.answers(peer);
            assert!(all == [(7, answer.clone()), (8, answer.clone())], "{piece_bytes} {window}");
            assert_eq!(bench.reactor.connections.unsent_total, 0);
        }
    }
    const { assert!(16 * 10_000 / 7 > PIECES_MAX, "more than one call takes") };
}
