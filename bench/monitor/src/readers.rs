//! Readers beside writers: the rate of each reader while few or most of the other clients write.
//! Half of the reads are the first events of a source, 800 bytes; the other half is the current
//! value of an aggregate.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::process::now;
use bench_common::reading::Measurement;
use bench_common::servers::Place;
use bench_common::workload::Draws;
use tokio::task::spawn_local;
use zerohop_client::{Range, Record};

use crate::Orders;
use crate::figures::{ClientFigures, Window};
use crate::layout::{AcknowledgedTotals, EVENT_BYTES, Event, SOURCES, Scope, aggregates, popular};
use crate::limits::PACE;
use crate::zerohop::{ChangeMethod, Monitor, failed, on};

/// Events that each source has at the start: 800 bytes, the size of one read.
const FIRST: usize = 50;

/// So many percent of the clients write, the others read; on one node.
pub(crate) fn run(place: &Place, percent: usize, orders: &Orders) -> Result<Measurement, Failure> {
    on(place, 1, orders, |_cluster, monitors| async move {
        let mut tally = fill(&monitors, orders).await?;
        let writers = (monitors.len() * percent / 100).max(1);
        let mut reading = Measurement::default();
        for (name, pace) in [("", None), ("paced: ", Some(PACE))] {
            let window = Window::from_now(orders);
            let mut tasks = Vec::with_capacity(monitors.len());
            for (client, monitor) in monitors.iter().cloned().enumerate() {
                let client = Client { monitor, number: client, writes: client < writers, pace };
                let draws = orders.draws(client.number, u64::from(pace.is_some()));
                tasks.push(spawn_local(async move { client.run(window, draws).await }));
            }
            let (mut read, mut written) = (ClientFigures::default(), ClientFigures::default());
            for (client, task) in tasks.into_iter().enumerate() {
                let done =
                    task.await.map_err(|fault| Failure::Protocol(format!("that a client {fault}")))??;
                if client < writers { written.merge(&done) } else { read.merge(&done) }
            }
            tally.merge(&written.tally);
            let rate = |done: &ClientFigures| done.latencies.count() as f64 / orders.seconds;
            let readers = (monitors.len() - writers) as f64;
            reading.put(&format!("{name}reads/s of a reader"), rate(&read) / readers);
            reading.put(&format!("{name}read p50 us"), read.latencies.percentile(0.5) as f64 / 1e3);
            reading.put(&format!("{name}read p99 us"), read.latencies.percentile(0.99) as f64 / 1e3);
            reading.put(&format!("{name}events K op/s"), rate(&written) / 1e3);
        }
        monitors[0].check(&tally).await?;
        Ok(reading)
    })
}

/// Gives every source its first events, which are not in any aggregate.
async fn fill(monitors: &[Monitor], orders: &Orders) -> Result<AcknowledgedTotals, Failure> {
    let tally = Rc::new(RefCell::new(AcknowledgedTotals::default()));
    let mut tasks = Vec::with_capacity(monitors.len());
    for (client, monitor) in monitors.iter().cloned().enumerate() {
        let (tally, clients) = (Rc::clone(&tally), monitors.len());
        let mut draws = orders.draws(client, 2);
        tasks.push(spawn_local(async move {
            for source in (client as u32..SOURCES).step_by(clients) {
                let events: Vec<Event> = (0..FIRST).map(|_| Event::draw(&mut draws).of(source)).collect();
                let bytes: Vec<[u8; EVENT_BYTES]> = events.iter().map(Event::bytes).collect();
                let values: Vec<&[u8]> = bytes.iter().map(<[u8; EVENT_BYTES]>::as_slice).collect();
                monitor.keyspace().append(monitor.source(source), &values).await.map_err(failed)?;
                tally.borrow_mut().append(source, FIRST as u64);
            }
            Ok::<_, Failure>(())
        }));
    }
    for task in tasks {
        task.await.map_err(|fault| Failure::Protocol(format!("that a client {fault}")))??;
    }
    let filled = tally.borrow().clone();
    Ok(filled)
}

struct Client {
    monitor: Monitor,
    number: usize,
    writes: bool,
    /// The interval between two operations; `None`: no pause.
    pace: Option<Duration>,
}

impl Client {
    async fn run(&self, window: Window, mut draws: Draws) -> Result<ClientFigures, Failure> {
        let mut done = ClientFigures::default();
        let mut seen = vec![0; aggregates()];
        // Paced clients start one after the other, not all at once.
        let mut due = now() + self.pace.unwrap_or_default().mul_f64(self.number as f64 / 128.0 % 1.0);
        loop {
            if self.pace.is_some() {
                tokio::time::sleep_until(due.into()).await;
            }
            let started = now();
            if started >= window.end {
                return Ok(done);
            }
            due = started.max(due + self.pace.unwrap_or_default());
            if self.writes {
                let event = Event::draw(&mut draws);
                self.monitor.add(ChangeMethod::Transforms, Scope::AllLevels, &event).await.map_err(failed)?;
                done.tally.add(&event, Scope::AllLevels);
            } else {
                self.read(&mut draws, &mut seen).await?;
            }
            done.finished(&window, started, now());
        }
    }

    async fn read(&self, draws: &mut Draws, seen: &mut [u64]) -> Result<(), Failure> {
        if draws.draw().is_multiple_of(2) {
            // The last aggregate is the global one.
            let aggregate = aggregates() - 1 - popular(aggregates(), draws);
            let found = self.monitor.aggregate(aggregate).await.map_err(failed)?;
            if found < seen[aggregate] {
                return Err(Failure::Protocol("less in an aggregate than it had before".into()));
            }
            seen[aggregate] = found;
            return Ok(());
        }
        let name = self.monitor.source(popular(SOURCES as usize, draws) as u32);
        let range = Range { start: 0, stop: FIRST as i64 };
        match self.monitor.keyspace().lookup_range(name, range).await.map_err(failed)? {
            Some(Record::List { values, .. })
                if values.len() == FIRST && values.iter().all(|value| value.len() == EVENT_BYTES) =>
            {
                Ok(())
            }
            found => Err(Failure::Protocol(format!("{found:?} to one that asks for events of {name}"))),
        }
    }
}
