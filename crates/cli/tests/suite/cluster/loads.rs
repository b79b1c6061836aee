//! Clients that write numbers under their keys during a test, and remember what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, spawn_blocking};
use zerohop_client::{Client, ClientOptions};

use crate::support::{GIVE_UP_AFTER, wait_for};

pub(crate) async fn connect(endpoints: &[String]) -> Client {
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    let options = ClientOptions {
        deadline: GIVE_UP_AFTER,
        connect_deadline: GIVE_UP_AFTER,
        ..ClientOptions::default()
    };
    Client::connect_with(&endpoints, options).await.unwrap()
}

/// Waits until the count is reached, while the workers of this thread continue.
pub(crate) async fn reaches(what: &str, counted: &Arc<AtomicU64>, number: u64) {
    let (what, counted) = (what.to_owned(), Arc::clone(counted));
    let wait = move || wait_for(&what, || counted.load(Ordering::Relaxed), |now| *now >= number);
    spawn_blocking(wait).await.unwrap();
}

/// Writes numbered values to its keys until the stop signal. Returns the last acknowledged number
/// of each key, and the longest time of a write.
pub(crate) async fn work(
    client: Client,
    (keyspace, worker): (&str, u64),
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
) -> (Vec<(String, u64)>, Duration) {
    let keyspace = client.keyspace(keyspace).await.unwrap();
    let mut written: Vec<(String, u64)> = (0..16).map(|key| (format!("w{worker}-k{key}"), 0)).collect();
    let (mut longest, mut number) = (Duration::ZERO, 0);
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        for (key, last) in &mut written {
            let began = Instant::now();
            keyspace.insert(key.as_str(), number.to_string().as_bytes()).await.unwrap();
            longest = longest.max(began.elapsed());
            *last = number;
        }
        rounds.store(number, Ordering::Relaxed);
    }
    (written, longest)
}

pub(crate) async fn check(client: &Client, written: &[(String, u64)]) {
    check_in("default", client, written).await;
}

pub(crate) async fn check_in(keyspace: &str, client: &Client, written: &[(String, u64)]) {
    let keyspace = client.keyspace(keyspace).await.unwrap();
    for (key, last) in written {
        let found = keyspace.lookup_bytes(key.as_str()).await.unwrap();
        let found: Option<u64> = found.map(|bytes| String::from_utf8_lossy(&bytes).parse().unwrap());
        assert_eq!(found, Some(*last), "{key}");
    }
}

/// Several clients in a thread of their own, so that the test may block meanwhile.
pub(crate) struct ClientLoad {
    stop: Arc<AtomicBool>,
    /// How often each client has written all of its keys.
    rounds: Vec<Arc<AtomicU64>>,
    thread: JoinHandle<(Vec<(String, u64)>, Duration)>,
}

impl ClientLoad {
    /// Starts this many clients, each with its own connections.
    pub(crate) fn begin(endpoints: &[String], workers: u64) -> ClientLoad {
        ClientLoad::begin_in("default", endpoints, workers)
    }

    pub(crate) fn begin_in(keyspace: &'static str, endpoints: &[String], workers: u64) -> ClientLoad {
        let stop = Arc::new(AtomicBool::new(false));
        let (stop_signal, endpoints) = (Arc::clone(&stop), endpoints.to_vec());
        let rounds: Vec<Arc<AtomicU64>> = (0..workers).map(|_| Arc::default()).collect();
        let counted = rounds.clone();
        let run = async move {
            let mut all = JoinSet::new();
            for (worker, rounds) in counted.into_iter().enumerate() {
                let client = connect(&endpoints).await;
                all.spawn(work(client, (keyspace, worker as u64), Arc::clone(&stop_signal), rounds));
            }
            let (mut written, mut longest) = (Vec::new(), Duration::ZERO);
            while let Some(done) = all.join_next().await {
                let (keys, gap) = done.unwrap();
                written.extend(keys);
                longest = longest.max(gap);
            }
            (written, longest)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = std::thread::spawn(move || runtime.block_on(run));
        ClientLoad { stop, rounds, thread }
    }

    /// Waits until each client has written all of its keys again: no earlier fault delays its
    /// writes any more.
    pub(crate) fn wait_for_progress(&self) {
        let counted = || self.rounds.iter().map(|rounds| rounds.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let before = counted();
        // The current round may have begun before, so that two more rounds are needed.
        let is_so = |now: &Vec<u64>| now.iter().zip(&before).all(|(now, before)| *now >= before + 2);
        wait_for("all clients go on", counted, is_so);
    }

    /// Stops the clients; returns the last value of each key. No write may have failed.
    pub(crate) fn end(self) -> Vec<(String, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        let (written, longest) = self.thread.join().unwrap();
        assert!(written.iter().all(|(_, last)| *last > 0));
        let numbers: u64 = written.iter().map(|(_, last)| last).sum();
        eprintln!("{numbers} writes acknowledged; the longest took {longest:?}");
        written
    }
}
