//! The present slowness of the machine, measured by the same work as a node's: small writes and
//! syncs.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pause between two rounds.
const PAUSE: Duration = Duration::from_millis(20);

/// The period that is remembered: longer than any node here lives between two kills.
const MEMORY: Duration = Duration::from_secs(10);

/// The recent answer times of the node.
#[derive(Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<RecentAnswers>>);

#[derive(Default)]
struct RecentAnswers {
    done: VecDeque<(Instant, Duration)>,
    count: u64,
    /// The times of the unanswered requests, by worker.
    under_way: BTreeMap<u64, Instant>,
}

impl Answers {
    pub(crate) fn record_request(&self, who: u64) {
        self.0.lock().unwrap().under_way.insert(who, Instant::now());
    }

    pub(crate) fn answered(&self, who: u64) {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap();
        // A request from before a kill takes as long as the node is down, so it is not counted.
        let Some(started) = all.under_way.remove(&who) else { return };
        all.count += 1;
        all.done.push_back((now, now.duration_since(started)));
        drop_old(&mut all.done, now);
    }

    /// The node is killed: the times of requests in flight no longer measure its slowness.
    pub(crate) fn killed(&self) {
        self.0.lock().unwrap().under_way.clear();
    }

    /// The number of answers, without those to requests from before a kill.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().unwrap().count
    }

    /// The slowest recent answer, including requests in flight.
    pub(crate) fn slowest(&self) -> Duration {
        let all = self.0.lock().unwrap();
        let under_way = all.under_way.values().map(Instant::elapsed);
        under_way.chain(all.done.iter().map(|(_, took)| *took)).max().unwrap_or_default()
    }
}

fn drop_old(done: &mut VecDeque<(Instant, Duration)>, now: Instant) {
    while done.front().is_some_and(|(at, _)| now.duration_since(*at) > MEMORY) {
        done.pop_front();
    }
}

/// A thread that writes and syncs, and records how long that took.
pub(crate) struct DiskProbe {
    rounds: Arc<Mutex<Rounds>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Rounds {
    /// The end of each round, and its duration with the pause before it, minus the nominal pause.
    done: VecDeque<(Instant, Duration)>,
    began: Instant,
}

impl DiskProbe {
    pub(crate) fn start(folder: &Path) -> DiskProbe {
        let file = File::create(folder.join("probe")).unwrap();
        let rounds = Arc::new(Mutex::new(Rounds { done: VecDeque::new(), began: Instant::now() }));
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (rounds, is_over) = (rounds.clone(), is_over.clone());
            move || run_rounds(file, &rounds, &is_over)
        });
        DiskProbe { rounds, is_over, thread: Some(thread) }
    }

    /// The slowest recent round, including the present one.
    pub(crate) fn slowest(&self) -> Duration {
        let rounds = self.rounds.lock().unwrap();
        let under_way = rounds.began.elapsed().saturating_sub(PAUSE);
        rounds.done.iter().map(|(_, took)| *took).fold(under_way, Duration::max)
    }
}

impl Drop for DiskProbe {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn run_rounds(mut file: File, rounds: &Mutex<Rounds>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        file.write_all(&[7; 512]).unwrap();
        file.sync_data().unwrap();
        let now = Instant::now();
        let mut rounds = rounds.lock().unwrap();
        let took = now.duration_since(rounds.began).saturating_sub(PAUSE);
        rounds.done.push_back((now, took));
        drop_old(&mut rounds.done, now);
        rounds.began = now;
    }
}
