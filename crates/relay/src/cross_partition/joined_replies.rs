//! Several futures at the same time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Completes all futures, at most `together_max` at the same time. The results are in the order in which the futures have ended. The first error
/// drops the others.
pub(super) async fn all_or_first_error<T, E, F>(
    futures: impl ExactSizeIterator<Item = F>,
    together_max: usize,
) -> Result<Vec<T>, E>
where
    F: Future<Output = Result<T, E>>,
{
    let (mut done, mut rest) = (Vec::with_capacity(futures.len()), futures);
    let mut under_way: Vec<Pin<Box<F>>> = Vec::new();
    poll_fn(move |cx| {
        loop {
            let free = together_max.saturating_sub(under_way.len());
            under_way.extend(rest.by_ref().take(free).map(Box::pin));
            let (count, mut at) = (done.len(), 0);
            while at < under_way.len() {
                match under_way[at].as_mut().poll(cx) {
                    Poll::Pending => at += 1,
                    Poll::Ready(Ok(result)) => {
                        done.push(result);
                        drop(under_way.swap_remove(at));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
            }
            if under_way.is_empty() && rest.len() == 0 {
                return Poll::Ready(Ok(std::mem::take(&mut done)));
            }
            if done.len() == count || rest.len() == 0 {
                return Poll::Pending;
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::{Context, Waker};

    use super::*;

    /// Ends at its second poll.
    async fn second_time<T>(result: T, under_way: &Cell<usize>, most: &Cell<usize>) -> T {
        under_way.set(under_way.get() + 1);
        most.set(most.get().max(under_way.get()));
        let mut is_first = true;
        poll_fn(|_| match std::mem::replace(&mut is_first, false) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
        under_way.set(under_way.get() - 1);
        result
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let mut future = Box::pin(future);
        loop {
            if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return result;
            }
        }
    }

    #[test]
    fn all_futures_end_and_few_are_under_way_at_once() {
        let (under_way, most) = (Cell::new(0), Cell::new(0));
        let futures = (0..10).map(|number| second_time(Ok::<_, ()>(number), &under_way, &most));
        let mut results = run(all_or_first_error(futures, 4)).unwrap();
        results.sort_unstable();
        assert_eq!(results, (0..10).collect::<Vec<_>>());
        assert_eq!(most.get(), 4);
        let none = std::iter::empty::<std::future::Ready<Result<u8, ()>>>();
        assert_eq!(run(all_or_first_error(none, 4)), Ok(Vec::new()));
    }

    #[test]
    fn first_error_is_the_result() {
        let (under_way, most) = (Cell::new(0), Cell::new(0));
        let result = |number| if number == 2 { Err(number) } else { Ok(number) };
        let futures = (0..10).map(|number| second_time(result(number), &under_way, &most));
        assert_eq!(run(all_or_first_error(futures, 4)), Err(2));
    }
}
