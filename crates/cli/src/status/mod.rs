//! `zerohop status`: once, at intervals, or once the cluster is in a state.

mod display;
mod verdict;

use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep, sleep_until};
use zerohop_client::Client;
use zerohop_wire::admin::Status;
use zerohop_wire::plurals::counted;

use self::display::StatusOutput;
use self::verdict::AwaitedState;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::keys::KeyPresses;
use crate::common::quantity::format_time;
use crate::common::runtime::StopSignals;
use crate::common::screen::ScreenSize;
use crate::common::target::ClusterTarget;
use crate::common::{admin, every_node, quantity};
use crate::layer::LayerSurvey;
use crate::output;

/// The pause between two questions of `--wait`.
const WAIT_PAUSE: Duration = Duration::from_millis(250);

#[derive(Args, Debug)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints the status repeatedly, until `q` or Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// The time between two reports of --watch: 2s, 500ms; more than 0.
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "watch",
          value_parser = quantity::duration_above_zero)]
    interval: Duration,
    /// Waits until the cluster is in this state, and prints the status then. If it is not reached within --timeout,
    /// the exit code is 1. A cluster that does not answer yet is waited for too.
    #[arg(long, value_name = "STATE", value_enum, conflicts_with = "watch")]
    wait: Option<AwaitedState>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl StatusArguments {
    /// Whether the command handles signals itself.
    pub(crate) fn handles_signals(&self) -> bool {
        self.watch
    }
}

pub(crate) async fn run(arguments: StatusArguments) -> Result<CommandEnding, CommandError> {
    if arguments.watch {
        return watch(&arguments).await;
    }
    if let Some(state) = arguments.wait {
        return wait(&arguments, state).await;
    }
    print(&arguments, &read(&arguments.target).await?)?;
    Ok(CommandEnding::Done)
}

/// The complete status.
async fn read(target: &ClusterTarget) -> Result<StatusOutput, CommandError> {
    let (client, status) = query(target).await?;
    Ok(complete(&client, status).await)
}

/// The status, with what each node reports of itself, and the client that has read it.
async fn query(target: &ClusterTarget) -> Result<(Client, Status), CommandError> {
    let client = target.connect().await?;
    let mut status = admin::status(&client).await?;
    every_node::add_others(target, &mut status).await;
    Ok((client, status))
}

/// Adds the figures of queues and logs. This has a bound of time, and never fails.
async fn complete(client: &Client, status: Status) -> StatusOutput {
    let layers = LayerSurvey::read(client, &status.keyspaces).await;
    StatusOutput::new(status, layers)
}

fn print(arguments: &StatusArguments, shown: &StatusOutput) -> Result<(), CommandError> {
    if arguments.json { output::json(shown) } else { output::report(shown.to_string().trim_end()) }
}

/// Prints the status at intervals, until a signal or a key ends it. A cluster that does not answer
/// is asked again.
async fn watch(arguments: &StatusArguments) -> Result<CommandEnding, CommandError> {
    let mut signals = StopSignals::new()?;
    let is_screen = output::is_terminal() && !arguments.json;
    // Dropped last, which restores the terminal mode.
    let keys = is_screen.then(KeyPresses::new).flatten().inspect(|_| signals.end_with_key(b'q'));
    let mut is_first = true;
    loop {
        let begin = Instant::now();
        let reply = tokio::select! {
            reply = read(&arguments.target) => reply,
            () = signals.received() => return Ok(CommandEnding::Done),
        };
        let report = match reply {
            // The first question fails as without --watch, so that a mistake ends the command.
            Err(error) if is_first => return Err(error),
            Err(error) if !is_screen => {
                output::problem(&format!("zerohop: {error}"));
                None
            }
            Err(error) => Some(format!("zerohop: {error}\n")),
            Ok(shown) if arguments.json => {
                print(arguments, &shown)?;
                None
            }
            Ok(shown) => Some(shown.to_string()),
        };
        if let Some(report) = report {
            let (report, clear, hint) = match is_screen {
                true => {
                    let (report, hint) =
                        on_screen(&report, ScreenSize::of_output(), arguments.interval, keys.is_some());
                    (report, "\x1b[H\x1b[2J", hint)
                }
                // Reports in a pipe are separated by an empty line.
                false => (report, "", "\n".to_owned()),
            };
            output::raw(&[clear.as_bytes(), output::report_text(&report).as_bytes(), hint.as_bytes()])?;
        }
        is_first = false;
        tokio::select! {
            () = sleep_until(begin + arguments.interval) => {}
            () = signals.received() => return Ok(CommandEnding::Done),
        }
    }
}

/// The part of a report that a screen of this size shows, and its last line.
fn on_screen(report: &str, size: Option<ScreenSize>, interval: Duration, has_keys: bool) -> (String, String) {
    // The cursor is in a row of its own, below the last line.
    let (shown, left_out) = match size {
        Some(size) => size.clip(report, 2),
        None => (report.to_owned(), 0),
    };
    let end = if has_keys { "q ends" } else { "Ctrl-C ends" };
    let every = format_time(interval);
    let hint = match left_out {
        0 => format!("every {every}; {end}\n"),
        more => {
            let lines = counted(more, "more line");
            format!("{lines} on a taller screen or in `zerohop status`; every {every}; {end}\n")
        }
    };
    (shown, hint)
}

/// Waits until the cluster is in this state, or the time is over.
async fn wait(arguments: &StatusArguments, state: AwaitedState) -> Result<CommandEnding, CommandError> {
    let timeout = arguments.target.timeout();
    let until = Instant::now().checked_add(timeout);
    loop {
        let reply = query(&arguments.target).await;
        let is_over = until.is_some_and(|until| Instant::now() >= until);
        match reply {
            Ok((client, status)) if state.is_reached(&status) => {
                print(arguments, &complete(&client, status).await)?;
                return Ok(CommandEnding::Done);
            }
            Ok((client, status)) if is_over => {
                print(arguments, &complete(&client, status).await)?;
                let state = state.name();
                output::problem(&format!(
                    "zerohop: the cluster is not {state} after {}: allow more time with --timeout, or see what `zerohop doctor` says",
                    format_time(timeout)
                ));
                return Ok(CommandEnding::No);
            }
            Err(error) if is_over || !may_come(&error) => return Err(error),
            Ok(_) | Err(_) => sleep(WAIT_PAUSE).await,
        }
    }
}

/// Whether the cluster may answer later.
fn may_come(error: &CommandError) -> bool {
    match error {
        CommandError::NoCluster(_)
        | CommandError::Restarting { .. }
        | CommandError::Unreachable(_)
        | CommandError::Silent { .. }
        | CommandError::Refused(_) => true,
        CommandError::Client(error) => !error.is_access(),
        _ => false,
    }
}
