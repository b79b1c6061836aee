//! The node whose view a report is, the age of that view, and warnings that come before the report.

use serde::Serialize;
use zerohop_wire::admin::{NodeView, Status};

use super::ending::CommandError;
use crate::output;

/// The JSON of a view.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ViewOutput {
    /// The node that was asked; 0: it has not joined.
    node: u32,
    /// The node that leads the control group; 0: none is known.
    leader: u32,
    /// How old the report is, in milliseconds: a leader was known then.
    age_ms: u64,
    /// The control group decides.
    quorum: bool,
    managers: u32,
    answering: u32,
    /// Nodes that do not answer the one that was asked.
    silent: Vec<u32>,
    /// Partitions without a primary.
    no_primary: u32,
    /// Partitions that stand still, as an in-sync replica does not answer.
    stuck: u32,
    /// Partitions that accept no writes, as the log of their primary has failed.
    log_failed: u32,
    /// Partitions that are not served, as their primary waits for its split.
    not_split: u32,
    /// What the node that was asked waits for before it joins; empty: nothing.
    waits_for: String,
}

impl ViewOutput {
    pub(crate) fn of(view: &NodeView) -> ViewOutput {
        let NodeView {
            node,
            leader,
            age_ms,
            quorum,
            managers,
            answering,
            no_primary,
            stuck,
            log_failed,
            not_split,
            ..
        } = *view;
        let (silent, waits_for) = (view.silent.clone(), view.waits_for.clone());
        ViewOutput {
            node,
            leader,
            age_ms,
            quorum,
            managers,
            answering,
            silent,
            no_primary,
            stuck,
            log_failed,
            not_split,
            waits_for,
        }
    }
}

/// The lines before everything else in a report: problems of the whole cluster.
pub(crate) fn first(status: &Status) -> Vec<String> {
    let Some(view) = &status.view else { return Vec::new() };
    let mut lines: Vec<String> = view.warnings.iter().map(|warning| heading(warning)).collect();
    if !view.waits_for.is_empty() {
        lines.insert(
            0,
            format!("WARNING: the node that was asked has not joined: it waits for {}", view.waits_for),
        );
    }
    lines
}

/// The subject of the warning in capitals, so that it is not overlooked.
fn heading(warning: &str) -> String {
    for word in ["no quorum", "no answer", "no primary"] {
        if let Some(rest) = warning.strip_prefix(word) {
            return format!("{}{rest}", word.to_uppercase());
        }
    }
    format!("WARNING: {warning}")
}

/// The node whose view it is, and its age.
pub(crate) fn seen(status: &Status) -> Option<String> {
    let view = status.view.as_ref()?;
    let by = match view.node {
        0 => "as a node sees it that has not joined".to_owned(),
        node => format!("as node {node} sees it"),
    };
    let led = match (view.managers, view.leader) {
        (0, _) => return Some(by),
        (_, 0) => "no leader of the control group is known".to_owned(),
        (_, leader) => format!("node {leader} leads the control group"),
    };
    Some(format!("{by}, {:.1} s old; {led}", view.age_ms as f64 / 1_000.0))
}

/// The problems of the whole cluster and then whose view that is; empty: there is no problem.
pub(crate) fn problems(status: &Status) -> Vec<String> {
    let mut lines = first(status);
    if !lines.is_empty() {
        lines.extend(seen(status).map(|seen| format!("What follows is {seen}.")));
    }
    lines
}

/// Prints the problems of the whole cluster and then whose view that is, before a report of another
/// kind. It goes to standard output with a text report, and to standard error with JSON.
pub(crate) fn print_problems(status: &Status, is_json: bool) -> Result<(), CommandError> {
    let lines = problems(status);
    if lines.is_empty() {
        return Ok(());
    }
    match is_json {
        true => output::problem(&lines.join("\n")),
        false => output::result(&lines.join("\n"))?,
    }
    Ok(())
}

/// Says on standard error how old the following list is, if the control group has no quorum.
pub(crate) fn print_age_without_quorum(status: &Status) {
    if has_quorum(status) {
        return;
    }
    let lines = first(status).into_iter().chain(seen(status).map(|seen| format!("What follows is {seen}.")));
    output::problem(&lines.collect::<Vec<String>>().join("\n"));
}

/// The JSON of a row of a list, with the age of the list.
#[derive(Debug, Serialize)]
pub(crate) struct AgedRow<T> {
    #[serde(flatten)]
    row: T,
    /// The control group decides.
    quorum: bool,
    /// How old the list is, in milliseconds.
    age_ms: u64,
}

impl<T> AgedRow<T> {
    /// A row of a list from the node of this status.
    pub(crate) fn new(row: T, status: &Status) -> Self {
        let age_ms = status.view.as_ref().map_or(0, |view| view.age_ms);
        AgedRow { row, quorum: has_quorum(status), age_ms }
    }
}

/// Whether the control group has a quorum, as far as is known.
pub(crate) fn has_quorum(status: &Status) -> bool {
    status.view.as_ref().is_none_or(|view| view.quorum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lists_warnings_first_then_viewing_node_and_age() {
        let warnings = vec!["no quorum: 1 of 3 managers".to_owned(), "7 partitions stand still".to_owned()];
        let view =
            NodeView { node: 2, age_ms: 34_200, managers: 3, answering: 1, warnings, ..NodeView::default() };
        let status = Status { view: Some(view), ..Status::default() };
        assert_eq!(first(&status), ["NO QUORUM: 1 of 3 managers", "WARNING: 7 partitions stand still"]);
        let seen_by = "as node 2 sees it, 34.2 s old; no leader of the control group is known";
        assert_eq!(seen(&status).as_deref(), Some(seen_by));
        assert!(!has_quorum(&status));
        // Nodes of older versions do not report a view.
        assert!(first(&Status::default()).is_empty() && has_quorum(&Status::default()));
    }
}
