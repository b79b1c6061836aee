//! `zerohop demo`: the whole job of a cluster on real files, with kills in the middle.
//!
//! ```text
//!   source ──load──> keyspace demo-first ──stop, start──> check            every file right
//!   source ──load──> keyspace demo-again ──check both──> every file right, and nothing else there
//!                │
//!                └── half-way: SIGKILL of the node, start; the client goes on by itself
//!
//!   source ──load──> three nodes ──SIGKILL of one half-way, return, a 4th joins, one drained──> check
//! ```
//!
//! Both keyspaces of the first part have `sync` durability. The node that is killed runs on a disk
//! that loses unsynced data, so that the kill is a power cut. The demo itself never stores an
//! acknowledged file again: a file that was acknowledged before the kill and is lost by it is found
//! missing.

mod check;
mod cluster;
mod cluster_report;
mod fault;
mod limits;
mod load;
mod local;
mod parallel;
mod progress;
mod record;
mod report;
mod source;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use zerohop_client::{Client, ClientOptions, Keyspace};
use zerohop_system::clock::Stopwatch;

use self::check::CheckResult;
use self::limits::{DEADLINE, PARTITIONS};
use self::load::{LoadedFiles, StoredFile};
use self::local::DemoNode;
use self::progress::DemoProgress;
use self::report::{DemoReport, rate};
use self::source::DemoFiles;
use self::work::DemoFolder;
use crate::common::demo_error::DemoError;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::runtime::{StopSignals, runtime};
use crate::common::{admin, names};
use crate::output;

/// The keyspaces of the two rounds.
const FIRST: &str = "demo-first";
const AGAIN: &str = "demo-again";

/// The folder of the cluster's nodes.
const CLUSTER: &str = "cluster";

#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// The folder with the files to store. Folders with the names `target` and `.git` are skipped, and links are not
    /// followed. [default: the sources of zerohop, or the current folder if they do not exist]
    dir: Option<PathBuf>,
    /// The folder for the data, which is kept. It must be new or empty. `zerohop up --data` can serve it afterwards
    /// [default: a temporary folder, which is removed at the end if all checks pass].
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,
    /// Keeps the temporary folder and prints its path.
    #[arg(long)]
    keep: bool,
    /// Kills the node after this number of acknowledged files [default: half of them].
    #[arg(long, value_name = "FILES", hide = true)]
    kill_after: Option<u64>,
    /// Skips the part with several nodes.
    #[arg(long, hide = true)]
    one_node: bool,
}

/// Runs the demo and prints its report.
pub(crate) fn run(arguments: &DemoArguments) -> Result<CommandEnding, CommandError> {
    let dir = arguments.dir.clone().unwrap_or_else(default_folder);
    let work = DemoFolder::make(arguments.data.as_deref(), arguments.keep)?;
    let source = Arc::new(DemoFiles::find(&dir, work.path())?);
    if source.files.is_empty() {
        return Err(DemoError::NoFiles { path: dir }.into());
    }
    let mut report = DemoReport {
        folder: names::path(&dir),
        skipped_folders: source.skipped_folders,
        skipped_others: source.skipped_others,
        unreadable: source.unreadable,
        ..DemoReport::default()
    };
    // Nodes are started from this, the main thread: see `crate::local`.
    let finished = runtime()?.block_on(async {
        let mut signals = StopSignals::new()?;
        tokio::select! {
            finished = parts(&source, work.path(), arguments, &mut report) => finished.map(|()| true),
            // Dropping the unfinished future kills the nodes.
            () = signals.received() => Ok(false),
        }
    })?;
    if !finished {
        return Ok(CommandEnding::Interrupted);
    }
    report.set_ok();
    report.data = work.end(report.ok)?;
    match arguments.json {
        true => output::json(&report)?,
        false => output::result(&report.to_string())?,
    }
    Ok(if report.ok { CommandEnding::Done } else { CommandEnding::No })
}

async fn parts(
    source: &Arc<DemoFiles>,
    work: &Path,
    arguments: &DemoArguments,
    report: &mut DemoReport,
) -> Result<(), CommandError> {
    let kill_after = arguments.kill_after;
    rounds(source, work, kill_after, report).await?;
    if arguments.one_node {
        return Ok(());
    }
    let mut found = cluster::run(source, &work.join(CLUSTER), kill_after).await?;
    report.faulty += found.files - found.whole;
    report.faults.append(&mut found.faults);
    report.cluster = Some(found);
    Ok(())
}

async fn rounds(
    source: &Arc<DemoFiles>,
    work: &Path,
    kill_after: Option<u64>,
    report: &mut DemoReport,
) -> Result<(), CommandError> {
    let mut node = DemoNode::start(work).await?;
    let client = connect(&node).await?;
    for name in [FIRST, AGAIN] {
        let settings = zerohop_wire::admin::KeyspaceSettings {
            name: name.to_owned(),
            durability: Some("sync".to_owned()),
            partitions: Some(PARTITIONS),
            ..Default::default()
        };
        report.partitions = admin::create(&client, settings).await?.partitions;
    }
    report.instances = node.instances();
    let (first, again) = (client.keyspace(FIRST).await?, client.keyspace(AGAIN).await?);

    let first_files = store(&first, source, report).await?;
    let stopwatch = Stopwatch::start();
    node = node.restart_on_a_forgetful_disk().await?;
    report.reopen_seconds = stopwatch.elapsed().as_secs_f64();
    read_back(&first, &first_files, report).await?;

    let kill_after = kill_after.unwrap_or(report.files / 2).max(1);
    let (node, again_files) = store_and_kill(node, &again, source, kill_after, report).await?;
    verify(&first, &first_files, &again, &again_files, report).await?;
    let status = admin::status(&client).await?;
    // The killed node reports that `interval` keyspaces may lack their last moments. The demo has written nothing to the one that
    // exists from the start; its own keyspaces are `sync`.
    let is_expected = |line: &String| line.contains("`zerohop recover acknowledge default`");
    let troubles = status.nodes.into_iter().flat_map(|node| node.troubles);
    report.damage = troubles.filter(|line| !is_expected(line)).collect();
    node.stop().await
}

async fn connect(node: &DemoNode) -> Result<Client, CommandError> {
    let options =
        ClientOptions { deadline: DEADLINE, name: "zerohop-demo".to_owned(), ..ClientOptions::default() };
    Client::connect_with(&[node.endpoint()], options).await.map_err(CommandError::Unreachable)
}

async fn store(
    keyspace: &Keyspace,
    source: &Arc<DemoFiles>,
    report: &mut DemoReport,
) -> Result<Arc<Vec<StoredFile>>, CommandError> {
    let progress = Arc::new(DemoProgress::default());
    let stopwatch = Stopwatch::start();
    let loading = load::load(keyspace, source, &progress);
    let LoadedFiles { files, unreadable } = progress.watch("storing", source.files.len(), loading).await?;
    let took = stopwatch.elapsed();
    report.files = files.len() as u64;
    report.bytes = files.iter().map(|file| file.bytes).sum();
    report.unreadable += unreadable;
    report.write_seconds = took.as_secs_f64();
    report.write_mb_per_second = rate(report.bytes, took);
    Ok(Arc::new(files))
}

async fn read_back(
    keyspace: &Keyspace,
    files: &Arc<Vec<StoredFile>>,
    report: &mut DemoReport,
) -> Result<(), CommandError> {
    let progress = Arc::new(DemoProgress::default());
    let stopwatch = Stopwatch::start();
    let checking = check::check(keyspace, files, &progress);
    let checked = progress.watch("reading", files.len(), checking).await?;
    let took = stopwatch.elapsed();
    report.read_seconds = took.as_secs_f64();
    report.read_mb_per_second = rate(checked.bytes, took);
    report.read_whole = checked.intact;
    report.add_faults(checked);
    Ok(())
}

/// Stores all files once more; kills the node when it has acknowledged enough of them, and starts
/// it again.
async fn store_and_kill(
    node: DemoNode,
    keyspace: &Keyspace,
    source: &Arc<DemoFiles>,
    kill_after: u64,
    report: &mut DemoReport,
) -> Result<(DemoNode, Arc<Vec<StoredFile>>), CommandError> {
    let progress = Arc::new(DemoProgress::default());
    let stopwatch = Stopwatch::start();
    let loading = load::load(keyspace, source, &progress);
    let killing = async {
        progress.reached(kill_after.min(source.files.len() as u64)).await;
        progress.record_kill();
        let stopwatch = Stopwatch::start();
        let node = node.kill_and_start().await?;
        Ok::<_, CommandError>((node, stopwatch.elapsed()))
    };
    let both = async { tokio::try_join!(async { Ok(loading.await?) }, killing) };
    let (loaded, (node, recovery)) =
        progress.watch("storing again, with a kill", source.files.len(), both).await?;
    report.again_seconds = stopwatch.elapsed().as_secs_f64();
    report.recovery_seconds = recovery.as_secs_f64();
    report.killed = true;
    let before = || loaded.files.iter().filter(|file| file.before_kill);
    report.acknowledged = before().count() as u64;
    report.acknowledged_bytes = before().map(|file| file.bytes).sum();
    Ok((node, Arc::new(loaded.files)))
}

async fn verify(
    first: &Keyspace,
    first_files: &Arc<Vec<StoredFile>>,
    again: &Keyspace,
    again_files: &Arc<Vec<StoredFile>>,
    report: &mut DemoReport,
) -> Result<(), CommandError> {
    let progress = Arc::new(DemoProgress::default());
    let total = first_files.len() + again_files.len();
    let checking = async {
        let of_first = check::check(first, first_files, &progress).await?;
        let of_again = check::check(again, again_files, &progress).await?;
        let foreign_keys = check::count_foreign(first, first_files).await?
            + check::count_foreign(again, again_files).await?;
        Ok::<_, DemoError>((of_first, of_again, foreign_keys))
    };
    let (of_first, of_again, foreign_keys) = progress.watch("verifying", total, checking).await?;
    report.first_whole = of_first.intact;
    report.again_files = again_files.len() as u64;
    report.again_whole = of_again.intact;
    report.verified = of_again.intact_before_kill;
    report.foreign_keys = foreign_keys;
    report.add_faults(of_first);
    report.add_faults(of_again);
    Ok(())
}

impl DemoReport {
    fn add_faults(&mut self, checked: CheckResult) {
        self.faulty += checked.faulty;
        self.faults.extend(checked.faults);
    }
}

/// The sources that this program was built from, if they still exist.
fn default_folder() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let is_there = |folder: &&Path| folder.join("Cargo.toml").is_file() && folder.join("crates").is_dir();
    sources.filter(is_there).map_or_else(|| PathBuf::from("."), Path::to_owned)
}
