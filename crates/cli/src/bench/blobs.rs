//! `zerohop bench blob`: writes whole blobs, overwrites and reads parts of them, and reads all of
//! them whole; every byte is checked.
//!
//! One thread drives all clients, each with one operation in flight. Each part contains its
//! position and whether it was overwritten, so that a misplaced or stale part is detected.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerohop_client::Keyspace;
use zerohop_system::clock::{HybridClock, Stopwatch};
use zerohop_wire::plurals::counted;

use super::histogram::Histogram;
use super::limits::{
    BLOB_BYTES_MAX, BLOB_CLIENTS_MAX, BLOB_PART_BYTES_MIN, BLOB_PARTS_MAX, BLOBS_BYTES_MAX, OPERATIONS_MAX,
};
use super::phase::PhaseFailure;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity;
use crate::common::runtime::StopSignals;
use crate::common::target::ClusterTarget;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct BlobBenchArguments {
    /// Number of clients. Each has its own connection to each instance, and one operation in flight.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=BLOB_CLIENTS_MAX))]
    clients: u32,
    /// Number of blobs. All of them exist at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=OPERATIONS_MAX))]
    blobs: u64,
    /// Size of each blob, at most 64MiB.
    #[arg(long, value_name = "BYTES", default_value = "4MiB", value_parser = quantity::bytes)]
    bytes: u64,
    /// Size of a part, at least 16 bytes.
    #[arg(long, value_name = "BYTES", default_value = "4KiB", value_parser = quantity::bytes)]
    part: u64,
    /// Number of parts that all clients together overwrite, and number of parts that they read.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=OPERATIONS_MAX))]
    ops: u64,
    /// The keyspace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub(super) keyspace: String,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct BlobBenchReport {
    /// Whether every byte was correct.
    ok: bool,
    clients: u32,
    blobs: u64,
    blob_bytes: u64,
    part_bytes: u64,
    keyspace: String,
    durability: String,
    phases: Vec<BlobPhaseReport>,
    /// The first wrong answer.
    wrong: Option<String>,
}

/// One phase. Latencies are in microseconds, as a client sees them; MB are 10^6 bytes.
#[derive(Debug, Serialize)]
struct BlobPhaseReport {
    operation: &'static str,
    ops: u64,
    seconds: f64,
    ops_per_second: f64,
    mb_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlobPhase {
    /// Each blob is created and written whole.
    Write,
    /// Each blob is overwritten whole, with the same contents.
    Overwrite,
    WritePart,
    ReadPart,
    Read,
    Remove,
}

/// State shared by all clients of a run.
struct BlobRun {
    tag: String,
    seed: u64,
    blobs: u64,
    blob_bytes: u64,
    part_bytes: u64,
    ops: u64,
    next: AtomicU64,
    interrupted: AtomicBool,
    /// For each part of each blob, whether it was overwritten.
    changed: Vec<AtomicBool>,
}

pub(super) async fn run(arguments: BlobBenchArguments) -> Result<CommandEnding, CommandError> {
    let BlobBenchArguments { clients, blobs, bytes, part, ops, .. } = arguments;
    if !(1..=BLOB_BYTES_MAX).contains(&bytes) || blobs.saturating_mul(bytes) > BLOBS_BYTES_MAX {
        let what = "--bytes is at most 64MiB, and all blobs together 64GiB";
        return Err(CommandError::Usage(what.to_owned()));
    }
    if !(BLOB_PART_BYTES_MIN..=bytes).contains(&part) || u64::from(clients) * bytes > BLOBS_BYTES_MAX / 64 {
        let what =
            "--part is at least 16 bytes and at most --bytes, and --clients times --bytes at most 1GiB";
        return Err(CommandError::Usage(what.to_owned()));
    }
    let parts = blobs * (bytes / part);
    if parts > BLOB_PARTS_MAX {
        return Err(CommandError::Usage(format!(
            "{parts} parts are more than {BLOB_PARTS_MAX}: give a longer --part"
        )));
    }
    let mut keyspaces = Vec::new();
    for _ in 0..clients {
        keyspaces.push(arguments.target.keyspace(&arguments.keyspace).await?);
    }
    let seed = HybridClock::default().tick().0 ^ (u64::from(std::process::id()) << 40);
    let run = Arc::new(BlobRun {
        tag: format!("bench-blob-{seed:016x}-"),
        seed,
        blobs,
        blob_bytes: bytes,
        part_bytes: part,
        ops,
        next: AtomicU64::new(0),
        interrupted: AtomicBool::new(false),
        changed: (0..parts).map(|_| AtomicBool::new(false)).collect(),
    });
    let mut signals = StopSignals::new()?;
    let waiting = Arc::clone(&run);
    let signal = tokio::spawn(async move {
        signals.received().await;
        waiting.interrupted.store(true, Ordering::Relaxed);
    });
    let mut phases = Vec::new();
    let mut outcome = Ok(());
    for phase in
        [BlobPhase::Write, BlobPhase::Overwrite, BlobPhase::WritePart, BlobPhase::ReadPart, BlobPhase::Read]
    {
        match run.measure(phase, &keyspaces).await {
            Ok(report) => phases.push(report),
            Err(trouble) => outcome = Err(trouble),
        }
        if outcome.is_err() || run.interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    signal.abort();
    let is_interrupted = run.interrupted.swap(false, Ordering::Relaxed);
    // Runs after success and failure alike. No write is in flight by now that could create a blob
    // again.
    let removed = run.measure(BlobPhase::Remove, &keyspaces).await;
    let wrong = match outcome {
        Err(PhaseFailure::Failed(error)) => return Err(error),
        Err(PhaseFailure::Wrong(what)) => Some(what),
        Ok(()) => None,
    };
    match removed {
        Ok(report) => phases.push(report),
        Err(PhaseFailure::Failed(error)) => return Err(error),
        Err(PhaseFailure::Wrong(what)) => return Err(CommandError::Refused(what)),
    }
    if is_interrupted && wrong.is_none() {
        return Ok(CommandEnding::Interrupted);
    }
    let report = BlobBenchReport {
        ok: wrong.is_none(),
        clients,
        blobs,
        blob_bytes: bytes,
        part_bytes: part,
        keyspace: arguments.keyspace,
        durability: keyspaces.first().map(|one| one.config().durability.to_string()).unwrap_or_default(),
        phases,
        wrong,
    };
    match arguments.json {
        true => output::json(&report)?,
        false => output::result(&report.to_string())?,
    }
    Ok(if report.ok { CommandEnding::Done } else { CommandEnding::No })
}

impl BlobPhase {
    fn name(self) -> &'static str {
        match self {
            BlobPhase::Write => "write",
            BlobPhase::Overwrite => "overwrite",
            BlobPhase::WritePart => "write part",
            BlobPhase::ReadPart => "read part",
            BlobPhase::Read => "read",
            BlobPhase::Remove => "remove",
        }
    }
}

impl BlobRun {
    async fn measure(
        self: &Arc<Self>,
        phase: BlobPhase,
        clients: &[Keyspace],
    ) -> Result<BlobPhaseReport, PhaseFailure> {
        self.next.store(0, Ordering::Relaxed);
        let stopwatch = Stopwatch::start();
        let mut tasks = JoinSet::new();
        for keyspace in clients {
            tasks.spawn(run_client(Arc::clone(self), phase, keyspace.clone()));
        }
        let (mut latencies, mut trouble) = (Histogram::new(), None);
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok(Ok(one)) => latencies.add(&one),
                Ok(Err(one)) => {
                    // Makes the other clients end too.
                    self.next.store(self.count(phase), Ordering::Relaxed);
                    trouble.get_or_insert(one);
                }
                Err(fault) => std::panic::resume_unwind(fault.into_panic()),
            }
        }
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        let seconds = stopwatch.elapsed().max(Duration::from_nanos(1)).as_secs_f64();
        let ops_per_second = latencies.count() as f64 / seconds;
        let bytes = match phase {
            BlobPhase::Write | BlobPhase::Overwrite | BlobPhase::Read => self.blob_bytes,
            BlobPhase::WritePart | BlobPhase::ReadPart => self.part_bytes,
            BlobPhase::Remove => 0,
        };
        Ok(BlobPhaseReport {
            operation: phase.name(),
            ops: latencies.count(),
            seconds,
            ops_per_second,
            mb_per_second: ops_per_second * bytes as f64 / 1e6,
            p50_us: latencies.percentile_us(0.5),
            p99_us: latencies.percentile_us(0.99),
            max_us: latencies.max_us(),
        })
    }

    fn count(&self, phase: BlobPhase) -> u64 {
        if matches!(phase, BlobPhase::WritePart | BlobPhase::ReadPart) { self.ops } else { self.blobs }
    }

    fn parts_of_one(&self) -> u64 {
        self.blob_bytes / self.part_bytes
    }

    /// The part for this number, counted through all blobs. Reads use other parts than writes.
    fn part(&self, phase: BlobPhase, number: u64) -> u64 {
        let seed = self.seed ^ u64::from(phase == BlobPhase::ReadPart);
        xxh3_64_with_seed(&number.to_le_bytes(), seed) % (self.blobs * self.parts_of_one())
    }

    /// The contents of a part: its position and whether it was overwritten, repeated.
    fn fill_part(&self, part: u64, is_changed: bool, into: &mut [u8]) {
        let own = [part.wrapping_mul(2) + u64::from(is_changed), self.seed];
        let mut word = [0; 16];
        word[..8].copy_from_slice(&own[0].to_le_bytes());
        word[8..].copy_from_slice(&own[1].to_le_bytes());
        for piece in into.chunks_mut(16) {
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }

    /// A whole blob with its expected contents; the bytes behind the last part are zeros.
    fn expected_blob(&self, blob: u64, into: &mut Vec<u8>) {
        into.clear();
        into.resize(self.blob_bytes as usize, 0);
        let first = blob * self.parts_of_one();
        for (part, bytes) in (first..).zip(into.chunks_exact_mut(self.part_bytes as usize)) {
            let is_changed =
                self.changed.get(part as usize).is_some_and(|changed| changed.load(Ordering::Relaxed));
            self.fill_part(part, is_changed, bytes);
        }
    }
}

/// One client: takes numbers until none is left.
async fn run_client(
    run: Arc<BlobRun>,
    phase: BlobPhase,
    keyspace: Keyspace,
) -> Result<Histogram, PhaseFailure> {
    let (mut latencies, mut bytes) = (Histogram::new(), Vec::new());
    loop {
        let number = run.next.fetch_add(1, Ordering::Relaxed);
        if number >= run.count(phase) || run.interrupted.load(Ordering::Relaxed) {
            return Ok(latencies);
        }
        let (blob, part) = match phase {
            BlobPhase::WritePart | BlobPhase::ReadPart => {
                let part = run.part(phase, number);
                (part / run.parts_of_one(), part)
            }
            _ => (number, number * run.parts_of_one()),
        };
        let at = part % run.parts_of_one() * run.part_bytes;
        match phase {
            BlobPhase::Write | BlobPhase::Overwrite | BlobPhase::Read => run.expected_blob(blob, &mut bytes),
            BlobPhase::WritePart | BlobPhase::ReadPart => {
                let is_changed = phase == BlobPhase::WritePart
                    || run.changed.get(part as usize).is_some_and(|changed| changed.load(Ordering::Relaxed));
                bytes.resize(run.part_bytes as usize, 0);
                run.fill_part(part, is_changed, &mut bytes);
            }
            BlobPhase::Remove => {}
        }
        let name = format!("{}{blob}", run.tag);
        let handle = keyspace.blob(name.clone());
        let stopwatch = Stopwatch::start();
        let read = match phase {
            BlobPhase::Write => {
                handle.create(b"").await?;
                handle.write_at(0, &bytes).await?;
                None
            }
            BlobPhase::Overwrite | BlobPhase::WritePart => {
                handle.write_at(at, &bytes).await?;
                None
            }
            BlobPhase::ReadPart | BlobPhase::Read => {
                Some(handle.read_at(at, bytes.len() as u64).await?.read_to_end().await?)
            }
            BlobPhase::Remove => {
                handle.delete().await?;
                None
            }
        };
        latencies.record(stopwatch.elapsed());
        if phase == BlobPhase::WritePart
            && let Some(changed) = run.changed.get(part as usize)
        {
            changed.store(true, Ordering::Relaxed);
        }
        if read.is_some_and(|read| read != bytes) {
            let what = format!("blob \"{name}\" from byte {at} on: something else was read than was written");
            return Err(PhaseFailure::Wrong(what));
        }
    }
}

impl fmt::Display for BlobBenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlobBenchReport { clients, blobs, blob_bytes, part_bytes, keyspace, durability, .. } = self;
        writeln!(
            f,
            "{}, one thread; {} of {}, parts of {part_bytes}; keyspace {keyspace} ({durability})\n",
            counted(*clients, "client"),
            counted(*blobs, "blob"),
            counted(*blob_bytes, "byte")
        )?;
        writeln!(
            f,
            "{:<10} {:>10} {:>8} {:>10} {:>8} {:>10} {:>10} {:>10}",
            "", "operations", "seconds", "per second", "MB/s", "p50 us", "p99 us", "max us"
        )?;
        for phase in &self.phases {
            writeln!(
                f,
                "{:<10} {:>10} {:>8.2} {:>10.0} {:>8.1} {:>10.1} {:>10.1} {:>10.1}",
                phase.operation,
                phase.ops,
                phase.seconds,
                phase.ops_per_second,
                phase.mb_per_second,
                phase.p50_us,
                phase.p99_us,
                phase.max_us
            )?;
        }
        match &self.wrong {
            None => write!(f, "\nEvery byte was right, and no blob is left behind."),
            Some(wrong) => write!(f, "\nWRONG: {wrong}. Please report this with the lines above."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_encode_position_and_overwrite() {
        let run = BlobRun {
            tag: String::new(),
            seed: 7,
            blobs: 3,
            blob_bytes: 100,
            part_bytes: 32,
            ops: 1,
            next: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
            changed: (0..9).map(|_| AtomicBool::new(false)).collect(),
        };
        let mut all = Vec::new();
        for blob in 0..3 {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            run.expected_blob(blob, &mut before);
            run.changed[blob as usize * 3 + 1].store(true, Ordering::Relaxed);
            run.expected_blob(blob, &mut after);
            assert_eq!((before.len(), &before[96..]), (100, &[0; 4][..]));
            assert!(before[..32] == after[..32] && before[64..] == after[64..]);
            assert_ne!(before[32..64], after[32..64]);
            all.extend(before.chunks_exact(32).chain(after.chunks_exact(32)).map(<[u8]>::to_vec));
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 12, "three parts of each blob, and one written over");
    }
}
