//! For all chunk sizes, delays, windows and neighbours: every request of a well-behaved client is answered exactly once and correctly, no state is
//! left over, and the same seed gives the same run.

use proptest::prelude::*;
use zerohop_wire::messages::{Hello, Message};

use super::gathering::coalesce_frames;
use super::*;

#[derive(Clone, Debug)]
enum RandomStep {
    /// A client sends the next bytes of its script.
    Send { client: usize, bytes: usize },
    /// A client reads this many bytes.
    ClientReads { client: usize, bytes: usize },
    /// The window between a client and the server changes.
    Window { client: usize, bytes: usize },
    /// An unauthenticated client connects, sends invalid bytes or half a frame, and perhaps disconnects.
    UnprovenClient { bytes: Vec<u8>, leaves: bool },
    /// The reactor runs one turn.
    RunReactor,
    /// Time passes.
    AdvanceTime(u64),
}

fn step() -> impl Strategy<Value = RandomStep> {
    let client = 0..CLIENTS;
    prop_oneof![
        4 => (client.clone(), 1..3000usize).prop_map(|(client, bytes)| RandomStep::Send { client, bytes }),
        2 => (client.clone(), 1..3000usize).prop_map(|(client, bytes)| RandomStep::ClientReads { client, bytes }),
        1 => (client, 0..2000usize).prop_map(|(client, bytes)| RandomStep::Window { client, bytes }),
        1 => (unproven_input(), any::<bool>()).prop_map(|(bytes, leaves)| RandomStep::UnprovenClient { bytes, leaves }),
        4 => Just(RandomStep::RunReactor),
        1 => (0..20u64).prop_map(RandomStep::AdvanceTime),
    ]
}

/// Random bytes, or a conversation with one wrong bit that may end early.
fn unproven_input() -> impl Strategy<Value = Vec<u8>> {
    let frames = [hello(), lookup(2, b"key"), insert(3, &[1; 50]), hello(), lookup(4, b"key")].concat();
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..100),
        (0..frames.len(), 0..8, 1..=frames.len()).prop_map(move |(at, bit, length)| {
            let mut bytes = frames.clone();
            bytes[at] ^= 1u8 << bit;
            bytes.truncate(length);
            bytes
        }),
    ]
}

const CLIENTS: usize = 3;

const LIMITS: Limits = Limits {
    unsent_bytes_max: 500,
    in_flight_max: 7,
    batch_requests_max: 11,
    batch_bytes_max: 5_000,
    connections_max: 5,
    refusals_max: 1,
    frame_time_out_ms: 100_000,
    send_time_out_ms: 100_000,
    ..Limits::DEFAULT
};

/// The script of one client: its requests, of which the `n`th has the id `n + 2`. The second client accepts coalesced answers, the third also sends
/// coalesced requests.
fn script(client: usize, sizes: &[usize]) -> (Vec<u8>, Vec<(u64, ReceivedAnswer)>) {
    let features = if client > 0 { Features::COALESCED } else { Features::default() };
    let hello = encoded(1, &Message::Hello(Hello { features, ..hello_message() }));
    let (mut bytes, mut answers) = (hello, vec![(1, ReceivedAnswer::Ack)]);
    let mut frames = Vec::new();
    for (id, &size) in (2..).zip(sizes) {
        if size > 2000 {
            frames.push(insert(id, &vec![client as u8; size * 10]));
            answers.push((id, ReceivedAnswer::Done(size as u64 * 10)));
        } else {
            let key = vec![client as u8 + id as u8; size];
            frames.push(lookup(id, &key));
            answers.push((id, ReceivedAnswer::Value(key)));
        }
    }
    match client {
        2 => bytes
            .extend((1..).step_by(3).zip(frames.chunks(3)).flat_map(|(id, few)| coalesce_frames(id, few))),
        _ => bytes.extend(frames.concat()),
    }
    (bytes, answers)
}

/// Executes the steps and returns what every client received, and the reactor's counters.
fn run_steps(
    when: AnswerTime,
    sizes: &[Vec<usize>],
    steps: &[RandomStep],
) -> (Vec<Vec<(u64, ReceivedAnswer)>>, ReactorCounters) {
    let mut bench = ReactorBench::new(when, LIMITS);
    let scripts: Vec<Vec<u8>> =
        sizes.iter().enumerate().map(|(client, sizes)| script(client, sizes).0).collect();
    let peers: Vec<usize> = sizes.iter().map(|_| bench.world.borrow_mut().connect()).collect();
    bench.run_until_idle();
    // A client that has completed the greeting keeps its place, however many unauthenticated ones connect.
    let mut sent = [0; CLIENTS];
    for client in 0..CLIENTS {
        sent[client] = script(client, &[]).0.len();
        bench.send(peers[client], &scripts[client][..sent[client]]);
    }
    bench.run_until_idle();
    for step in steps {
        let mut world = bench.world.borrow_mut();
        match step.clone() {
            RandomStep::Send { client, bytes } => {
                let from = sent[client];
                sent[client] = (from + bytes).min(scripts[client].len());
                world.send(peers[client], &scripts[client][from..sent[client]]);
            }
            RandomStep::ClientReads { client, bytes } => drop(world.peer_read(peers[client], bytes)),
            RandomStep::Window { client, bytes } => world.set_window(peers[client], bytes),
            RandomStep::UnprovenClient { bytes, leaves } => {
                let unproven = world.connect();
                world.send(unproven, &bytes);
                if leaves {
                    world.send_end(unproven);
                }
            }
            RandomStep::RunReactor => {
                drop(world);
                bench.reactor.turn().unwrap();
            }
            RandomStep::AdvanceTime(ms) => world.now_ms += ms,
        }
    }
    for client in 0..CLIENTS {
        let mut world = bench.world.borrow_mut();
        world.set_window(peers[client], 5000);
        world.send(peers[client], &scripts[client][sent[client]..]);
    }
    bench.advance_ms(1000);
    let got = peers
        .iter()
        .map(|&peer| {
            let mut got = bench.answers(peer);
            got.sort_by_key(|(id, _)| *id);
            got
        })
        .collect();
    for &peer in &peers {
        assert!(!bench.is_closed(peer));
        bench.world.borrow_mut().send_end(peer);
    }
    // The reactor does not wait forever for silent unauthenticated connections.
    bench.advance_ms(LIMITS.idle_time_out_ms + LIMITS.linger_ms + 10);
    let connections = &bench.reactor.connections;
    assert_eq!((connections.open, connections.unsent_total, connections.large_total), (0, 0, 0));
    let counters = connections.counters.clone();
    assert_eq!(counters.accepted, counters.endings.iter().sum::<u64>());
    assert_eq!(counters.requests, counters.answers + counters.answers_dropped);
    (got, counters)
}

fn when() -> impl Strategy<Value = AnswerTime> {
    prop_oneof![
        Just(AnswerTime::AtOnce),
        Just(AnswerTime::BatchBackwards),
        (1..10u64).prop_map(AnswerTime::After)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_schedules_answer_each_request_once_and_correctly(
        when in when(),
        sizes in prop::collection::vec(prop::collection::vec(1..2500usize, 0..30), CLIENTS..=CLIENTS),
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let (got, counters) = run_steps(when, &sizes, &steps);
        for (client, (got, sizes)) in got.iter().zip(&sizes).enumerate() {
            let expected = script(client, sizes).1;
            let differs = got.iter().zip(&expected).position(|(got, expected)| got != expected);
            prop_assert!(differs.is_none(), "client {client}: answer {differs:?} is wrong");
            prop_assert_eq!(got.len(), expected.len(), "answers of client {}", client);
        }
        prop_assert_eq!(run_steps(when, &sizes, &steps).1, counters, "the same steps must give the same run");
    }
}
