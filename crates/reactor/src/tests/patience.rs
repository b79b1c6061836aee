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
fn ends_after(stand: &mut ReactorBench, peer: usize, ms: u64, why: CloseReason) {
    let before = stand.counters().ended(why);
    stand.advance_ms(ms - 1);
    assert!(!stand.is_closed(peer), "{why} came too early");
    stand.advance_ms(1);
    stand.run_until_idle();
    assert!(stand.is_closed(peer), "{why} did not come");
    assert_eq!(stand.counters().ended(why), before + 1);
}

#[test]
fn connection_without_hello_times_out() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, LIMITS);
    let silent = stand.world.borrow_mut().connect();
    stand.run_until_idle();
    ends_after(&mut stand, silent, 50, CloseReason::HelloTimeOut);
    let half = stand.world.borrow_mut().connect();
    stand.send(half, &hello()[..60]);
    stand.run_until_idle();
    ends_after(&mut stand, half, 50, CloseReason::HelloTimeOut);
}

#[test]
fn unfinished_frame_times_out() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, LIMITS);
    let peer = stand.connect_with_hello();
    stand.advance_ms(300);
    stand.send(peer, &[lookup(2, b"abc"), lookup(3, b"def")[..20].to_vec()].concat());
    stand.run_until_idle();
    // Further bytes do not extend its time.
    stand.advance_ms(60);
    stand.send(peer, &lookup(3, b"def")[20..21]);
    ends_after(&mut stand, peer, 10, CloseReason::FrameTimeOut);
}

#[test]
fn frame_time_limit_grows_with_frame_length() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, LIMITS);
    let peer = stand.connect_with_hello();
    let frame = insert(2, &vec![1; 256 * 1000 - 10]);
    stand.send(peer, &frame[..100_000]);
    stand.run_until_idle();
    stand.advance_ms(1000);
    assert!(!stand.is_closed(peer));
    stand.send(peer, &frame[100_000..]);
    stand.run_until_idle();
    assert_eq!(stand.answers(peer).last(), Some(&(2, ReceivedAnswer::Done(256 * 1000 - 10))));
}

#[test]
fn client_that_reads_no_answers_is_closed() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, LIMITS);
    let peer = stand.connect_with_hello();
    stand.answers(peer);
    stand.world.borrow_mut().set_window(peer, 0);
    stand.send(peer, &lookup(2, b"abc"));
    stand.run_until_idle();
    stand.world.borrow_mut().now_ms += 109;
    stand.run_until_idle();
    stand.reactor.turn().unwrap();
    assert!(!stand.is_closed(peer));
    stand.world.borrow_mut().now_ms += 1;
    stand.reactor.turn().unwrap();
    assert!(stand.is_closed(peer));
    assert_eq!(stand.counters().ended(CloseReason::SendTimeOut), 1);
}

#[test]
fn idle_connection_is_closed_unless_it_waits_for_answer() {
    let mut stand = ReactorBench::new(AnswerTime::Never, LIMITS);
    let (idle, waiting) = (stand.connect_with_hello(), stand.connect_with_hello());
    stand.send(waiting, &lookup(2, b"abc"));
    stand.run_until_idle();
    ends_after(&mut stand, idle, 500, CloseReason::Idle);
    stand.advance_ms(10_000);
    assert!(!stand.is_closed(waiting));
}

#[test]
fn half_closed_connection_times_out() {
    let mut stand = ReactorBench::new(AnswerTime::Never, LIMITS);
    let peer = stand.connect_with_hello();
    stand.send(peer, &lookup(2, b"abc"));
    stand.world.borrow_mut().send_end(peer);
    stand.run_until_idle();
    ends_after(&mut stand, peer, 90, CloseReason::HalfClosedTimeOut);
}

#[test]
fn accept_is_retried_after_descriptor_exhaustion() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, LIMITS);
    stand.world.borrow_mut().accept_error = Some(std::io::ErrorKind::OutOfMemory);
    let peer = stand.world.borrow_mut().connect();
    stand.send(peer, &hello());
    stand.run_until_idle();
    assert_eq!((stand.counters().accept_errors, stand.counters().accepted), (1, 0));
    stand.advance_ms(ACCEPT_RETRY_MS);
    assert_eq!(stand.answers(peer), [(1, ReceivedAnswer::Ack)]);
}
