//! Batches of operations: the driver keeps the results of a batch until all its operations have ended, and then delivers them together.

use std::iter;

use zerohop_session::procedures::{BatchSender, RequestResult};

/// The position of an operation in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSlot {
    batch: usize,
    result_index: usize,
}

/// The batches in progress.
#[derive(Default)]
pub(crate) struct Batches {
    /// Positions are reused: the vector is as long as the highest number of batches that were in progress at the same time.
    batches: Vec<Option<PendingBatch>>,
    free: Vec<usize>,
}

struct PendingBatch {
    outcomes: Vec<Option<RequestResult>>,
    left: usize,
    sender: BatchSender,
}

impl Batches {
    /// Starts a batch of `count` operations, at least one; each returned slot must receive its result exactly once.
    pub(crate) fn begin(
        &mut self,
        count: usize,
        whole: BatchSender,
    ) -> impl Iterator<Item = BatchSlot> + use<> {
        let outcomes = iter::repeat_with(|| None).take(count).collect();
        let batch = self.free.pop().unwrap_or_else(|| {
            self.batches.push(None);
            self.batches.len() - 1
        });
        self.batches[batch] = Some(PendingBatch { outcomes, left: count, sender: whole });
        (0..count).map(move |place| BatchSlot { batch, result_index: place })
    }

    /// Stores a result. The last result of a batch completes it and sends all results to the caller.
    pub(crate) fn put(
        &mut self,
        BatchSlot { batch, result_index: place }: BatchSlot,
        outcome: RequestResult,
    ) {
        let Some(kept) = self.batches[batch].as_mut() else { return };
        let before = kept.outcomes[place].replace(outcome);
        debug_assert!(before.is_none(), "an operation ends once");
        kept.left -= 1;
        if kept.left == 0
            && let Some(PendingBatch { outcomes, sender: whole, .. }) = self.batches[batch].take()
        {
            self.free.push(batch);
            // The caller may have dropped its receiver; the results are then discarded.
            let _ = whole.send(outcomes.into_iter().flatten().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use zerohop_session::SessionError;

    use super::*;

    #[test]
    fn batch_results_are_in_order_of_operations() {
        let mut batches = Batches::default();
        let (whole, mut first) = oneshot::channel();
        let one: Vec<BatchSlot> = batches.begin(3, whole).collect();
        let (whole, mut second) = oneshot::channel();
        let other: Vec<BatchSlot> = batches.begin(1, whole).collect();
        batches.put(one[2], Err(SessionError::Closed));
        batches.put(one[0], Err(SessionError::NoOwner { redirects: 1 }));
        batches.put(other[0], Err(SessionError::Closed));
        assert!(first.try_recv().is_err() && second.try_recv().unwrap().len() == 1);
        batches.put(one[1], Err(SessionError::NoOwner { redirects: 2 }));
        let found = first.try_recv().unwrap();
        assert!(matches!(
            &found[..],
            [
                Err(SessionError::NoOwner { redirects: 1 }),
                Err(SessionError::NoOwner { redirects: 2 }),
                Err(SessionError::Closed)
            ]
        ));
        let (whole, gone) = oneshot::channel();
        drop(gone);
        let again: Vec<BatchSlot> = batches.begin(1, whole).collect();
        batches.put(again[0], Err(SessionError::Closed));
        assert_eq!((batches.batches.len(), batches.free.len()), (2, 2));
    }
}
