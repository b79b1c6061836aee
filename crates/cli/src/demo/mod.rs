//! `zerohop demo`: the engine's whole job on real files, with a kill in the middle.
//!
//! ```text
//!   source ──load──> store 1 ──close, open──> check                    every file right
//!   source ──child: load──> store 2 ──SIGKILL──> recover ──> check     every acknowledged file right,
//!                │                                                     and no file there that is wrong
//!                └── stored … ──> parent (kill)
//! ```

mod check;
mod child;
mod error;
mod kill;
mod limits;
mod load;
mod progress;
mod record;
mod report;
mod source;

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zerohop::{Durability, Options, Store};
use zerohop_node::clock::Stopwatch;

pub(crate) use self::child::run_child;
pub(crate) use self::error::DemoError;

use self::load::{Listener, Stored};
use self::progress::Progress;
use self::report::{Report, rate};
use self::source::Source;
use crate::arguments::DemoArguments;
use crate::common::ending::{CommandError, Ending};
use crate::output;

/// The folder of the first store in the work folder.
const FIRST_FOLDER: &str = "first";

/// Runs the demo and prints its report.
pub(crate) fn run(arguments: &DemoArguments) -> Result<Ending, CommandError> {
    let dir = arguments.dir.clone().unwrap_or_else(default_folder);
    let work = Work::make(arguments)?;
    let source = Source::find(&dir, work.path())?;
    let mut report = Report {
        folder: source::shown(dir.as_os_str().as_encoded_bytes()),
        skipped_folders: source.skipped_folders,
        skipped_others: source.skipped_others,
        unreadable: source.unreadable,
        ..Report::default()
    };
    store_and_read(&source, work.path(), &mut report)?;
    let kill_after = arguments.kill_after.unwrap_or(report.files / 2).max(1);
    kill_and_recover(&dir, &source, work.path(), kill_after, &mut report)?;
    report.judge();
    report.data = work.end(report.ok)?;
    output::result(&if arguments.json { as_json(&report) } else { report.to_string() })?;
    Ok(if report.ok { Ending::Done } else { Ending::No })
}

/// The options of both stores: each file is acknowledged when it would survive a power cut.
fn store_options() -> Options {
    Options { durability: Durability::Sync, ..Options::default() }
}

fn store_and_read(source: &Source, work: &Path, report: &mut Report) -> Result<(), DemoError> {
    let opening = || Store::open_with(work.join(FIRST_FOLDER), &store_options());
    let store = opening().map_err(DemoError::store("opening the store"))?;
    if let Some(warning) = store.warning() {
        output::problem(warning);
    }
    let progress = Progress::default();
    let stopwatch = Stopwatch::start();
    let total = source.files.len();
    let loaded = progress.watch("storing", total, || load::load(&store, source, &progress))?;
    let took = stopwatch.elapsed();
    report.files = loaded.files.len() as u64;
    report.bytes = loaded.files.iter().map(|file| file.bytes).sum();
    report.unreadable += loaded.unreadable;
    report.write_seconds = took.as_secs_f64();
    report.write_mb_per_second = rate(report.bytes, took);
    store.close().map_err(DemoError::store("closing the store"))?;

    let store = opening().map_err(DemoError::store("opening the store again"))?;
    report.reopen_seconds = store.recovery().took.as_secs_f64();
    let stats = store.stats().map_err(DemoError::store("asking the store"))?;
    (report.instances, report.partitions) = (stats.instances, stats.partitions);
    let progress = Progress::default();
    let stopwatch = Stopwatch::start();
    let checked =
        progress.watch("reading", loaded.files.len(), || check::check(&store, &loaded.files, &progress));
    let took = stopwatch.elapsed();
    report.read_seconds = took.as_secs_f64();
    report.read_mb_per_second = rate(checked.bytes, took);
    report.read_whole = checked.whole;
    report.take_faults(checked);
    report.take_damage(&store)?;
    store.close().map_err(DemoError::store("closing the store"))
}

fn kill_and_recover(
    dir: &Path,
    source: &Source,
    work: &Path,
    kill_after: u64,
    report: &mut Report,
) -> Result<(), DemoError> {
    let list = work.join(child::LIST_FILE);
    source
        .write_list(&list)
        .map_err(|error| DemoError::system("writing the list of files", &list, &error))?;
    let progress = Progress::default();
    let killed = progress.watch("storing, to be killed", source.files.len(), || {
        kill::run_and_kill(dir, work, kill_after, &progress)
    })?;
    report.killed = killed.by_sigkill;
    report.acknowledged = killed.acknowledged.len() as u64;
    report.acknowledged_bytes = killed.acknowledged.iter().map(|file| file.bytes).sum();

    let store = Store::open_with(work.join(child::FOLDER), &store_options())
        .map_err(DemoError::store("recovering what the killed process left"))?;
    let recovery = store.recovery();
    report.recovery_seconds = recovery.took.as_secs_f64();
    report.recovered_entries = recovery.from_checkpoint + recovery.from_log + recovery.from_journal;
    report.torn_bytes = recovery.torn_bytes;
    let progress = Progress::default();
    let checked = progress.watch("verifying", killed.acknowledged.len(), || {
        check::check(&store, &killed.acknowledged, &progress)
    });
    report.verified = checked.whole;
    report.take_faults(checked);
    let others = check::check_others(&store, &killed.acknowledged, &source.files)
        .map_err(DemoError::store("walking over what the killed process left"))?;
    report.unacknowledged_whole = others.checked.whole;
    report.leftover_parts = others.leftover_parts;
    report.take_faults(others.checked);
    report.take_damage(&store)?;
    store.close().map_err(DemoError::store("closing the store"))
}

impl Report {
    fn take_faults(&mut self, checked: check::Checked) {
        self.faulty += checked.faulty;
        self.faults.extend(checked.faults);
    }

    fn take_damage(&mut self, store: &Store) -> Result<(), DemoError> {
        let damage = store.damage().map_err(DemoError::store("asking for damage"))?;
        self.damage.extend(damage.iter().map(ToString::to_string));
        Ok(())
    }
}

/// In the parent, progress is all that there is to tell.
impl Listener for Progress {
    fn stored(&self, files: &[Stored]) {
        self.add(files.len() as u64, files.iter().map(|file| file.bytes).sum());
    }

    fn stored_parts(&self) {}
}

/// Where the demo's data is.
enum Work {
    /// Removed at the end.
    Temporary(TempDir),
    /// Left where it is.
    Kept(PathBuf),
}

impl Work {
    fn make(arguments: &DemoArguments) -> Result<Self, DemoError> {
        let Some(path) = &arguments.data else {
            let folder = tempfile::Builder::new().prefix("zerohop-demo-").tempdir();
            let folder = folder.map_err(|error| {
                DemoError::system("making a temporary folder", &std::env::temp_dir(), &error)
            })?;
            return Ok(if arguments.keep { Work::Kept(folder.keep()) } else { Work::Temporary(folder) });
        };
        std::fs::create_dir_all(path)
            .map_err(|error| DemoError::system("making the folder", path, &error))?;
        let mut names =
            std::fs::read_dir(path).map_err(|error| DemoError::system("reading the folder", path, &error))?;
        match names.next() {
            None => Ok(Work::Kept(path.clone())),
            Some(_) => Err(DemoError::DataNotEmpty { path: path.clone() }),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Work::Temporary(folder) => folder.path(),
            Work::Kept(path) => path,
        }
    }

    /// Removes what is to be removed; what is lost or wrong is left to be looked at. Returns where the rest is.
    fn end(self, is_well: bool) -> Result<Option<String>, DemoError> {
        match self {
            Work::Temporary(folder) if !is_well => Ok(Some(folder.keep().display().to_string())),
            Work::Temporary(folder) => {
                let path = folder.path().to_owned();
                folder
                    .close()
                    .map_err(|error| DemoError::system("removing the temporary folder", &path, &error))?;
                Ok(None)
            }
            Work::Kept(path) => Ok(Some(path.display().to_string())),
        }
    }
}

/// The sources that this program was built from, if they are still there.
fn default_folder() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let is_there = |folder: &&Path| folder.join("Cargo.toml").is_file() && folder.join("crates").is_dir();
    sources.filter(is_there).map_or_else(|| PathBuf::from("."), Path::to_owned)
}

fn as_json(report: &Report) -> String {
    // A report is numbers and text: there is nothing in it that JSON cannot say.
    serde_json::to_string_pretty(report)
        .unwrap_or_else(|error| format!("{{\"error\": {:?}}}", error.to_string()))
}
