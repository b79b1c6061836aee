//! Tests of one instance on its thread, with the test in the manager's role.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;
use zerohop_engine::EngineOptions;
use zerohop_placement::{Address, ClusterMap, MapHistory, Node, NodeState};
use zerohop_reactor::{Limits, MioDriver, ReactorMailbox};
use zerohop_shard::Identity;
use zerohop_wire::ids::{Incarnation, InstanceId, NodeId, RequestId};
use zerohop_wire::messages::{Admin, ClusterId, Hello, Message};
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope, Failure, Features, GREETING_VERSION};

use super::*;
use crate::control_job::ControlJob;
use crate::control_job::ReplyTo;
use crate::manager::{ManagerInput, report_end};
use crate::partition_limits::PartitionLimits;

mod links;

const CLUSTER: ClusterId = ClusterId([1; 16]);

struct ServiceBench {
    address: SocketAddr,
    mailbox: ReactorMailbox<InstanceNotice>,
    thread: JoinHandle<()>,
    jobs: mpsc::Receiver<ControlJob>,
    control: mpsc::Receiver<ManagerInput>,
}

impl ServiceBench {
    /// Starts an instance whose manager has room for this many control requests.
    fn start(jobs_max: usize) -> ServiceBench {
        let driver = listen();
        let map = ClusterMap::of_one_node(node(1, 7, driver.local_address().unwrap()), 1).unwrap();
        ServiceBench::start_in(&map, (1, 7), driver, None, jobs_max)
    }

    /// Starts the only instance of a node, as this process start.
    fn start_in(
        map: &ClusterMap,
        (instance, incarnation): (u32, u64),
        driver: MioDriver,
        root: Option<PathBuf>,
        jobs_max: usize,
    ) -> ServiceBench {
        let address = driver.local_address().unwrap();
        let (instance, incarnation) = (InstanceId(instance), Incarnation(incarnation));
        let (jobs_out, jobs) = mpsc::channel(jobs_max);
        let (control_out, control) = mpsc::channel(1);
        let plan = InstancePlan {
            instance_index: 0,
            identity: Identity { cluster: CLUSTER, instance, incarnation },
            root,
            engine: EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() },
            partitions: PartitionLimits::default(),
            history: MapHistory::new(Arc::new(map.clone())),
            driver,
            jobs: jobs_out,
            report_end: report_end(control_out),
            manager_messages: None,
            proofs: None,
            serves_cross_partition: false,
            redis_time_out: crate::limits::REDIS_TIME_OUT_DEFAULT,
            gateway: None,
            limits: Limits::DEFAULT,
        };
        let (opened_out, opened) = sync_channel(2);
        let thread = start(plan, opened_out).unwrap();
        let (_, ready) = opened.recv_timeout(Duration::from_secs(10)).unwrap();
        ServiceBench { address, mailbox: ready.unwrap().mailbox, thread, jobs, control }
    }

    fn connect(&self) -> TcpStream {
        #[expect(clippy::disallowed_methods, reason = "a test is a client")]
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let hello = Hello {
            version_min: zerohop_wire::limits::VERSION_MIN,
            version_max: zerohop_wire::limits::VERSION_MAX,
            features: Features::default(),
            cluster: ClusterId::default(),
            map_epoch: Default::default(),
            proof_method: 0,
            nonce: [0; 32],
            name: "test",
        };
        stream.write_all(&frame(1, &Message::Hello(hello))).unwrap();
        stream
    }

    /// Waits for its thread, and returns its result.
    fn end(mut self) -> Result<(), String> {
        self.thread.join().unwrap();
        match self.control.try_recv() {
            Ok(ManagerInput::Ended(InstanceExit { how, .. })) => how,
            other => panic!("its end was not reported: {other:?}"),
        }
    }
}

fn listen() -> MioDriver {
    MioDriver::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

/// A node with one instance of the same number.
fn node(id: u32, incarnation: u64, address: SocketAddr) -> Node {
    let address = Address::new(&address.to_string()).unwrap();
    Node {
        id: NodeId(id),
        state: NodeState::Up,
        incarnation: Incarnation(incarnation),
        manager: address.clone(),
        first_instance: InstanceId(id),
        instances: vec![address],
    }
}

fn frame(request: u64, message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let envelope = Envelope { request: RequestId(request), ..Envelope::default() };
    Encoder::newest_for(message).encode(&envelope, message, &mut bytes).unwrap();
    bytes
}

/// The version of the first frame of these bytes: a greeting has one of its own.
fn version_of(bytes: &[u8]) -> u8 {
    bytes.get(3).copied().unwrap_or(GREETING_VERSION)
}

/// All answers until the connection ends: the request, and its failure.
fn answers(mut stream: TcpStream) -> Vec<(u64, Option<Failure<'static>>)> {
    let (mut bytes, mut found, mut at) = (Vec::new(), Vec::new(), 0);
    stream.read_to_end(&mut bytes).unwrap();
    while let DecodeResult::Frame { frame, used } =
        Decoder::with_version(version_of(&bytes[at..]), Features::default()).decode(&bytes[at..])
    {
        let mut expanded = Vec::new();
        let failure = match frame.message(&mut expanded).unwrap() {
            Message::Answer(Err(failure)) => Some(failure.into_owned()),
            _ => None,
        };
        found.push((frame.envelope.request.0, failure));
        at += used;
    }
    found
}

#[test]
fn control_request_during_stop_is_answered_once() {
    let mut bench = ServiceBench::start(4);
    let mut stream = bench.connect();
    stream.write_all(&frame(2, &Message::Admin(Admin { encoded: b"anything" }))).unwrap();
    let job = bench.jobs.blocking_recv().unwrap();
    let ReplyTo::Instance { instance_index: 0, request_number: query } = job.reply else { panic!("{job:?}") };
    assert_eq!(job.encoded, b"anything");
    // One turn may process both.
    bench.mailbox.leave(InstanceNotice::Stop).unwrap();
    drop(bench.mailbox.leave(InstanceNotice::Admin { request_number: query, encoded: Vec::new() }));
    drop(bench.mailbox.leave(InstanceNotice::Admin { request_number: 99, encoded: Vec::new() }));
    bench.end().unwrap();
    let doubt = Failure::TimedOut { version: Default::default() };
    assert_eq!(answers(stream), [(1, None), (2, Some(doubt))]);
}

#[test]
fn excess_control_requests_are_refused() {
    let bench = ServiceBench::start(1);
    let mut stream = bench.connect();
    let requests = (2..5).flat_map(|n| frame(n, &Message::Admin(Admin { encoded: b"" })));
    stream.write_all(&requests.collect::<Vec<u8>>()).unwrap();
    // The first request occupies the only place.
    let mut busy = Vec::new();
    let (mut bytes, mut chunk, mut at) = (Vec::new(), [0; 4096], 0);
    while busy.len() < 2 {
        match Decoder::with_version(version_of(&bytes[at..]), Features::default()).decode(&bytes[at..]) {
            DecodeResult::Frame { frame, used } => {
                let mut expanded = Vec::new();
                if let Message::Answer(Err(Failure::Busy { .. })) = frame.message(&mut expanded).unwrap() {
                    busy.push(frame.envelope.request.0);
                }
                at += used;
            }
            _ => {
                let read = stream.read(&mut chunk).unwrap();
                bytes.extend_from_slice(&chunk[..read]);
            }
        }
    }
    assert_eq!(busy, [3, 4]);
    bench.mailbox.leave(InstanceNotice::Stop).unwrap();
    bench.end().unwrap();
}

#[test]
fn stats_and_fault_message_are_reported() {
    let bench = ServiceBench::start(1);
    let (requester, answer) = tokio::sync::oneshot::channel();
    bench.mailbox.leave(InstanceNotice::Figures { records_waits: false, reply_to: requester }).unwrap();
    let figures = answer.blocking_recv().unwrap();
    assert_eq!((figures.stats.partitions, figures.connections), (256, 0));
    bench.mailbox.leave(InstanceNotice::Panic).unwrap();
    let reason = bench.end().unwrap_err();
    assert!(reason.contains("a fault planted by a test"), "{reason}");
}
