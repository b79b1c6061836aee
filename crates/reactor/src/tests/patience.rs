//! Time-outs of peers that send nothing, send incomplete frames, or do not read.

use super::*;

const LIMITS: Limits = Limits {
    hello_time_out_ms: 50,
    frame_time_out_ms: 70,
    send_time_out_ms: 110,
    idle_time_out_ms: 500,
    half_closed_time_out_ms: 90,
    ..Limits::DEFAULT
};

/// Whether the connection ends exactly after this time, and for this reason.
fn ends_after(bench: &mut ReactorBench, peer: usize, ms: u64, why: CloseReason) {
    let before = bench.counters().ended(why);
    bench.advance_ms(ms - 1);
    assert!(!bench.is_closed(peer), "{why} came too early");
    bench.advance_ms(1);
    bench.run_until_idle();
    assert!(bench.is_closed(peer), "{why} did not come");
    assert_eq!(bench.counters().ended(why), before + 1);
}

#[test]
fn connection_without_hello_times_out() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, LIMITS);
    let silent = bench.world.borrow_mut().connect();
    bench.run_until_idle();
    ends_after(&mut bench, silent, 50, CloseReason::HelloTimeOut);
    let half = bench.world.borrow_mut().connect();
    bench.send(half, &hello()[..60]);
    bench.run_until_idle();
    ends_after(&mut bench, half, 50, CloseReason::HelloTimeOut);
}

#[test]
fn unfinished_frame_times_out() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, LIMITS);
    let peer = bench.connect_with_hello();
    bench.advance_ms(300);
    bench.send(peer, &[lookup(2, b"abc"), lookup(3, b"def")[..20].to_vec()].concat());
    bench.run_until_idle();
    // Further bytes do not extend its time.
    bench.advance_ms(60);
    bench.send(peer, &lookup(3, b"def")[20..21]);
    ends_after(&mut bench, peer, 10, CloseReason::FrameTimeOut);
}

#[test]
fn frame_time_limit_grows_with_frame_length() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, LIMITS);
    let peer = bench.connect_with_hello();
    let frame = insert(2, &vec![1; 256 * 1000 - 10]);
    bench.send(peer, &frame[..100_000]);
    bench.run_until_idle();
    bench.advance_ms(1000);
    assert!(!bench.is_closed(peer));
    bench.send(peer, &frame[100_000..]);
    bench.run_until_idle();
    assert_eq!(bench.answers(peer).last(), Some(&(2, ReceivedAnswer::Done(256 * 1000 - 10))));
}

#[test]
fn client_that_reads_no_answers_is_closed() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, LIMITS);
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    bench.world.borrow_mut().set_window(peer, 0);
    bench.send(peer, &lookup(2, b"abc"));
    bench.run_until_idle();
    bench.world.borrow_mut().now_ms += 109;
    bench.run_until_idle();
    bench.reactor.turn().unwrap();
    assert!(!bench.is_closed(peer));
    bench.world.borrow_mut().now_ms += 1;
    bench.reactor.turn().unwrap();
    assert!(bench.is_closed(peer));
    assert_eq!(bench.counters().ended(CloseReason::SendTimeOut), 1);
}

#[test]
fn idle_connection_is_closed_unless_it_waits_for_answer() {
    let mut bench = ReactorBench::new(AnswerTime::Never, LIMITS);
    let (idle, waiting) = (bench.connect_with_hello(), bench.connect_with_hello());
    bench.send(waiting, &lookup(2, b"abc"));
    bench.run_until_idle();
    ends_after(&mut bench, idle, 500, CloseReason::Idle);
    bench.advance_ms(10_000);
    assert!(!bench.is_closed(waiting));
}

#[test]
fn half_closed_connection_times_out() {
    let mut bench = ReactorBench::new(AnswerTime::Never, LIMITS);
    let peer = bench.connect_with_hello();
    bench.send(peer, &lookup(2, b"abc"));
    bench.world.borrow_mut().send_end(peer);
    bench.run_until_idle();
    ends_after(&mut bench, peer, 90, CloseReason::HalfClosedTimeOut);
}

#[test]
fn accept_is_retried_after_descriptor_exhaustion() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, LIMITS);
    bench.world.borrow_mut().accept_error = Some(std::io::ErrorKind::OutOfMemory);
    let peer = bench.world.borrow_mut().connect();
    bench.send(peer, &hello());
    bench.run_until_idle();
    assert_eq!((bench.counters().accept_errors, bench.counters().accepted), (1, 0));
    bench.advance_ms(ACCEPT_RETRY_MS);
    assert_eq!(bench.answers(peer), [(1, ReceivedAnswer::Ack)]);
}
