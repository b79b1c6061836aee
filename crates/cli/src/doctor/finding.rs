//! What was checked, what was found, and what to do about it.

use std::fmt;

use serde::Serialize;

use crate::common::names;

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    Ok,
    /// It works, and will cause trouble.
    Warning,
    /// Something does not work, or will lose data when the next thing goes wrong.
    Problem,
}

/// One check and its result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    /// The check, as a word for programs.
    pub(crate) check: &'static str,
    /// The node, keyspace or folder; empty: the whole machine or cluster.
    pub(crate) about: String,
    pub(crate) verdict: Severity,
    pub(crate) found: String,
    /// The advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, about: impl Into<String>, found: impl Into<String>) -> Self {
        Self { check, about: about.into(), verdict: Severity::Ok, found: found.into(), advice: None }
    }

    pub(crate) fn warning(
        check: &'static str,
        about: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Self { check, about: about.into(), verdict: Severity::Warning, found: found.into(), advice }
    }

    pub(crate) fn problem(
        check: &'static str,
        about: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { verdict: Severity::Problem, ..Self::warning(check, about, found, advice) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Severity::Ok => "ok",
            Severity::Warning => "WARNING",
            Severity::Problem => "PROBLEM",
        };
        write!(f, "{verdict:8} {:12} ", self.check)?;
        if !self.about.is_empty() {
            write!(f, "{}: ", names::text(self.about.as_bytes()))?;
        }
        f.write_str(&self.found)?;
        self.advice.iter().try_for_each(|advice| write!(f, "\n{:22}{advice}", ""))
    }
}
