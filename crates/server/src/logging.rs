//! The structured log. The library only emits events; the program that runs it installs the log once.

use std::fmt;
use std::io::{self, IsTerminal, Write, stderr};
use std::str::FromStr;
use std::sync::Arc;

use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use zerohop_wire::escaped::quoted;

pub use tracing::level_filters::LevelFilter;

/// The format of log lines, on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: one line for each event.
    #[default]
    Text,
    /// For programs: one JSON object in a line for each event.
    Json,
}

/// The reason why no log can be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// The format is unknown.
    Format {
        /// The requested format.
        requested: String,
    },
    /// This process has a log already.
    Installed,
}

/// Writes events of at least this level to standard error. With a name each line of text begins with it: several processes may write to
/// one standard error.
///
/// # Errors
/// [`LogError::Installed`].
pub fn init(format: LogFormat, level: LevelFilter, name: Option<&str>) -> Result<(), LogError> {
    let prefix: Arc<str> = match (format, name) {
        (LogFormat::Text, Some(name)) => format!("{name}: ").into(),
        _ => "".into(),
    };
    let output = move || LogOutput { prefix: Arc::clone(&prefix), out: stderr() };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(output).with_target(false);
    let is_logged = filter_fn(|event| !is_of_library(event.target())).with_max_level_hint(level);
    let installed = match format {
        LogFormat::Text => builder.with_ansi(stderr().is_terminal()).finish().with(is_logged).try_init(),
        LogFormat::Json => {
            let json = builder.json().flatten_event(true).with_current_span(false).with_span_list(false);
            json.finish().with(is_logged).try_init()
        }
    };
    installed.map_err(|_| LogError::Installed)
}

/// An output, as standard error, that gets one event with each call. Lines that cannot be written are dropped: the node goes on when the
/// reader of its log has ended, as `tee` at the end of a pipe.
struct LogOutput<W> {
    /// Before each event.
    prefix: Arc<str>,
    out: W,
}

impl<W: Write> Write for LogOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.prefix.is_empty() {
            return Ok(self.out.write(bytes).unwrap_or(bytes.len()));
        }
        // One call, so that lines of other processes do not come between.
        let _ = self.out.write_all(&[self.prefix.as_bytes(), bytes].concat());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().or(Ok(()))
    }
}

/// Whether events of this target are those of a library that reports requests which the program itself reports in one line.
fn is_of_library(target: &str) -> bool {
    target == "s3s" || target.starts_with("s3s::")
}

/// Logs the reason why the process ends, as the last event.
pub fn fatal(why: &str) {
    tracing::error!("{why}");
}

impl LogFormat {
    /// Every format.
    pub const ALL: [LogFormat; 2] = [LogFormat::Text, LogFormat::Json];

    /// The name of the format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LogFormat {
    type Err = LogError;

    fn from_str(text: &str) -> Result<LogFormat, LogError> {
        let found = LogFormat::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| LogError::Format { requested: text.to_owned() })
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Format { requested } => {
                write!(f, "{} is no log format: there is text and json", quoted(requested.as_bytes()))
            }
            LogError::Installed => f.write_str("this process has a log already"),
        }
    }
}

impl std::error::Error for LogError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_begins_with_the_name_of_the_process() {
        let of = |prefix: &str| {
            let mut output = LogOutput { prefix: prefix.into(), out: Vec::new() };
            output.write_all(b"one\n").unwrap();
            output.write_all(b"two\n").unwrap();
            output.out
        };
        assert_eq!(of("node-2: "), b"node-2: one\nnode-2: two\n");
        assert_eq!(of(""), b"one\ntwo\n");
    }

    #[test]
    fn log_formats_parse_from_their_names() {
        for format in LogFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!(
            is_of_library("s3s::ops") && !is_of_library("zerohop_s3::server") && !is_of_library("s3sink")
        );
        assert!("xml".parse::<LogFormat>().unwrap_err().to_string().contains("text and json"));
    }
}
