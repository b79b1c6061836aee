//! How slow the machine is at the moment, as one sees who does what the node does: writes a little and syncs it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A round follows the last one after so long.
const PAUSE: Duration = Duration::from_millis(20);

/// How far back is looked: longer than any node here lives between two kills.
const MEMORY: Duration = Duration::from_secs(10);

/// A thread that writes and syncs, and takes down how long that took.
pub(crate) struct Pulse {
    rounds: Arc<Mutex<Rounds>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Rounds {
    /// When a round ended, and how long it took with the pause before it, beyond that pause.
    done: VecDeque<(Instant, Duration)>,
    began: Instant,
}

impl Pulse {
    pub(crate) fn start(folder: &Path) -> Pulse {
        let file = File::create(folder.join("pulse")).unwrap();
        let rounds = Arc::new(Mutex::new(Rounds { done: VecDeque::new(), began: Instant::now() }));
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (rounds, is_over) = (rounds.clone(), is_over.clone());
            move || beat(file, &rounds, &is_over)
        });
        Pulse { rounds, is_over, thread: Some(thread) }
    }

    /// The slowest round of late, the one under way included.
    pub(crate) fn slowest(&self) -> Duration {
        let rounds = self.rounds.lock().unwrap();
        let under_way = rounds.began.elapsed().saturating_sub(PAUSE);
        rounds.done.iter().map(|(_, took)| *took).fold(under_way, Duration::max)
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn beat(mut file: File, rounds: &Mutex<Rounds>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        file.write_all(&[7; 512]).unwrap();
        file.sync_data().unwrap();
        let now = Instant::now();
        let mut rounds = rounds.lock().unwrap();
        let took = now.duration_since(rounds.began).saturating_sub(PAUSE);
        rounds.done.push_back((now, took));
        while rounds.done.front().is_some_and(|(at, _)| now.duration_since(*at) > MEMORY) {
            rounds.done.pop_front();
        }
        rounds.began = now;
    }
}
