//! What must hold between a reactor and clients of every kind.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use zerohop_reactor::{CloseReason, FOREIGN_ANSWER, Limits};
use zerohop_wire::Failure;

use super::client::*;
use super::{ReactorThread, SuiteNotice};

fn key(id: u64) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

#[test]
fn thousands_of_requests_in_one_write_are_all_answered() {
    let server = ReactorThread::start(1, Limits::DEFAULT);
    let mut client = SocketClient::connect_with_hello(server.address);
    let count = 20_000;
    let all: Vec<u8> = (0..count).flat_map(|id| lookup(id, &key(id))).collect();
    let mut writer = client.socket.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&all).unwrap());
    for id in 0..count {
        assert_eq!(client.next(), Some((id, SocketAnswer::Value(key(id)))));
    }
    thread.join().unwrap();
    let (counters, _) = server.count();
    assert_eq!((counters.requests, counters.answers), (count, count));
    assert!(counters.writes < count / 10, "{} writes for {count} answers", counters.writes);
}

#[test]
fn requests_sent_byte_by_byte_are_reassembled() {
    let server = ReactorThread::start(1, Limits::DEFAULT);
    let mut client = SocketClient::connect(server.address);
    for byte in [hello(), lookup(2, b"abc"), lookup(3, b"def")].concat() {
        client.send(&[byte]);
    }
    let answers: Vec<_> = (0..3).map(|_| client.next().unwrap()).collect();
    assert_eq!(
        answers,
        [
            (1, SocketAnswer::Ack),
            (2, SocketAnswer::Value(b"abc".to_vec())),
            (3, SocketAnswer::Value(b"def".to_vec()))
        ]
    );
}

#[test]
fn early_answers_overtake_late_ones() {
    let server = ReactorThread::start(1, Limits::DEFAULT);
    let mut client = SocketClient::connect_with_hello(server.address);
    client.send(&[lookup(2, b"later 2"), lookup(3, b"later 3"), lookup(4, b"now")].concat());
    assert_eq!(client.next(), Some((4, SocketAnswer::Value(b"now".to_vec()))));
    server.mailbox.leave(SuiteNotice::AnswerAll).unwrap();
    assert_eq!(client.next(), Some((3, SocketAnswer::Value(b"later 3".to_vec()))));
    assert_eq!(client.next(), Some((2, SocketAnswer::Value(b"later 2".to_vec()))));
}

#[test]
fn non_reading_client_uses_bounded_memory_and_delays_no_others() {
    let limits = Limits { unsent_bytes_max: 100_000, send_time_out_ms: 1_500, ..Limits::DEFAULT };
    let server = ReactorThread::start(5_000, limits);
    let mut deaf = SocketClient::connect_with_hello(server.address);
    // 4,000 answers of 40 KB each: 160 MB, far more than the buffers of the sockets.
    let all: Vec<u8> = (0..4_000).flat_map(|id| lookup(id, &key(id))).collect();
    deaf.send(&all);
    let mut other = SocketClient::connect_with_hello(server.address);
    for id in 0..100 {
        other.send(&lookup(id, b"x"));
        assert_eq!(other.next(), Some((id, SocketAnswer::Value(vec![b'x'; 5_000]))));
    }
    assert!(server.count().0.requests < 2_000, "it was read on though it does not read");
    server.until("the deaf one is closed", |counters, _| counters.ended(CloseReason::SendTimeOut) == 1);
    other.send(&lookup(7, b"y"));
    assert_eq!(other.next(), Some((7, SocketAnswer::Value(vec![b'y'; 5_000]))));
}

#[test]
fn slow_reader_gets_all_answers() {
    let limits = Limits { unsent_bytes_max: 100_000, ..Limits::DEFAULT };
    let server = ReactorThread::start(5_000, limits);
    let mut client = SocketClient::connect_with_hello(server.address);
    let all: Vec<u8> = (0..1_000).flat_map(|id| lookup(id, &key(id))).collect();
    client.send(&all);
    std::thread::sleep(Duration::from_millis(200));
    for id in 0..1_000 {
        assert_eq!(client.next(), Some((id, SocketAnswer::Value(key(id).repeat(5_000)))));
    }
}

#[test]
fn connections_beyond_the_bound_are_refused_by_name() {
    let limits = Limits { connections_max: 3, refusals_max: 2, ..Limits::DEFAULT };
    let server = ReactorThread::start(1, limits);
    let mut clients: Vec<SocketClient> =
        (0..3).map(|_| SocketClient::connect_with_hello(server.address)).collect();
    let mut refused = SocketClient::connect(server.address);
    refused.send(&hello());
    assert!(matches!(refused.next(), Some((1, SocketAnswer::Failed(Failure::Busy { .. })))));
    assert_eq!(refused.next(), None);
    drop((clients.pop(), refused));
    server.until("there is room", |_, open| open == 2);
    SocketClient::connect_with_hello(server.address);
    clients[0].send(&lookup(2, b"abc"));
    assert_eq!(clients[0].next(), Some((2, SocketAnswer::Value(b"abc".to_vec()))));
}

#[test]
fn the_silent_and_the_half_spoken_are_closed_in_time() {
    let server = ReactorThread::start(1, Limits { hello_time_out_ms: 200, ..Limits::DEFAULT });
    assert_eq!(SocketClient::connect(server.address).next(), None);
    assert_eq!(server.count().0.ended(CloseReason::HelloTimeOut), 1);
    let server = ReactorThread::start(1, Limits { frame_time_out_ms: 300, ..Limits::DEFAULT });
    let mut half = SocketClient::connect_with_hello(server.address);
    half.send(&lookup(2, b"abc")[..50]);
    assert!(matches!(half.socket.read(&mut [0; 1]), Ok(0)));
    assert_eq!(server.count().0.ended(CloseReason::FrameTimeOut), 1);
}

#[test]
fn garbage_is_answered_by_protocol_and_harmless() {
    let server = ReactorThread::start(1, Limits::DEFAULT);
    let mut good = SocketClient::connect_with_hello(server.address);
    let mut seed = 1u64;
    for round in 0..200 {
        let mut client = TcpStream::connect(server.address).unwrap();
        let noise: Vec<u8> = (0..500)
            .map(|_| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (seed >> 56) as u8
            })
            .collect();
        let greeting = if round % 2 == 0 { hello() } else { Vec::new() };
        // The connection may be closed before all is written.
        drop(client.write_all(&[greeting, noise].concat()));
        if round % 3 == 0 {
            drop(client);
        }
        good.send(&lookup(round, b"abc"));
        assert_eq!(good.next(), Some((round, SocketAnswer::Value(b"abc".to_vec()))));
    }
    server.until("all clients are gone", |_, open| open == 1);
}

#[test]
fn the_last_answer_arrives_though_more_was_sent_than_is_read() {
    let server = ReactorThread::start(1, Limits::DEFAULT);
    for _ in 0..20 {
        let mut client = SocketClient::connect(server.address);
        client.send(&[lookup(5, b"before hello"), vec![7; 300_000]].concat());
        let expected = Failure::UnsupportedVersion { min: 1, max: 1 };
        assert_eq!(client.next(), Some((5, SocketAnswer::Failed(expected))));
        assert_eq!(client.next(), None);
    }
}

#[test]
fn other_protocol_gets_a_line_and_is_closed() {
    let server = ReactorThread::start(1, Limits::DEFAULT);
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, FOREIGN_ANSWER);
}

#[test]
fn half_closed_client_gets_its_answers() {
    let server = ReactorThread::start(1, Limits::DEFAULT);
    let mut client = SocketClient::connect_with_hello(server.address);
    client.send(&[lookup(2, b"abc"), lookup(3, b"later")].concat());
    client.socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.next(), Some((2, SocketAnswer::Value(b"abc".to_vec()))));
    server.mailbox.leave(SuiteNotice::AnswerAll).unwrap();
    assert_eq!(client.next(), Some((3, SocketAnswer::Value(b"later".to_vec()))));
    assert_eq!(client.next(), None);
}

#[test]
fn large_values_pass_both_ways() {
    let server = ReactorThread::start(300, Limits::DEFAULT);
    let mut client = SocketClient::connect_with_hello(server.address);
    for id in 0..5 {
        client.send(&lookup(id, &[id as u8; 50_000]));
        assert_eq!(client.next(), Some((id, SocketAnswer::Value(vec![id as u8; 15_000_000]))));
    }
}

#[test]
fn many_clients_at_once_are_all_served() {
    let server = ReactorThread::start(1, Limits::DEFAULT);
    let address = server.address;
    let threads: Vec<_> = (0..8)
        .map(|thread: u64| {
            std::thread::spawn(move || {
                let mut clients: Vec<SocketClient> =
                    (0..25).map(|_| SocketClient::connect_with_hello(address)).collect();
                for round in 0..20 {
                    for client in &mut clients {
                        client.send(&[lookup(round, &key(thread)), lookup(round + 100, b"x")].concat());
                    }
                    for client in &mut clients {
                        assert_eq!(client.next(), Some((round, SocketAnswer::Value(key(thread)))));
                        assert_eq!(client.next(), Some((round + 100, SocketAnswer::Value(b"x".to_vec()))));
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    server.until("all have left", |counters, open| open == 0 && counters.ended(CloseReason::Peer) == 200);
}

#[test]
fn stop_answers_requests_in_flight() {
    let server = ReactorThread::start(1, Limits::DEFAULT);
    let mut client = SocketClient::connect_with_hello(server.address);
    client.send(&lookup(2, b"later"));
    server.until("it is in flight", |counters, _| counters.requests == 1);
    drop(server);
    assert_eq!(client.next(), Some((2, SocketAnswer::Value(b"later".to_vec()))));
    assert_eq!(client.next(), None);
}
