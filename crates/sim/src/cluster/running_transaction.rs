//! A transaction that a client of a simulated cluster has in progress, and what the history says of it.

use zerohop_base::time::Time;
use zerohop_session::procedures::Error;
use zerohop_session::{Reply, STAGED_ITEM_US, SessionError};
use zerohop_wire::{AbortReason, Failure};

use super::answer_recorder::AnswerRecorder;
use super::interactive::{InteractiveReport, ReadKind};
use super::transaction_reads::{ReadResult, intended, reply_of};
use crate::cycles::{CheckedAction, TransactionFate};
use crate::transaction_results::{TransactionFailure, TransactionRecord};
use crate::workload::transactional::{ClassedKey, ClientOperationPlan};

/// A transaction in progress.
#[derive(Debug)]
pub(super) struct RunningTransaction {
    pub(super) client: usize,
    pub(super) operation: ClientOperationPlan,
    /// Indices in the history of its current requests.
    pub(super) entries: Vec<usize>,
    /// The time limit of each of its requests.
    pub(super) limit_us: u64,
    /// What it has read so far.
    pub(super) got: Vec<(ClassedKey, ReadResult)>,
    pub(super) is_opening: bool,
    /// It is a contender of another transaction, and its client starts nothing after it.
    pub(super) is_contender: bool,
    /// A copy of one of its frames may take effect later.
    pub(super) may_have_late_copy: bool,
}

impl RunningTransaction {
    /// Adds the answer of its request to the history.
    pub(super) fn record_answer(&self, entry: &mut TransactionRecord, reply: &Reply) {
        let mut recorder = AnswerRecorder { entry, bank: (0, 0) };
        let one = |reply: &Reply| [Ok(reply.clone())];
        match (&self.operation, reply) {
            (ClientOperationPlan::Commit(steps), Reply::Transacted { version, answers }) => {
                recorder.transacted(*version, steps, answers);
            }
            (ClientOperationPlan::ReadMany(keys), Reply::Many(answers)) => {
                recorder.committed();
                recorder.reads(keys.iter().copied(), answers);
            }
            (ClientOperationPlan::Single(step), _) => {
                recorder.committed();
                match (step.is_read(), reply) {
                    (true, Reply::Many(answers)) => drop(recorder.reads([step.key()], answers)),
                    (true, reply) => drop(recorder.reads([step.key()], &one(reply))),
                    (false, Reply::Done { version, .. }) => recorder.version(*version),
                    (false, other) => recorder.record_impossible(other),
                }
            }
            (_, other) => recorder.record_impossible(other),
        }
    }

    /// Adds a report of its procedure to the history. Returns the entries that have ended.
    pub(super) fn record_report(
        &mut self,
        now: Time,
        history: &mut Vec<TransactionRecord>,
        report: InteractiveReport,
    ) -> Vec<usize> {
        let (client, deadline) = (self.client, now.after_us(self.limit_us));
        let mut begin = |actions: Vec<CheckedAction>| {
            history.push(TransactionRecord::begun(client, now, deadline, actions));
            history.len() - 1
        };
        match report {
            InteractiveReport::Reads(keys, kind) => {
                self.entries = keys.iter().map(|_| begin(Vec::new())).collect();
                if kind == ReadKind::ForUpdate {
                    let late = deadline.after_us(zerohop_session::limits::WAIT_GRACE_US);
                    self.entries.iter().for_each(|place| history[*place].deadline = late);
                }
                return Vec::new();
            }
            InteractiveReport::Commits(writes) => {
                self.entries = vec![begin(writes.iter().filter_map(|step| intended(*step)).collect())];
                return Vec::new();
            }
            InteractiveReport::HasRead(keys, result) => {
                for (at, (key, place)) in keys.into_iter().zip(&self.entries).enumerate() {
                    let entry = &mut history[*place];
                    match &result {
                        Ok(records) => {
                            let mut recorder = AnswerRecorder { entry, bank: (0, 0) };
                            recorder.committed();
                            let answer = reply_of(records.get(at).and_then(Option::as_ref));
                            self.got.extend(recorder.reads([key], &[answer]));
                        }
                        Err(error) => fail_of(entry, error, self.may_have_late_copy),
                    }
                }
            }
            InteractiveReport::Waits => {
                // A commit has more time for each write that is staged.
                let staged_max = match &self.operation {
                    ClientOperationPlan::ReadFirst { writes, .. } => writes.len() as u64,
                    _ => 0,
                };
                let deadline = deadline.after_us(staged_max * STAGED_ITEM_US);
                for place in &self.entries {
                    // Whatever has ended by now comes before the commit.
                    let entry = &mut history[*place];
                    (entry.transaction.begin, entry.deadline) = (now.0, entry.deadline.max(deadline));
                }
                return Vec::new();
            }
            InteractiveReport::Committed(written, result) => {
                for place in &self.entries {
                    let entry = &mut history[*place];
                    match &result {
                        Ok(version) => {
                            entry.transaction.actions.clone_from(&written.actions);
                            entry.sum = written.sum;
                            let mut recorder = AnswerRecorder { entry, bank: (0, 0) };
                            recorder.committed();
                            recorder.rested(&self.got);
                            if written.has_writes {
                                recorder.version(*version);
                            }
                            if let Some(what) = &written.impossible {
                                recorder.record_impossible(what);
                            }
                        }
                        Err(error) => fail_of(entry, error, self.may_have_late_copy),
                    }
                }
            }
            InteractiveReport::Differs(what) => {
                self.entries = vec![begin(Vec::new())];
                history[self.entries[0]].failure = Some(TransactionFailure::Impossible(what));
            }
            InteractiveReport::Ends => {}
        }
        for place in &self.entries {
            history[*place].transaction.end = Some(now.0);
        }
        std::mem::take(&mut self.entries)
    }
}

/// The fate of a request that failed, or whose outcome is unknown.
pub(super) fn fail(entry: &mut TransactionRecord, error: &SessionError, may_repeat: bool) {
    let is_logged = matches!(error, SessionError::Aborted { reason, .. }
        if !matches!(reason, AbortReason::Misplaced | AbortReason::Overloaded | AbortReason::Malformed));
    entry.transaction.fate = match error {
        SessionError::Unknown { .. } => TransactionFate::Unknown,
        // A copy of it may still take effect; a transaction that its log has aborted does not start
        // again.
        _ if may_repeat && !is_logged => TransactionFate::Unknown,
        _ => TransactionFate::Aborted,
    };
    let text = error.to_string();
    entry.failure = Some(match error {
        SessionError::Aborted { reason: AbortReason::ReadChanged | AbortReason::ConditionFailed, .. } => {
            TransactionFailure::Conflict(text)
        }
        SessionError::Answer {
            failure:
                Failure::NotFound
                | Failure::StaleBlob { .. }
                | Failure::NeedHeader
                | Failure::ConditionFailed { .. }
                | Failure::SnapshotExpired,
        } => TransactionFailure::Conflict(text),
        _ => TransactionFailure::Other(text),
    });
}

/// As [`fail`], for a procedure.
pub(super) fn fail_of(entry: &mut TransactionRecord, error: &Error, may_repeat: bool) {
    match error.reason() {
        Some(reason) => fail(entry, reason, may_repeat),
        None => {
            entry.transaction.fate = TransactionFate::Aborted;
            entry.failure = Some(TransactionFailure::Impossible(error.to_string()));
        }
    }
}
