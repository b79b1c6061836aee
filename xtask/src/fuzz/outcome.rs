//! The outcome of a run of libFuzzer, read from its output.
//!
//! ```text
//! #6      INITED cov: 12 ft: 12 corp: 5/33b exec/s: 0 rss: 27Mb
//! #812345 DONE   cov: 40 ft: 51 corp: 19/301b lim: 477 exec/s: 73849 rss: 412Mb
//! Done 812345 runs in 11 second(s)
//! artifact_prefix='…'; Test unit written to …/crash-897be4d9507672f744655783083bbf85335a00a2
//! Base64: emVyb+++rd4=
//! ```

use std::fmt;
use std::path::PathBuf;

/// The outcome of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Code locations that the seeds reached.
    pub(super) coverage_begin: u64,
    /// Code locations that were reached in the end; zero when there is no feedback at all.
    pub(super) coverage_end: u64,
    /// The number of inputs that were tried.
    pub(super) runs: u64,
    /// The file with the input that failed.
    pub(super) artifact: Option<PathBuf>,
    /// Its bytes in Base64, if they are few.
    pub(super) base64: Option<String>,
}

impl Outcome {
    /// Reads libFuzzer's lines; unknown lines are ignored.
    pub(super) fn read(lines: &[String]) -> Self {
        let mut outcome = Self::default();
        for line in lines {
            if let Some(coverage) = number_after(line, " cov: ") {
                if line.contains("INITED") {
                    outcome.coverage_begin = coverage;
                }
                outcome.coverage_end = coverage;
            } else if let Some(runs) = number_after(line, "Done ") {
                outcome.runs = runs;
            } else if let Some((_, path)) = line.split_once("Test unit written to ") {
                outcome.artifact = Some(PathBuf::from(path));
            } else if let Some(bytes) = line.strip_prefix("Base64: ") {
                outcome.base64 = Some(bytes.to_owned());
            }
        }
        outcome
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} inputs, coverage {} -> {}", self.runs, self.coverage_begin, self.coverage_end)
    }
}

fn number_after(line: &str, mark: &str) -> Option<u64> {
    let (_, rest) = line.split_once(mark)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Outcome {
        Outcome::read(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn clean_run_outcome_has_coverage_and_run_count() {
        let outcome = read(
            "INFO: Running with entropic power schedule (0xFF, 100).\n\
             #6\tINITED cov: 12 ft: 12 corp: 5/33b exec/s: 0 rss: 27Mb\n\
             #900\tNEW    cov: 40 ft: 51 corp: 19/301b lim: 477 exec/s: 7 rss: 41Mb L: 8/8 MS: 1 CMP-\n\
             Done 812345 runs in 11 second(s)",
        );
        assert_eq!((outcome.coverage_begin, outcome.coverage_end, outcome.runs), (12, 40, 812_345));
        assert_eq!(outcome.artifact, None);
    }

    #[test]
    fn crash_outcome_has_its_input() {
        let outcome = read(
            "SUMMARY: libFuzzer: deadly signal\n\
             artifact_prefix='a/'; Test unit written to a/crash-89\n\
             Base64: emVyb+++rd4=",
        );
        assert_eq!(outcome.artifact, Some(PathBuf::from("a/crash-89")));
        assert_eq!(outcome.base64.as_deref(), Some("emVyb+++rd4="));
    }

    #[test]
    fn code_without_counters_has_no_coverage() {
        assert_eq!(read("#2\tINITED exec/s: 0 rss: 27Mb\nDone 5 runs in 0 second(s)").coverage_end, 0);
    }
}
