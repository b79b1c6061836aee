//! A client process: this test program again, configured by its environment. It writes each call to
//! a file once the call has ended, and continues until its standard input ends.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zerohop_client::{Client, ClientOptions, Keyspace};
use zerohop_session::{Reply, SessionError as Reason};
use zerohop_sim::history::{ClientCall, OperationEnd};
use zerohop_sim::workload::operation::{RecordAction, RecordCall};
use zerohop_sim::workload::tokens::token;
use zerohop_wire::Elements;
use zerohop_wire::messages::{
    Append, Condition, Expiry, Increment, Insert, Query, RecordOperation as Wire, RecordRead, RecordWrite,
    Remove, WriteChange,
};

use crate::process::calls;
use crate::process::net::Net;
use crate::support::process::RunningProcess;
use crate::support::{GIVE_UP_AFTER, wait_for};

/// The configuration of a client process, separated by `|`: its number, the keyspace, the file, the
/// endpoints with commas.
const VARIABLE: &str = "ZEROHOP_TEST_CLIENT";

/// Tasks of a process, each with one call at a time.
pub(crate) const TASKS: usize = 4;

/// Records of each kind that all tasks share.
const KEYS: u64 = 12;

/// The pause between two calls of a task: enough calls to meet every fault, few enough to be
/// checked in seconds.
const PAUSE: Duration = Duration::from_millis(8);

/// Load from several processes.
pub(crate) struct ProcessLoad {
    processes: Vec<(RunningProcess, std::path::PathBuf)>,
}

impl ProcessLoad {
    /// Starts this many processes.
    pub(crate) fn start(
        net: &Net,
        processes: usize,
        keyspace: &str,
        endpoints: &[String],
        folder: &Path,
    ) -> ProcessLoad {
        let start = |number: usize| {
            let file = folder.join(format!("calls-{number}"));
            let mut command = net.client(&std::env::current_exe().unwrap());
            command.args(["--exact", "process::client_process", "--nocapture"]);
            let work = format!("{number}|{keyspace}|{}|{}", file.display(), endpoints.join(","));
            command.env(VARIABLE, work).stdin(Stdio::piped()).stdout(Stdio::null());
            (RunningProcess::start(&mut command), file)
        };
        ProcessLoad { processes: (0..processes).map(start).collect() }
    }

    /// Waits until each task of each process has ended this many more calls.
    pub(crate) fn wait_for_progress(&self, calls: usize) {
        let before = self.counted();
        let is_so = |now: &Vec<usize>| now.iter().zip(&before).all(|(now, before)| *now >= before + calls);
        wait_for("all clients go on", || self.counted(), is_so);
    }

    /// The number of calls that each task of each process has ended so far.
    fn counted(&self) -> Vec<usize> {
        let mut counted = vec![0; self.processes.len() * TASKS];
        for (_, file) in &self.processes {
            // The file does not exist yet.
            let text = std::fs::read_to_string(file).unwrap_or_default();
            for line in text.lines() {
                let client = line.split(' ').next().and_then(|client| client.parse::<usize>().ok());
                // The last line may be incomplete, even within its number.
                client.and_then(|client| counted.get_mut(client)).into_iter().for_each(|count| *count += 1);
            }
        }
        counted
    }

    /// Ends the processes; returns their calls.
    pub(crate) fn stop(mut self) -> Vec<ClientCall> {
        // A process ends at the end of its input.
        self.processes.iter_mut().for_each(|(child, _)| drop(child.stdin.take()));
        let mut calls = Vec::new();
        for (child, file) in &mut self.processes {
            assert!(child.ended().success(), "a client process has failed");
            let text = std::fs::read_to_string(file).unwrap();
            if let Some((_, reason)) = text.lines().find_map(|line| line.split_once(" refused ")) {
                eprintln!("the first call that was refused: {reason}");
            }
            calls.extend(text.lines().map(calls::parse));
        }
        calls
    }
}

/// Runs as a client process if the environment says so.
pub(crate) fn run_if_requested() {
    let Ok(work) = std::env::var(VARIABLE) else { return };
    let [number, keyspace, file, endpoints] = work.split('|').collect::<Vec<_>>()[..] else {
        panic!("{work}")
    };
    let endpoints: Vec<&str> = endpoints.split(',').collect();
    let stop = Arc::new(AtomicBool::new(false));
    let stop_signal = Arc::clone(&stop);
    std::thread::spawn(move || {
        drop(std::io::stdin().read(&mut [0]));
        stop_signal.store(true, Ordering::Relaxed);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(number.parse().unwrap(), keyspace, Path::new(file), &endpoints, stop));
}

async fn run(number: usize, keyspace: &str, file: &Path, endpoints: &[&str], stop: Arc<AtomicBool>) {
    let options = ClientOptions {
        deadline: GIVE_UP_AFTER,
        connect_deadline: GIVE_UP_AFTER,
        ..ClientOptions::default()
    };
    let client = Client::connect_with(endpoints, options).await.unwrap();
    let keyspace = client.keyspace(keyspace).await.unwrap();
    let (lines, mut receiver) = mpsc::channel(1024);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(one_after_the_other(
            keyspace.clone(),
            number * TASKS + task,
            lines.clone(),
            Arc::clone(&stop),
        ));
    }
    drop(lines);
    let mut file = std::io::BufWriter::new(std::fs::File::create(file).unwrap());
    while let Some(line) = receiver.recv().await {
        writeln!(file, "{line}").unwrap();
        // The test reads the file for the progress.
        file.flush().unwrap();
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

async fn one_after_the_other(
    keyspace: Keyspace,
    client: usize,
    lines: mpsc::Sender<String>,
    stop: Arc<AtomicBool>,
) {
    let process = client as u64 + 1;
    let mut draw = process * 0x9E37_79B9;
    while !stop.load(Ordering::Relaxed) {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let operation = operation(draw >> 20, calls::fresh(process));
        let invoked = calls::now();
        let end = perform(&keyspace, &operation).await;
        let line = calls::line(client, &operation, (invoked, calls::now()), &end);
        if lines.send(line).await.is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Values and elements of lists are tokens that identify their write.
fn operation(draw: u64, number: u64) -> RecordCall {
    let (kind, what, key) = (draw % 8, draw / 8 % 8, draw / 64 % KEYS);
    let (key, act) = match (kind, what) {
        (0..4, 0..4) => {
            (format!("value-{key}"), RecordAction::Insert { value: token(number), expiry: Expiry::Never })
        }
        (0..4, 4) => (format!("value-{key}"), RecordAction::Remove),
        (0..4, _) => (format!("value-{key}"), RecordAction::Lookup),
        (4..7, 0..5) => (format!("count-{key}"), RecordAction::Increment { delta: 1 }),
        (4..7, _) => (format!("count-{key}"), RecordAction::Lookup),
        (_, 0..5) => (format!("list-{key}"), RecordAction::Append { values: vec![token(number)] }),
        (_, _) => (format!("list-{key}"), RecordAction::Lookup),
    };
    RecordCall::new(key.as_bytes(), act)
}

async fn perform(keyspace: &Keyspace, operation: &RecordCall) -> OperationEnd {
    OperationEnd::of(outcome(keyspace, operation).await)
}

async fn outcome(keyspace: &Keyspace, operation: &RecordCall) -> Result<Reply, Reason> {
    let key = &*operation.key;
    let values: Vec<&[u8]> = match &operation.act {
        RecordAction::Append { values } => values.iter().map(Vec::as_slice).collect(),
        _ => Vec::new(),
    };
    let write = |change| Wire::Write(RecordWrite { key, condition: Condition::Always, change });
    let wire = match &operation.act {
        RecordAction::Insert { value, expiry } => {
            write(WriteChange::Insert(Insert { value, expiry: *expiry }))
        }
        RecordAction::Append { .. } => {
            write(WriteChange::Append(Append { values: Elements::from_slice(&values) }))
        }
        RecordAction::Increment { delta } => write(WriteChange::Increment(Increment { delta: *delta })),
        RecordAction::Remove => write(WriteChange::Remove(Remove)),
        _ => Wire::Read(RecordRead { key, query: Query::Lookup }),
    };
    match keyspace.batch(&[wire]).await.pop() {
        Some(Ok(reply)) => Ok(reply),
        Some(Err(zerohop_client::Error::Operation { reason, .. })) => Err(*reason),
        other => panic!("no outcome: {other:?}"),
    }
}
