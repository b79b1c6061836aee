//! Operations whose results are wanted together: kept until all have ended, and handed over at once.

use std::iter;

use tokio::sync::oneshot;
use zerohop_session::{Reply, SessionError};

type BatchResult = Result<Reply, SessionError>;

/// Where the results of a batch go, in the order of its operations.
pub(crate) type BatchSender = oneshot::Sender<Vec<BatchResult>>;

/// An operation's place in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSlot {
    batch: usize,
    place: usize,
}

/// The batches that are under way.
#[derive(Default)]
pub(crate) struct Batches {
    /// Places are used again: there are as many as were ever under way at once.
    batches: Vec<Option<PendingBatch>>,
    free: Vec<usize>,
}

struct PendingBatch {
    outcomes: Vec<Option<BatchResult>>,
    left: usize,
    whole: BatchSender,
}

impl Batches {
    /// Begins a batch of so many operations, one at least; each place is to get its result once.
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
        self.batches[batch] = Some(PendingBatch { outcomes, left: count, whole });
        (0..count).map(move |place| BatchSlot { batch, place })
    }

    /// Takes a result. With the last one whoever wanted them is told.
    pub(crate) fn put(&mut self, BatchSlot { batch, place }: BatchSlot, outcome: BatchResult) {
        let Some(kept) = self.batches[batch].as_mut() else { return };
        let before = kept.outcomes[place].replace(outcome);
        debug_assert!(before.is_none(), "an operation ends once");
        kept.left -= 1;
        if kept.left == 0
            && let Some(PendingBatch { outcomes, whole, .. }) = self.batches[batch].take()
        {
            self.free.push(batch);
            // Whoever asked may have gone; then nobody wants to know.
            let _ = whole.send(outcomes.into_iter().flatten().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_together_in_the_order_of_the_operations() {
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
