//! Writes the answer of a transaction into the history.

use zerohop_session::Reply;
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;

use super::transaction_reads::{ReadResult, intended, read_of, read_result};
use crate::cycles::{CheckedAction, TransactionFate};
use crate::transaction_results::{TransactionFailure, TransactionRecord};
use crate::workload::transactional::{ClassedKey, TransactionStep};

/// Writes an answer into the history.
pub(super) struct AnswerRecorder<'e> {
    pub(super) entry: &'e mut TransactionRecord,
    /// Number of accounts that were read, and the sum of their balances.
    pub(super) bank: (usize, i64),
}

impl AnswerRecorder<'_> {
    pub(super) fn committed(&mut self) {
        self.entry.transaction.fate = TransactionFate::Committed;
    }

    pub(super) fn record_impossible(&mut self, what: &dyn std::fmt::Debug) {
        let mut text = format!("{what:?}");
        text.truncate(300);
        self.entry.failure = Some(TransactionFailure::Impossible(text));
    }

    /// Sets the version of the transaction's writes.
    pub(super) fn version(&mut self, made: Timestamp) {
        self.entry.version = Some(made);
        for action in &mut self.entry.transaction.actions {
            if let CheckedAction::Write { version, .. } = action {
                *version = Some(made.0);
            }
        }
    }

    pub(super) fn transacted(
        &mut self,
        version: Timestamp,
        steps: &[TransactionStep],
        answers: &[Result<Reply, Failure<'static>>],
    ) {
        self.committed();
        self.entry.transaction.actions.clear();
        for (step, answer) in steps.iter().zip(answers) {
            match intended(*step) {
                Some(action) => self.entry.transaction.actions.push(action),
                None if step.is_read() => drop(self.reads([step.key()], std::slice::from_ref(answer))),
                None => {}
            }
            if let Err(failure) = answer
                && !(step.is_read() && *failure == Failure::NotFound)
            {
                self.record_impossible(&(step, failure));
            }
        }
        self.version(version);
    }

    /// Records the reads that the transaction depends on.
    pub(super) fn rested(&mut self, got: &[(ClassedKey, ReadResult)]) {
        let reads: Vec<CheckedAction> = got.iter().filter_map(|(key, got)| read_of(*key, got)).collect();
        self.entry.transaction.actions.splice(0..0, reads);
    }

    pub(super) fn reads(
        &mut self,
        keys: impl IntoIterator<Item = ClassedKey>,
        answers: &[Result<Reply, Failure<'static>>],
    ) -> Vec<(ClassedKey, ReadResult)> {
        let mut all = Vec::new();
        for (key, answer) in keys.into_iter().zip(answers) {
            let Some(got) = read_result(key, answer) else {
                self.record_impossible(&(key, answer));
                continue;
            };
            self.entry.transaction.actions.extend(read_of(key, &got));
            match &got {
                ReadResult::List(version, values) => {
                    self.entry.lists.extend(values.last().map(|last| (key.id(), *last, *version)));
                }
                ReadResult::Number(_, number) => {
                    self.bank = (self.bank.0 + 1, self.bank.1 + number);
                    if self.bank.0 == ClassedKey::all(key.class).len() {
                        self.entry.sum = Some(self.bank.1);
                    }
                }
                _ => {}
            }
            all.push((key, got));
        }
        all
    }
}
