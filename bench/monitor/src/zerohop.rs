//! Events on zerohop: each client has its own connections and one event under way.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bench_common::failure::Failure;
use bench_common::process::now;
use bench_common::reading::Measurement;
use bench_common::servers::{Cluster, KEYSPACE, Place};
use bench_common::workload::Draws;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use zerohop_client::{Client, ClientOptions, Error, Keyspace, Transform};

use crate::Orders;
use crate::figures::{ClientFigures, Window, put};
use crate::layout::{AcknowledgedTotals, Event, SOURCES, Scope, aggregate_name, aggregates, source_name};
use crate::limits::OPERATION;

/// How aggregates are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeMethod {
    /// In place, in one transaction with the appended event.
    Transforms,
    /// In place, each separately, all sent at once: the event is not atomic, and every aggregate is
    /// correct.
    Separate,
    /// Read, incremented and written, in one transaction with the appended event. The transaction
    /// is repeated after a conflict.
    Closures,
}

/// One client.
#[derive(Clone)]
pub(crate) struct Monitor {
    client: Client,
    keyspace: Keyspace,
    names: Rc<Names>,
}

struct Names {
    aggregates: Vec<String>,
    sources: Vec<String>,
}

/// The settings of the keyspace on so many nodes.
fn setting(nodes: u16) -> String {
    let (replicas, in_sync) = if nodes > 1 { (3, 2) } else { (1, 1) };
    format!("--durability interval --replicas {replicas} --min-in-sync {in_sync}")
}

/// Starts so many nodes and their clients, and runs work on them, on a single-threaded runtime.
pub(crate) fn on<F>(
    place: &Place,
    nodes: u16,
    orders: &Orders,
    work: impl FnOnce(Rc<Cluster>, Vec<Monitor>) -> F,
) -> Result<Measurement, Failure>
where
    F: Future<Output = Result<Measurement, Failure>>,
{
    let cluster = Rc::new(Cluster::start(place, nodes, &setting(nodes))?);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::while_doing("starting the clients' runtime"))?;
    let measured = LocalSet::new().block_on(&runtime, async {
        let monitors = monitors(&cluster, orders.clients).await?;
        work(Rc::clone(&cluster), monitors).await
    });
    drop(runtime);
    let reading = measured?;
    Rc::into_inner(cluster).map_or(Ok(()), Cluster::end)?;
    Ok(reading)
}

pub(crate) fn run(
    place: &Place,
    nodes: u16,
    how: ChangeMethod,
    orders: &Orders,
) -> Result<Measurement, Failure> {
    on(place, nodes, orders, |cluster, monitors| async move {
        let (mut reading, mut tally) = (Measurement::default(), AcknowledgedTotals::default());
        for scope in [Scope::AllLevels, Scope::Global] {
            let before = cluster.cpu()?;
            let done = phase(&monitors, how, scope, orders).await?;
            let ran = cluster.cpu()?.since(before).ran;
            tally.merge(&done.tally);
            put(&mut reading, scope, &done, ran, orders);
        }
        monitors[0].check(&tally).await?;
        Ok(reading)
    })
}

async fn monitors(cluster: &Cluster, clients: usize) -> Result<Vec<Monitor>, Failure> {
    let endpoints: Vec<String> = cluster.addresses.iter().map(ToString::to_string).collect();
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    let names = Rc::new(Names {
        aggregates: (0..aggregates()).map(aggregate_name).collect(),
        sources: (0..SOURCES).map(source_name).collect(),
    });
    let mut all = Vec::with_capacity(clients);
    for _ in 0..clients {
        let options = ClientOptions { deadline: OPERATION, ..ClientOptions::default() };
        let client = Client::connect_with(&endpoints, options).await.map_err(failed)?;
        let keyspace = client.keyspace(KEYSPACE).await.map_err(failed)?;
        all.push(Monitor { client, keyspace, names: Rc::clone(&names) });
    }
    Ok(all)
}

async fn phase(
    monitors: &[Monitor],
    how: ChangeMethod,
    scope: Scope,
    orders: &Orders,
) -> Result<ClientFigures, Failure> {
    let window = Window::from_now(orders);
    let mut tasks = Vec::with_capacity(monitors.len());
    for (client, monitor) in monitors.iter().cloned().enumerate() {
        let draws = orders.draws(client, scope as u64);
        tasks.push(spawn_local(async move { monitor.write(how, scope, window, draws).await }));
    }
    let mut all = ClientFigures::default();
    for task in tasks {
        all.merge(&task.await.map_err(|fault| Failure::Protocol(format!("that a client {fault}")))??);
    }
    Ok(all)
}

impl Monitor {
    async fn write(
        &self,
        how: ChangeMethod,
        scope: Scope,
        window: Window,
        mut draws: Draws,
    ) -> Result<ClientFigures, Failure> {
        let mut done = ClientFigures::default();
        loop {
            let started = now();
            if started >= window.end {
                return Ok(done);
            }
            let event = Event::draw(&mut draws);
            match self.add(how, scope, &event).await {
                Ok(attempts) => {
                    done.attempts += attempts;
                    done.tally.add(&event, scope);
                    done.finished(&window, started, now());
                }
                // It had conflicts until its time limit, and has no effect.
                Err(error) if error.is_conflict() => done.given_up += 1,
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Adds an event. Returns the number of attempts.
    pub(crate) async fn add(&self, how: ChangeMethod, scope: Scope, event: &Event) -> Result<u64, Error> {
        let Monitor { client, keyspace, .. } = self;
        let (bytes, adds) = (event.bytes(), event.adds());
        let (values, source) = ([bytes.as_slice()], self.source(event.source));
        let requested: Vec<&str> =
            event.aggregates(scope).map(|at| self.names.aggregates[at].as_str()).collect();
        let (values, requested, attempts) = (&values, &requested, &Cell::new(0));
        match how {
            ChangeMethod::Transforms => {
                let work = |transaction: zerohop_client::Transaction| async move {
                    attempts.set(attempts.get() + 1);
                    transaction.write(keyspace.append(source, values))?;
                    for name in requested {
                        transaction.write(keyspace.transform_silently(*name, Transform::add(adds)))?;
                    }
                    Ok(())
                };
                client.transaction(work).await?;
            }
            ChangeMethod::Separate => {
                attempts.set(1);
                let append = boxed(async { keyspace.append(source, values).await.map(drop) });
                let transforms = requested.iter().map(|name| {
                    let transform = keyspace.transform_silently(*name, Transform::add(adds));
                    boxed(async { transform.await.map(drop) })
                });
                all(transforms.chain([append]).collect()).await?;
            }
            ChangeMethod::Closures => {
                let work = |transaction: zerohop_client::Transaction| async move {
                    attempts.set(attempts.get() + 1);
                    transaction.write(keyspace.append(source, values))?;
                    let reads =
                        requested.iter().map(|name| boxed(transaction.read(keyspace.lookup_bytes(*name))));
                    let found = all(reads.collect()).await?;
                    for (name, word) in requested.iter().zip(found) {
                        let word = number(word.as_deref()).wrapping_add(adds);
                        transaction.insert(keyspace, *name, &word.to_le_bytes())?;
                    }
                    Ok(())
                };
                client.transaction(work).await?;
            }
        }
        Ok(attempts.get())
    }

    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    pub(crate) fn source(&self, source: u32) -> &str {
        &self.names.sources[source as usize]
    }

    /// The value of an aggregate.
    pub(crate) async fn aggregate(&self, aggregate: usize) -> Result<u64, Error> {
        let found = self.keyspace.lookup_bytes(&self.names.aggregates[aggregate]).await?;
        Ok(number(found.as_deref()))
    }

    /// Reads everything back and compares it.
    pub(crate) async fn check(&self, tally: &AcknowledgedTotals) -> Result<(), Failure> {
        let mut words = Vec::with_capacity(aggregates());
        for aggregate in 0..aggregates() {
            words.push(self.aggregate(aggregate).await.map_err(failed)?);
        }
        let mut counts = Vec::with_capacity(SOURCES as usize);
        for source in 0..SOURCES {
            let found = self.keyspace.inspect(self.source(source)).await.map_err(failed)?;
            counts.push(found.map_or(0, |info| info.length));
        }
        tally.check(&words, &counts)
    }
}

/// A missing aggregate counts as 0.
fn number(bytes: Option<&[u8]>) -> u64 {
    bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

type PendingCall<'a, R> = Pin<Box<dyn Future<Output = Result<R, Error>> + 'a>>;

fn boxed<'a, R>(future: impl Future<Output = Result<R, Error>> + 'a) -> PendingCall<'a, R> {
    Box::pin(future)
}

/// The results of all calls, in their order; or the first error, once all have ended.
async fn all<R>(mut under_way: Vec<PendingCall<'_, R>>) -> Result<Vec<R>, Error> {
    let mut results: Vec<Option<Result<R, Error>>> = under_way.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (one, place) in under_way.iter_mut().zip(&mut results) {
            if place.is_none()
                && let Poll::Ready(result) = one.as_mut().poll(context)
            {
                *place = Some(result);
            }
        }
        if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}

pub(crate) fn failed(error: Error) -> Failure {
    Failure::Protocol(error.to_string())
}
