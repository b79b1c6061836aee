//! Objects of RADOS under locks in Redis. A client acquires the locks of all aggregates of an
//! event, reads these at once, and writes them at once with the appended event. Then it releases
//! the locks.

use std::ffi::CString;
use std::sync::Mutex;

use bench_common::ceph::{Ceph, POOL};
use bench_common::failure::Failure;
use bench_common::process::now;
use bench_common::reading::Measurement;
use bench_common::servers::Place;
use bench_common::usage::Cpu;
use bench_common::workload::Draws;

use crate::Orders;
use crate::figures::{ClientFigures, Window, put};
use crate::layout::{
    AcknowledgedTotals, EVENT_BYTES, Event, SOURCES, Scope, aggregate_name, aggregates, source_name,
};
use crate::librados::{Operation, Pool, Rados, text};
use crate::locks::{Locks, Redis};

/// Names of objects as C strings.
struct ObjectNames {
    aggregates: Vec<CString>,
    sources: Vec<CString>,
}

pub(crate) fn run(place: &Place, orders: &Orders) -> Result<Measurement, Failure> {
    let redis = Redis::start(place)?;
    let ceph = Ceph::start(place, true)?;
    let rados = Rados::connect(&ceph.configuration)?;
    let names = ObjectNames {
        aggregates: (0..aggregates()).map(|at| text(&aggregate_name(at))).collect::<Result<_, _>>()?,
        sources: (0..SOURCES).map(|at| text(&source_name(at))).collect::<Result<_, _>>()?,
    };
    let pool = rados.pool(POOL)?;
    let zero = 0_u64.to_le_bytes();
    names.aggregates.iter().try_for_each(|name| pool.all(&mut [Operation::Write(name, &zero)]))?;
    let used = || -> Result<Cpu, Failure> {
        let (ceph, redis) = (ceph.cpu()?, redis.cpu()?);
        Ok(Cpu { ran: ceph.ran + redis.ran, waited: ceph.waited + redis.waited })
    };
    let (mut reading, mut tally) = (Measurement::default(), AcknowledgedTotals::default());
    for scope in [Scope::AllLevels, Scope::Global] {
        let before = used()?;
        let done = phase(&rados, &redis, &names, scope, orders)?;
        let ran = used()?.since(before).ran;
        tally.merge(&done.tally);
        put(&mut reading, scope, &done, ran, orders);
    }
    check(&pool, &names, &tally)?;
    drop(pool);
    drop(rados);
    ceph.end()?;
    redis.end()?;
    Ok(reading)
}

/// Results of the threads that wait for the C library.
type SharedResults = Mutex<Vec<Result<ClientFigures, Failure>>>;

/// One thread per client, because the library blocks its caller.
fn phase(
    rados: &Rados,
    redis: &Redis,
    names: &ObjectNames,
    scope: Scope,
    orders: &Orders,
) -> Result<ClientFigures, Failure> {
    let mut clients = Vec::with_capacity(orders.clients);
    for _ in 0..orders.clients {
        clients.push(Locks::connect(redis.address)?);
    }
    let window = Window::from_now(orders);
    let handed = SharedResults::default();
    std::thread::scope(|scope_of_threads| {
        for (client, locks) in clients.into_iter().enumerate() {
            let (window, handed) = (&window, &handed);
            let draws = orders.draws(client, scope as u64);
            scope_of_threads.spawn(move || {
                let done = rados.pool(POOL).and_then(|pool| one(&pool, locks, names, scope, window, draws));
                handed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(done);
            });
        }
    });
    let handed = handed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if handed.len() != orders.clients {
        return Err(Failure::Protocol("that a client has ended before its time".into()));
    }
    let mut all = ClientFigures::default();
    for done in handed {
        all.merge(&done?);
    }
    Ok(all)
}

fn one(
    pool: &Pool<'_>,
    mut locks: Locks,
    names: &ObjectNames,
    scope: Scope,
    window: &Window,
    mut draws: Draws,
) -> Result<ClientFigures, Failure> {
    let mut done = ClientFigures::default();
    loop {
        let started = now();
        if started >= window.end {
            locks.drain()?;
            return Ok(done);
        }
        let event = Event::draw(&mut draws);
        let requested: Vec<usize> = event.aggregates(scope).collect();
        locks.take(&requested)?;
        add(pool, names, &event, &requested)?;
        locks.release(&requested)?;
        done.tally.add(&event, scope);
        done.finished(window, started, now());
    }
}

/// Adds an event, under the locks of these aggregates.
fn add(pool: &Pool<'_>, names: &ObjectNames, event: &Event, requested: &[usize]) -> Result<(), Failure> {
    let mut words = vec![[0; 8]; requested.len()];
    let named = |at: &usize| names.aggregates[*at].as_c_str();
    let reads = requested.iter().zip(&mut words);
    let mut reads: Vec<Operation<'_>> =
        reads.map(|(at, word)| Operation::Read(named(at), word.as_mut_slice())).collect();
    pool.all(&mut reads)?;
    drop(reads);
    for word in &mut words {
        *word = u64::from_le_bytes(*word).wrapping_add(event.adds()).to_le_bytes();
    }
    let bytes = event.bytes();
    let writes = requested.iter().zip(&words).map(|(at, word)| Operation::Write(named(at), word.as_slice()));
    let append = Operation::Append(&names.sources[event.source as usize], &bytes);
    let mut writes: Vec<Operation<'_>> = writes.chain([append]).collect();
    pool.all(&mut writes)
}

fn check(pool: &Pool<'_>, names: &ObjectNames, tally: &AcknowledgedTotals) -> Result<(), Failure> {
    let mut words = Vec::with_capacity(names.aggregates.len());
    for name in &names.aggregates {
        let mut word = [0; 8];
        pool.all(&mut [Operation::Read(name, &mut word)])?;
        words.push(u64::from_le_bytes(word));
    }
    let counts = names.sources.iter().map(|name| Ok(pool.bytes(name)? / EVENT_BYTES as u64));
    tally.check(&words, &counts.collect::<Result<Vec<u64>, Failure>>()?)
}
