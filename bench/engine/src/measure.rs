//! Runs the phases on one subject in this process, with the same steps as `peers/common.h`.
//!
//! There is one clock read per operation, and every sample is kept, so percentiles are exact. A
//! sample has the operation, the making of its key and value, and the check of its answer. That is
//! about 50 ns more than the operation alone, equal for all, and printed as `harness_ns`.

use std::hint::black_box;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::failure::Failure;
use crate::reading::{Phase, Run};
use crate::subjects::{Setup, Subject};
use crate::workload::{Draws, Records, VALUE_BYTES, below, shuffle};

/// Records checked again, untimed, after a phase that changed them.
const SPOT_CHECKS: usize = 1000;

/// Inserts, looks up, overwrites, optionally mixes, removes; checks every answer.
pub(crate) fn run<S: Subject>(setup: &Setup) -> Result<Run, Failure> {
    let records = Records { seed: setup.seed };
    let count = u32::try_from(setup.records)
        .map_err(|_| Failure::Usage(format!("{} records are too many", setup.records)))?;
    // The harness's memory is touched before the memory of the process is first read.
    let mut order: Vec<u32> = (0..count).collect();
    let mut versions = vec![1u8; if setup.mixed { count as usize } else { 0 }];
    let mut samples = vec![1u32; count as usize];
    let harness = timed(&mut samples, |at| {
        black_box(&records.key(at as u64));
        black_box(&records.value(at as u64, 0));
        Ok(())
    })?;

    let base = Memory::now()?;
    let mut subject = S::open(setup)?;
    let mut bench = Bench { setup, base, samples, phases: Vec::new() };

    bench.phase("insert", &mut subject, |subject, at| {
        subject.insert(&records.key(at as u64), &records.value(at as u64, 0))
    })?;
    shuffle(&mut order, setup.seed.wrapping_add(1));
    bench.phase("lookup", &mut subject, |subject, at| {
        expect(subject, &records, u64::from(order[at]), Some(0))
    })?;
    shuffle(&mut order, setup.seed.wrapping_add(2));
    bench.phase("overwrite", &mut subject, |subject, at| {
        let index = u64::from(order[at]);
        subject.overwrite(&records.key(index), &records.value(index, 1))
    })?;
    for index in order.iter().take(SPOT_CHECKS) {
        expect(&mut subject, &records, u64::from(*index), Some(1))?;
    }
    if setup.mixed {
        // Half lookups, half overwrites, of uniformly drawn records.
        let mut draws = Draws::new(setup.seed.wrapping_add(3));
        bench.phase("mixed", &mut subject, |subject, _| {
            let draw = draws.next();
            let index = below(draw, u64::from(count));
            let version = &mut versions[index as usize];
            if draw & 1 == 1 {
                return expect(subject, &records, index, Some(*version));
            }
            *version = version.wrapping_add(1);
            subject.overwrite(&records.key(index), &records.value(index, *version))
        })?;
    }
    shuffle(&mut order, setup.seed.wrapping_add(4));
    bench.phase("remove", &mut subject, |subject, at| subject.remove(&records.key(u64::from(order[at]))))?;
    for index in order.iter().take(SPOT_CHECKS) {
        expect(&mut subject, &records, u64::from(*index), None)?;
    }
    subject.close()?;

    Ok(Run {
        subject: S::NAME.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        mode: S::MODE.into(),
        crash_safe: S::CRASH_SAFE,
        records: setup.records,
        partitions: setup.partitions,
        harness_ns: harness.as_secs_f64() * 1e9 / f64::from(count),
        phases: bench.phases,
    })
}

struct Bench<'a> {
    setup: &'a Setup,
    base: Memory,
    /// Nanoseconds per operation, saturating at 4.29 s.
    samples: Vec<u32>,
    phases: Vec<Phase>,
}

impl Bench<'_> {
    /// Calls `each` for every operation of the phase, timed; then settles, timed separately; then
    /// reads the sizes.
    fn phase<S: Subject>(
        &mut self,
        name: &str,
        subject: &mut S,
        mut each: impl FnMut(&mut S, usize) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let cpu = cpu_time();
        let took = timed(&mut self.samples, |at| each(subject, at))?;
        let cpu_worked = cpu_time();
        let start = now();
        subject.finish_phase()?;
        let settling = now() - start;
        let cpu_settled = cpu_time();

        let memory = Memory::now()?;
        self.phases.push(Phase {
            name: name.into(),
            ops: self.samples.len() as u64,
            seconds: took.as_secs_f64(),
            settle_seconds: settling.as_secs_f64(),
            longest_ns: self.samples.iter().copied().max().unwrap_or(0),
            p50_ns: percentile(&mut self.samples, 0.5),
            p99_ns: percentile(&mut self.samples, 0.99),
            p999_ns: percentile(&mut self.samples, 0.999),
            cpu_seconds: (cpu_worked - cpu).as_secs_f64(),
            settle_cpu_seconds: (cpu_settled - cpu_worked).as_secs_f64(),
            disk_bytes: disk_bytes(&self.setup.dir)?,
            rss_bytes: memory.rss.saturating_sub(self.base.rss),
            anonymous_bytes: memory.anonymous.saturating_sub(self.base.anonymous),
            own_memory_bytes: subject.memory_bytes(),
        });
        Ok(())
    }
}

/// Looks a record up and checks the answer.
pub(crate) fn expect<S: Subject>(
    subject: &mut S,
    records: &Records,
    index: u64,
    version: Option<u8>,
) -> Result<(), Failure> {
    let mut found = [0; VALUE_BYTES];
    let present = subject.lookup(&records.key(index), &mut found)?;
    match version {
        Some(_) if !present => Err(Failure::WrongAnswer { index, what: "is missing" }),
        Some(version) if found != records.value(index, version) => {
            Err(Failure::WrongAnswer { index, what: "has a wrong value" })
        }
        None if present => Err(Failure::WrongAnswer { index, what: "is there after its removal" }),
        _ => Ok(()),
    }
}

/// Calls `each` for every index of `samples` and stores its time.
pub(crate) fn timed(
    samples: &mut [u32],
    mut each: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<Duration, Failure> {
    let start = now();
    let mut last = start;
    for (at, sample) in samples.iter_mut().enumerate() {
        each(at)?;
        let now = now();
        *sample = u32::try_from((now - last).as_nanos()).unwrap_or(u32::MAX);
        last = now;
    }
    Ok(last - start)
}

/// Nearest rank; reorders the samples.
pub(crate) fn percentile(samples: &mut [u32], share: f64) -> u32 {
    if samples.is_empty() {
        return 0;
    }
    let rank = (share * samples.len() as f64).ceil() as usize;
    let place = rank.clamp(1, samples.len()) - 1;
    *samples.select_nth_unstable(place).1
}

#[expect(clippy::disallowed_methods, reason = "measuring time is what this program is for")]
#[inline]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// CPU time of all threads of this process.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

struct Memory {
    rss: u64,
    anonymous: u64,
}

impl Memory {
    fn now() -> Result<Memory, Failure> {
        let path = Path::new("/proc/self/status");
        let status = std::fs::read_to_string(path).map_err(Failure::io("reading", path))?;
        let field = |name: &str| {
            let kibibytes =
                status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
            kibibytes
                .and_then(|text| text.parse::<u64>().ok())
                .map(|kibibytes| kibibytes * 1024)
                .ok_or_else(|| Failure::Store(format!("{} has no line {name}", path.display())))
        };
        Ok(Memory { rss: field("VmRSS:")?, anonymous: field("RssAnon:")? })
    }
}

/// The size of the folder: allocated blocks, so that holes in sparse files cost nothing.
pub(crate) fn disk_bytes(dir: &Path) -> Result<u64, Failure> {
    let mut total = 0;
    for entry in std::fs::read_dir(dir).map_err(Failure::io("listing", dir))? {
        let path = entry.map_err(Failure::io("listing", dir))?.path();
        let metadata = match std::fs::symlink_metadata(&path) {
            // A store may still delete files in the background.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            other => other.map_err(Failure::io("looking at", &path))?,
        };
        total += metadata.blocks() * 512;
        if metadata.is_dir() {
            total += disk_bytes(&path)?;
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash_safety::CrashSafe;
    use crate::workload::{Key, Value};
    use std::collections::BTreeMap;

    /// The fault of the store below.
    #[derive(Clone, Copy, PartialEq)]
    enum StoreFault {
        Nothing,
        ForgetsSome,
        KeepsOldValues,
        NeverRemoves,
    }

    struct Store<const FLAW: usize> {
        records: BTreeMap<Key, Value>,
    }

    const FLAWS: [StoreFault; 4] =
        [StoreFault::Nothing, StoreFault::ForgetsSome, StoreFault::KeepsOldValues, StoreFault::NeverRemoves];

    impl<const FLAW: usize> Subject for Store<FLAW> {
        const NAME: &'static str = "test";
        const MODE: &'static str = "in memory";
        const CRASH_SAFE: CrashSafe = CrashSafe::None;

        fn open(_: &Setup) -> Result<Self, Failure> {
            Ok(Store { records: BTreeMap::new() })
        }
        fn insert(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
            if FLAWS[FLAW] != StoreFault::ForgetsSome || self.records.len() != 99 {
                self.records.insert(*key, *value);
            }
            Ok(())
        }
        fn lookup(&mut self, key: &Key, into: &mut Value) -> Result<bool, Failure> {
            Ok(self.records.get(key).map(|value| *into = *value).is_some())
        }
        fn overwrite(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
            if FLAWS[FLAW] != StoreFault::KeepsOldValues {
                self.records.insert(*key, *value);
            }
            Ok(())
        }
        fn remove(&mut self, key: &Key) -> Result<(), Failure> {
            if FLAWS[FLAW] != StoreFault::NeverRemoves {
                self.records.remove(key);
            }
            Ok(())
        }
        fn finish_phase(&mut self) -> Result<(), Failure> {
            Ok(())
        }
        fn memory_bytes(&self) -> Option<u64> {
            Some(self.records.len() as u64)
        }
        fn close(self) -> Result<(), Failure> {
            Ok(())
        }
    }

    fn run_with<const FLAW: usize>() -> Result<Run, Failure> {
        let dir = tempfile::tempdir().unwrap();
        run::<Store<FLAW>>(&Setup {
            dir: dir.path().into(),
            records: 500,
            partitions: 1,
            seed: 3,
            mixed: true,
        })
    }

    #[test]
    fn every_phase_is_read() {
        let run = run_with::<0>().unwrap();
        let names: Vec<&str> = run.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["insert", "lookup", "overwrite", "mixed", "remove"]);
        for phase in &run.phases {
            assert_eq!(phase.ops, 500);
            assert!(phase.seconds > 0.0 && phase.p50_ns > 0);
            assert!(phase.p50_ns <= phase.p99_ns && phase.p99_ns <= phase.p999_ns);
            assert!(phase.p999_ns <= phase.longest_ns);
        }
        assert_eq!(run.phases[0].own_memory_bytes, Some(500));
        assert_eq!(run.phases[4].own_memory_bytes, Some(0));
    }

    #[test]
    fn store_with_wrong_answers_fails_measurement() {
        let what = |result: Result<Run, Failure>| match result {
            Err(Failure::WrongAnswer { what, .. }) => what,
            _ => "passed",
        };
        assert_eq!(what(run_with::<1>()), "is missing");
        assert_eq!(what(run_with::<2>()), "has a wrong value");
        assert_eq!(what(run_with::<3>()), "is there after its removal");
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut samples: Vec<u32> = (1..=1000).rev().collect();
        assert_eq!(percentile(&mut samples, 0.5), 500);
        assert_eq!(percentile(&mut samples, 0.99), 990);
        assert_eq!(percentile(&mut samples, 0.999), 999);
        assert_eq!(percentile(&mut [7], 0.999), 7);
    }

    #[test]
    fn disk_use_counts_blocks_and_not_holes() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let file = tempfile::NamedTempFile::new_in(&inner).unwrap();
        file.as_file().set_len(1 << 30).unwrap();
        assert!(disk_bytes(dir.path()).unwrap() < 1 << 20);
    }
}
