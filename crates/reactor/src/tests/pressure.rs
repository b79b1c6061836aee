//! Limits on the memory for one connection and for all, and on the number of connections.

use zerohop_wire::Failure;

use super::*;

const LIMITS: Limits = Limits { unsent_bytes_max: 10_000, in_flight_max: 10, ..Limits::DEFAULT };

fn lookups(count: u64) -> Vec<u8> {
    (0..count).flat_map(|id| lookup(id, &[5; 100])).collect()
}

#[test]
fn client_that_does_not_read_is_paused() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits { in_flight_max: 4096, ..LIMITS });
    let (deaf, other) = (bench.connect_with_hello(), bench.connect_with_hello());
    bench.answers(deaf);
    bench.answers(other);
    bench.world.borrow_mut().set_window(deaf, 1000);
    bench.send(deaf, &lookups(5000));
    bench.run_until_idle();
    let answer_bytes = 200;
    let unsent = bench.reactor.connections.unsent_total;
    assert!((10_000..10_000 + answer_bytes).contains(&unsent), "{unsent} bytes are held");
    assert!(bench.reactor.service.requests < 100);
    bench.send(other, &lookup(7, b"abc"));
    assert_eq!(bench.answers(other), [(7, ReceivedAnswer::Value(b"abc".to_vec()))]);
    // When the peer finally reads, all answers are there, in order and exactly once.
    let ids: Vec<u64> = bench.answers(deaf).into_iter().map(|(id, _)| id).collect();
    assert!(ids.into_iter().eq(0..5000));
    assert_eq!(bench.reactor.connections.unsent_total, 0);
}

#[test]
fn requests_in_flight_are_bounded() {
    let mut bench = ReactorBench::new(AnswerTime::After(5), LIMITS);
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    bench.send(peer, &lookups(35));
    bench.run_until_idle();
    assert_eq!(bench.reactor.service.requests, 10);
    bench.advance_ms(5);
    assert_eq!(bench.reactor.service.requests, 20);
    bench.advance_ms(100);
    assert_eq!(bench.reactor.service.requests, 35);
    let bytes = std::mem::take(&mut bench.world.borrow_mut().peers[peer].bytes_read);
    assert_eq!(frames(&bytes).len(), 35);
}

#[test]
fn dropped_requests_free_their_slots() {
    let mut bench = ReactorBench::new(AnswerTime::Never, LIMITS);
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    bench.send(peer, &lookups(15));
    bench.run_until_idle();
    bench.mailbox.leave(FakeEchoNotice::DropRequest).unwrap();
    bench.run_until_idle();
    assert_eq!((bench.reactor.service.requests, bench.counters().dropped_requests), (15, 10));
    bench.mailbox.leave(FakeEchoNotice::AnswerAll).unwrap();
    assert_eq!(bench.answers(peer).len(), 5);
}

#[test]
fn unread_late_answers_close_the_connection() {
    let limits = Limits { unsent_bytes_end: 20_000, in_flight_max: 1000, ..LIMITS };
    let mut bench = ReactorBench::new(AnswerTime::Never, limits);
    let (deaf, other) = (bench.connect_with_hello(), bench.connect_with_hello());
    bench.answers(deaf);
    bench.answers(other);
    bench.world.borrow_mut().set_window(deaf, 0);
    bench.send(deaf, &lookups(500));
    bench.run_until_idle();
    bench.mailbox.leave(FakeEchoNotice::AnswerAll).unwrap();
    bench.run_until_idle();
    assert!(bench.is_closed(deaf));
    assert_eq!(bench.counters().ended(CloseReason::Flooded), 1);
    assert_eq!(bench.reactor.connections.unsent_total, 0);
    bench.send(other, &lookup(7, b"abc"));
    bench.run_until_idle();
    bench.mailbox.leave(FakeEchoNotice::AnswerAll).unwrap();
    assert_eq!(bench.answers(other).len(), 1);
}

#[test]
fn total_connection_memory_is_bounded() {
    let limits = Limits { unsent_bytes_total_max: 50_000, in_flight_max: 4096, ..LIMITS };
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, limits);
    let deaf: Vec<usize> = (0..20).map(|_| bench.connect_with_hello()).collect();
    for &peer in &deaf {
        bench.answers(peer);
        bench.world.borrow_mut().set_window(peer, 0);
        bench.send(peer, &lookups(1000));
    }
    bench.run_until_idle();
    assert!(bench.reactor.connections.unsent_total <= 50_000);
    assert!(deaf.iter().all(|&peer| !bench.is_closed(peer)), "slowed down, not closed");
    let listener = bench.connect_with_hello();
    bench.answers(listener);
    bench.send(listener, &lookup(7, b"abc"));
    assert_eq!(bench.answers(listener), [(7, ReceivedAnswer::Value(b"abc".to_vec()))]);
}

#[test]
fn large_frames_without_memory_are_refused_with_retry() {
    let limits = Limits { large_frames_bytes_max: 1 << 20, ..Limits::DEFAULT };
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, limits);
    let (first, second) = (bench.connect_with_hello(), bench.connect_with_hello());
    bench.answers(first);
    bench.answers(second);
    let (long, short) = (insert(2, &vec![1; 900_000]), insert(3, &vec![2; 300_000]));
    bench.send(first, &long[..800_000]);
    bench.run_until_idle();
    assert!(bench.reactor.connections.large_total >= 800_000);
    bench.send(second, &[short.clone(), lookup(4, b"abc")].concat());
    let busy = ReceivedAnswer::Failed(Failure::Busy { retry_after_ms: MEMORY_FULL_RETRY_MS });
    assert_eq!(bench.answers(second), [(3, busy), (4, ReceivedAnswer::Value(b"abc".to_vec()))]);
    bench.send(first, &long[800_000..]);
    assert_eq!(bench.answers(first), [(2, ReceivedAnswer::Done(900_000))]);
    bench.send(second, &short);
    assert_eq!(bench.answers(second), [(3, ReceivedAnswer::Done(300_000))]);
    assert_eq!(bench.reactor.connections.large_total, 0);
}

#[test]
fn claimed_length_causes_no_allocation() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    bench.send(peer, &insert(2, &vec![1; 16 << 20])[..48]);
    bench.run_until_idle();
    assert!(bench.reactor.connections.large_total <= 2 * RECEIVE_BYTES);
}

#[test]
fn excess_connections_are_refused_then_closed() {
    let limits = Limits { connections_max: 2, refusals_max: 1, ..Limits::DEFAULT };
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, limits);
    let (first, second, refused, closed) = (
        bench.connect_with_hello(),
        bench.connect_with_hello(),
        bench.connect_with_hello(),
        bench.connect_with_hello(),
    );
    assert_eq!(bench.answers(second), [(1, ReceivedAnswer::Ack)]);
    let busy = ReceivedAnswer::Failed(Failure::Busy { retry_after_ms: REFUSED_RETRY_MS });
    assert_eq!(bench.answers(refused), [(1, busy)]);
    assert!(bench.is_closed(closed));
    // After one connection has left and the refused one is closed, there is room again.
    bench.world.borrow_mut().send_end(refused);
    bench.world.borrow_mut().send_end(first);
    bench.run_until_idle();
    assert_eq!(bench.counters().ended(CloseReason::TooMany), 2);
    let next = bench.connect_with_hello();
    assert_eq!(bench.answers(next), [(1, ReceivedAnswer::Ack)]);
}

#[test]
fn connections_beyond_the_descriptors_get_the_remedy() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let served = bench.connect_with_hello();
    bench.world.borrow_mut().lacks_descriptors = true;
    let native = bench.connect_with_hello();
    let busy = ReceivedAnswer::Failed(Failure::Busy { retry_after_ms: REFUSED_RETRY_MS });
    assert_eq!(bench.answers(native), [(1, busy)]);
    let redis = bench.world.borrow_mut().connect();
    bench.send(redis, b"PING\r\n");
    bench.run_until_idle();
    bench.world.borrow_mut().peer_read(redis, 1 << 10);
    let line = String::from_utf8(bench.world.borrow().peers[redis].bytes_read.clone()).unwrap();
    assert!(line.starts_with("-ERR max number of clients reached") && line.contains("ulimit -n"), "{line}");
    assert_eq!(bench.answers(served), [(1, ReceivedAnswer::Ack)]);
    bench.send(served, &lookup(2, b"abc"));
    bench.run_until_idle();
    assert_eq!(bench.answers(served).len(), 1);
}

#[test]
fn idle_connections_return_their_buffers() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    for _ in 0..50 {
        let peer = bench.connect_with_hello();
        bench.send(peer, &lookups(100));
        bench.answers(peer);
    }
    for (_, connection) in bench.reactor.connections.iter() {
        assert_eq!((connection.out.capacity(), connection.received.bytes.capacity()), (0, 0));
    }
}
