//! Limits on the memory for one connection and for all, and on the number of connections.

use zerohop_wire::Failure;

use super::*;

const LIMITS: Limits = Limits { unsent_bytes_max: 10_000, in_flight_max: 10, ..Limits::DEFAULT };

fn lookups(count: u64) -> Vec<u8> {
    (0..count).flat_map(|id| lookup(id, &[5; 100])).collect()
}

#[test]
fn client_that_does_not_read_is_paused() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits { in_flight_max: 4096, ..LIMITS });
    let (deaf, other) = (stand.connect_with_hello(), stand.connect_with_hello());
    stand.answers(deaf);
    stand.answers(other);
    stand.world.borrow_mut().set_window(deaf, 1000);
    stand.send(deaf, &lookups(5000));
    stand.run_until_idle();
    let answer_bytes = 200;
    let held = stand.reactor.connections.unsent_total;
    assert!((10_000..10_000 + answer_bytes).contains(&held), "{held} bytes are held");
    assert!(stand.reactor.service.requests < 100);
    stand.send(other, &lookup(7, b"abc"));
    assert_eq!(stand.answers(other), [(7, ReceivedAnswer::Value(b"abc".to_vec()))]);
    // When the peer finally reads, all answers are there, in order and exactly once.
    let ids: Vec<u64> = stand.answers(deaf).into_iter().map(|(id, _)| id).collect();
    assert!(ids.into_iter().eq(0..5000));
    assert_eq!(stand.reactor.connections.unsent_total, 0);
}

#[test]
fn requests_in_flight_are_bounded() {
    let mut stand = ReactorBench::new(AnswerTime::After(5), LIMITS);
    let peer = stand.connect_with_hello();
    stand.answers(peer);
    stand.send(peer, &lookups(35));
    stand.run_until_idle();
    assert_eq!(stand.reactor.service.requests, 10);
    stand.advance_ms(5);
    assert_eq!(stand.reactor.service.requests, 20);
    stand.advance_ms(100);
    assert_eq!(stand.reactor.service.requests, 35);
    let bytes = std::mem::take(&mut stand.world.borrow_mut().peers[peer].bytes_read);
    assert_eq!(frames(&bytes).len(), 35);
}

#[test]
fn dropped_requests_free_their_slots() {
    let mut stand = ReactorBench::new(AnswerTime::Never, LIMITS);
    let peer = stand.connect_with_hello();
    stand.answers(peer);
    stand.send(peer, &lookups(15));
    stand.run_until_idle();
    stand.mailbox.leave(FakeEchoNotice::DropRequest).unwrap();
    stand.run_until_idle();
    assert_eq!((stand.reactor.service.requests, stand.counters().dropped_requests), (15, 10));
    stand.mailbox.leave(FakeEchoNotice::AnswerAll).unwrap();
    assert_eq!(stand.answers(peer).len(), 5);
}

#[test]
fn unread_late_answers_close_the_connection() {
    let limits = Limits { unsent_bytes_end: 20_000, in_flight_max: 1000, ..LIMITS };
    let mut stand = ReactorBench::new(AnswerTime::Never, limits);
    let (deaf, other) = (stand.connect_with_hello(), stand.connect_with_hello());
    stand.answers(deaf);
    stand.answers(other);
    stand.world.borrow_mut().set_window(deaf, 0);
    stand.send(deaf, &lookups(500));
    stand.run_until_idle();
    stand.mailbox.leave(FakeEchoNotice::AnswerAll).unwrap();
    stand.run_until_idle();
    assert!(stand.is_closed(deaf));
    assert_eq!(stand.counters().ended(CloseReason::Flooded), 1);
    assert_eq!(stand.reactor.connections.unsent_total, 0);
    stand.send(other, &lookup(7, b"abc"));
    stand.run_until_idle();
    stand.mailbox.leave(FakeEchoNotice::AnswerAll).unwrap();
    assert_eq!(stand.answers(other).len(), 1);
}

#[test]
fn total_connection_memory_is_bounded() {
    let limits = Limits { unsent_bytes_total_max: 50_000, in_flight_max: 4096, ..LIMITS };
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, limits);
    let deaf: Vec<usize> = (0..20).map(|_| stand.connect_with_hello()).collect();
    for &peer in &deaf {
        stand.answers(peer);
        stand.world.borrow_mut().set_window(peer, 0);
        stand.send(peer, &lookups(1000));
    }
    stand.run_until_idle();
    assert!(stand.reactor.connections.unsent_total <= 50_000);
    assert!(deaf.iter().all(|&peer| !stand.is_closed(peer)), "slowed down, not closed");
    let listener = stand.connect_with_hello();
    stand.answers(listener);
    stand.send(listener, &lookup(7, b"abc"));
    assert_eq!(stand.answers(listener), [(7, ReceivedAnswer::Value(b"abc".to_vec()))]);
}

#[test]
fn large_frames_without_memory_are_refused_with_retry() {
    let limits = Limits { large_frames_bytes_max: 1 << 20, ..Limits::DEFAULT };
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, limits);
    let (first, second) = (stand.connect_with_hello(), stand.connect_with_hello());
    stand.answers(first);
    stand.answers(second);
    let (long, short) = (insert(2, &vec![1; 900_000]), insert(3, &vec![2; 300_000]));
    stand.send(first, &long[..800_000]);
    stand.run_until_idle();
    assert!(stand.reactor.connections.large_total >= 800_000);
    stand.send(second, &[short.clone(), lookup(4, b"abc")].concat());
    let busy = ReceivedAnswer::Failed(Failure::Busy { retry_after_ms: MEMORY_FULL_RETRY_MS });
    assert_eq!(stand.answers(second), [(3, busy), (4, ReceivedAnswer::Value(b"abc".to_vec()))]);
    stand.send(first, &long[800_000..]);
    assert_eq!(stand.answers(first), [(2, ReceivedAnswer::Done(900_000))]);
    stand.send(second, &short);
    assert_eq!(stand.answers(second), [(3, ReceivedAnswer::Done(300_000))]);
    assert_eq!(stand.reactor.connections.large_total, 0);
}

#[test]
fn claimed_length_causes_no_allocation() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = stand.connect_with_hello();
    stand.answers(peer);
    stand.send(peer, &insert(2, &vec![1; 16 << 20])[..48]);
    stand.run_until_idle();
    assert!(stand.reactor.connections.large_total <= 2 * RECEIVE_BYTES);
}

#[test]
fn excess_connections_are_refused_then_closed() {
    let limits = Limits { connections_max: 2, refusals_max: 1, ..Limits::DEFAULT };
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, limits);
    let (first, second, told, closed) = (
        stand.connect_with_hello(),
        stand.connect_with_hello(),
        stand.connect_with_hello(),
        stand.connect_with_hello(),
    );
    assert_eq!(stand.answers(second), [(1, ReceivedAnswer::Ack)]);
    let busy = ReceivedAnswer::Failed(Failure::Busy { retry_after_ms: REFUSED_RETRY_MS });
    assert_eq!(stand.answers(told), [(1, busy)]);
    assert!(stand.is_closed(closed));
    // After one connection has left and the refused one is closed, there is room again.
    stand.world.borrow_mut().send_end(told);
    stand.world.borrow_mut().send_end(first);
    stand.run_until_idle();
    assert_eq!(stand.counters().ended(CloseReason::TooMany), 2);
    let next = stand.connect_with_hello();
    assert_eq!(stand.answers(next), [(1, ReceivedAnswer::Ack)]);
}

#[test]
fn idle_connections_return_their_buffers() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    for _ in 0..50 {
        let peer = stand.connect_with_hello();
        stand.send(peer, &lookups(100));
        stand.answers(peer);
    }
    for (_, connection) in stand.reactor.connections.iter() {
        assert_eq!((connection.out.capacity(), connection.received.bytes.capacity()), (0, 0));
    }
}
