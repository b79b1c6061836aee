//! The procedures of one simulated client: the same futures that `zerohop-client` polls on its runtime, here polled by the simulator's clock.
//!
//! ```text
//!   start ──> tasks ──> requests ──> the client's session, under tokens of their own
//!              ^  └───> sleeps ────> the client's next turn
//!              └── results, elapsed sleeps
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_session::procedures::{
    BackgroundTask, BatchSender, BoxFuture, ClusterHandle, ProcedureSettings, ProcedureShell, ReplySender,
    RequestResult,
};
use zerohop_session::{SessionError, SessionRequest};
use zerohop_wire::Failure;

/// The procedures of one life of a client.
pub(crate) struct ClientProcedures {
    state: Arc<SharedState>,
    tasks: BTreeMap<u64, Task>,
    /// The receivers of requests that the session executes, by token.
    open: BTreeMap<usize, ResultTarget>,
    batches: BTreeMap<u64, PendingBatch>,
    next_token: usize,
    next_batch: u64,
}

/// The state that the tasks reach through their handles.
struct SharedState(Mutex<ShellState>);

struct ShellState {
    now: Time,
    random: Random,
    requests: Vec<(SessionRequest, ReplySender)>,
    batches: Vec<(Vec<Result<SessionRequest, Failure<'static>>>, BatchSender)>,
    /// Sleeping tasks, by the end of their sleep.
    sleeps: BTreeMap<(Time, u64), Arc<SleepState>>,
    next_sleep: u64,
    started: Vec<(u64, Task)>,
    stopped: Vec<u64>,
    next_task: u64,
}

struct Task {
    future: BoxFuture,
    is_woken: Arc<WakeFlag>,
}

struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A sleep that a task awaits.
#[derive(Default)]
struct SleepState(Mutex<(bool, Option<Waker>)>);

struct Sleep(Arc<SleepState>);

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0.0);
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

enum ResultTarget {
    Caller(ReplySender),
    Batch { batch: u64, index: usize },
}

struct PendingBatch {
    results: Vec<Option<RequestResult>>,
    sender: BatchSender,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedState")
    }
}

impl fmt::Debug for ClientProcedures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientProcedures").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

/// The shell of one handle.
#[derive(Debug)]
struct SimulatedShell {
    state: Arc<SharedState>,
    /// Whether tasks in the background are executed.
    has_background: bool,
}

impl ProcedureShell for SimulatedShell {
    fn submit(&self, request: SessionRequest, reply: ReplySender) {
        lock(&self.state.0).requests.push((request, reply));
    }

    fn submit_all(&self, requests: Vec<(SessionRequest, ReplySender)>) {
        lock(&self.state.0).requests.extend(requests);
    }

    fn submit_batch(&self, requests: Vec<Result<SessionRequest, Failure<'static>>>, results: BatchSender) {
        lock(&self.state.0).batches.push((requests, results));
    }

    fn now(&self) -> Time {
        lock(&self.state.0).now
    }

    fn sleep(&self, time: Duration) -> BoxFuture {
        let mut state = lock(&self.state.0);
        let until = state.now.after_us(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        let sleep = Arc::new(SleepState::default());
        let number = state.next_sleep;
        state.next_sleep += 1;
        state.sleeps.insert((until, number), Arc::clone(&sleep));
        Box::pin(Sleep(sleep))
    }

    fn spawn(&self, task: BoxFuture) -> BackgroundTask {
        if !self.has_background {
            return BackgroundTask::stopped_by(|| ());
        }
        let number = lock(&self.state.0).start(task);
        let state = Arc::clone(&self.state);
        BackgroundTask::stopped_by(move || lock(&state.0).stopped.push(number))
    }

    fn random(&self) -> u64 {
        lock(&self.state.0).random.next_u64()
    }
}

impl ShellState {
    fn start(&mut self, future: BoxFuture) -> u64 {
        let number = self.next_task;
        self.next_task += 1;
        self.started.push((number, Task { future, is_woken: Arc::new(WakeFlag(AtomicBool::new(true))) }));
        number
    }
}

impl ClientProcedures {
    pub(crate) fn new(random: Random) -> Self {
        let state = ShellState {
            now: Time(0),
            random,
            requests: Vec::new(),
            batches: Vec::new(),
            sleeps: BTreeMap::new(),
            next_sleep: 0,
            started: Vec::new(),
            stopped: Vec::new(),
            next_task: 0,
        };
        Self {
            state: Arc::new(SharedState(Mutex::new(state))),
            tasks: BTreeMap::new(),
            open: BTreeMap::new(),
            batches: BTreeMap::new(),
            next_token: 0,
            next_batch: 0,
        }
    }

    /// A handle for procedures of this client.
    pub(crate) fn handle(&self, settings: ProcedureSettings) -> ClusterHandle {
        let shell = SimulatedShell { state: Arc::clone(&self.state), has_background: true };
        ClusterHandle::new(Box::new(shell), settings)
    }

    /// A handle whose tasks in the background never execute, as in a program that has no time for
    /// them.
    pub(crate) fn handle_without_background(&self, settings: ProcedureSettings) -> ClusterHandle {
        let shell = SimulatedShell { state: Arc::clone(&self.state), has_background: false };
        ClusterHandle::new(Box::new(shell), settings)
    }

    /// Starts a procedure. It is polled in the client's next turn.
    pub(crate) fn start(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.state.0).start(Box::pin(task));
    }

    /// Whether no procedure is in progress.
    #[cfg(test)]
    fn is_idle(&self) -> bool {
        self.tasks.is_empty() && lock(&self.state.0).started.is_empty()
    }

    /// Polls all tasks that are due until none of them is. Returns their requests, each with its token.
    pub(crate) fn run(&mut self, now: Time) -> Vec<(SessionRequest, usize)> {
        {
            let mut state = lock(&self.state.0);
            state.now = now;
            let later = state.sleeps.split_off(&(now.after_us(1), 0));
            for sleep in mem::replace(&mut state.sleeps, later).into_values() {
                let mut sleep = lock(&sleep.0);
                sleep.0 = true;
                if let Some(waker) = sleep.1.take() {
                    waker.wake();
                }
            }
        }
        let mut requests = Vec::new();
        loop {
            self.start_and_stop();
            let woken = self.tasks.iter().filter(|(_, task)| task.is_woken.0.swap(false, Ordering::Relaxed));
            let woken: Vec<u64> = woken.map(|(number, _)| *number).collect();
            if woken.is_empty() {
                return requests;
            }
            for number in woken {
                let Some(task) = self.tasks.get_mut(&number) else { continue };
                let waker = Waker::from(Arc::clone(&task.is_woken));
                if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    self.tasks.remove(&number);
                }
            }
            self.collect(&mut requests);
        }
    }

    /// A request has ended. Returns whether it was a request of a procedure.
    pub(crate) fn complete(&mut self, token: usize, result: RequestResult) -> bool {
        match self.open.remove(&token) {
            // The procedure may have been stopped; the result is then discarded.
            Some(ResultTarget::Caller(reply)) => drop(reply.send(result)),
            Some(ResultTarget::Batch { batch, index }) => self.complete_of_batch(batch, index, result),
            None => return false,
        }
        true
    }

    /// When the next sleep ends.
    pub(crate) fn next_due(&self) -> Option<Time> {
        lock(&self.state.0).sleeps.first_key_value().map(|((until, _), _)| *until)
    }

    fn start_and_stop(&mut self) {
        let (started, stopped) = {
            let mut state = lock(&self.state.0);
            (mem::take(&mut state.started), mem::take(&mut state.stopped))
        };
        self.tasks.extend(started);
        // A dropped task may stop others: the next round sees them.
        for number in stopped {
            drop(self.tasks.remove(&number));
        }
    }

    fn collect(&mut self, requests: &mut Vec<(SessionRequest, usize)>) {
        let (single, batches) = {
            let mut state = lock(&self.state.0);
            (mem::take(&mut state.requests), mem::take(&mut state.batches))
        };
        for (request, reply) in single {
            requests.push((request, self.open_token(ResultTarget::Caller(reply))));
        }
        for (all, sender) in batches {
            let batch = self.next_batch;
            self.next_batch += 1;
            let results = all.iter().map(|_| None).collect();
            self.batches.insert(batch, PendingBatch { results, sender });
            for (index, request) in all.into_iter().enumerate() {
                match request {
                    Ok(request) => {
                        requests.push((request, self.open_token(ResultTarget::Batch { batch, index })));
                    }
                    Err(failure) => {
                        self.complete_of_batch(batch, index, Err(SessionError::Answer { failure }));
                    }
                }
            }
        }
    }

    fn open_token(&mut self, target: ResultTarget) -> usize {
        let token = self.next_token;
        self.next_token += 1;
        self.open.insert(token, target);
        token
    }

    fn complete_of_batch(&mut self, batch: u64, index: usize, result: RequestResult) {
        let Some(pending) = self.batches.get_mut(&batch) else { return };
        let before = pending.results[index].replace(result);
        debug_assert!(before.is_none(), "a request ends once");
        if pending.results.iter().all(Option::is_some)
            && let Some(PendingBatch { results, sender }) = self.batches.remove(&batch)
        {
            drop(sender.send(results.into_iter().flatten().collect()));
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_session::Reply;
    use zerohop_wire::ids::{MapEpoch, Timestamp};

    use super::*;

    fn procedures() -> (ClientProcedures, ClusterHandle) {
        let procedures = ClientProcedures::new(Random::new(1));
        let settings = ProcedureSettings::new(Duration::from_secs(1));
        let handle = procedures.handle(settings);
        (procedures, handle)
    }

    fn done() -> RequestResult {
        Ok(Reply::Done { version: Timestamp(1), number: 1 })
    }

    #[test]
    fn task_sends_requests_and_continues_with_results_and_after_sleeps() {
        let (mut procedures, handle) = procedures();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let report = Arc::clone(&seen);
        procedures.start(async move {
            for _ in 0..2 {
                let result = handle.submit(SessionRequest::keyspace("k", MapEpoch(0), 1)).await;
                lock(&report).push(result.is_ok());
                handle.sleep(Duration::from_micros(10)).await;
            }
        });
        let first = procedures.run(Time(5));
        assert_eq!((first.len(), procedures.next_due(), lock(&seen).len()), (1, None, 0));
        assert!(procedures.complete(first[0].1, done()) && !procedures.complete(first[0].1, done()));
        assert!(procedures.run(Time(7)).is_empty());
        assert_eq!((procedures.next_due(), &lock(&seen)[..]), (Some(Time(17)), &[true][..]));
        assert!(procedures.run(Time(16)).is_empty());
        let second = procedures.run(Time(17));
        assert!(second.len() == 1 && procedures.complete(second[0].1, done()));
        assert!(procedures.run(Time(17)).is_empty() && !procedures.is_idle());
        assert!(procedures.run(Time(27)).is_empty() && procedures.is_idle());
    }

    #[test]
    fn background_task_ends_with_its_guard() {
        let (mut procedures, handle) = procedures();
        let (count, own) = (Arc::new(Mutex::new(0)), handle.clone());
        let counted = Arc::clone(&count);
        let shell = SimulatedShell { state: Arc::clone(&procedures.state), has_background: true };
        let guard = shell.spawn(Box::pin(async move {
            loop {
                own.sleep(Duration::from_micros(10)).await;
                *lock(&counted) += 1;
            }
        }));
        for at in 0..5 {
            assert!(procedures.run(Time(at * 10)).is_empty());
        }
        assert_eq!(*lock(&count), 4);
        drop(guard);
        procedures.run(Time(100));
        assert!(procedures.is_idle() && *lock(&count) == 4);
    }
}
