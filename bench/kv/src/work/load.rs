//! The load generator's work: repeated turns of lookups, removes and inserts of a chunk of the
//! records.
//!
//! All records exist at the beginning and the end of a turn. So every operation has its effect in
//! each turn, and the store's size is constant. The first turn is a warm-up and is not counted.

use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::generator::{Generator, KeySource, Table};
use bench_common::histogram::Histogram;
use bench_common::process::now;
use bench_common::protocol::{Op, Protocol, Resp, Routing, Zerohop, connect};
use bench_common::reading::Measurement;
use bench_common::usage::{Cpu, own_cpu, resident_bytes};
use bench_common::workload::{Records, shuffled};

use super::{OPERATIONS, Orders};
use crate::limits::PRELOAD_DEPTH;
use crate::memcached::Memcached;
use crate::subjects::{RunningServer, Subject};

pub(super) struct Load {
    pub(super) connections: usize,
    pub(super) depth: usize,
    pub(super) chunk: usize,
}

/// The totals of one operation over all turns.
struct Sums {
    op: Op,
    took: Duration,
    server: Cpu,
    client: Duration,
    latencies: Histogram,
}

impl Load {
    pub(super) fn put_on(
        &self,
        subject: Subject,
        running: &RunningServer,
        orders: &Orders,
    ) -> Result<Measurement, Failure> {
        let table = Table::new(Records::new(orders.records, orders.seed));
        match subject {
            Subject::Redis { .. } => {
                self.measure(self.plain::<Resp>(running.address)?, table, running, orders)
            }
            Subject::Memcached => {
                self.measure(self.plain::<Memcached>(running.address)?, table, running, orders)
            }
            Subject::Zerohop { .. } | Subject::Bare => {
                let routing = Rc::new(Routing::fetch(running.address, running.keyspace, table.records())?);
                if routing.instances() != 1 {
                    return Err(Failure::Protocol("a map of several instances; one is measured".into()));
                }
                let open = |_| Zerohop::open(&routing, 0);
                let connections = (0..self.connections).map(open).collect::<Result<_, _>>()?;
                self.measure(connections, table, running, orders)
            }
        }
    }

    fn plain<P: Default>(&self, address: SocketAddr) -> Result<Vec<(TcpStream, P)>, Failure> {
        (0..self.connections).map(|_| Ok((connect(address)?, P::default()))).collect()
    }

    fn measure<P: Protocol>(
        &self,
        connections: Vec<(TcpStream, P)>,
        mut table: Table,
        running: &RunningServer,
        orders: &Orders,
    ) -> Result<Measurement, Failure> {
        let mut generator = Generator::new(connections)?;
        let order = shuffled(orders.records, orders.seed);
        generator.run(
            Op::Insert,
            KeySource::once(&order),
            PRELOAD_DEPTH,
            &mut table,
            &mut Histogram::new(),
        )?;

        let pid = running.server.pid();
        let sums = |op| Sums {
            op,
            took: Duration::ZERO,
            server: Cpu::default(),
            client: Duration::ZERO,
            latencies: Histogram::new(),
        };
        let limit = Duration::from_secs_f64(orders.seconds * OPERATIONS.len() as f64);
        let mut counted = [sums(Op::Lookup), sums(Op::Remove), sums(Op::Insert)];
        let mut uncounted = [sums(Op::Lookup), sums(Op::Remove), sums(Op::Insert)];
        for (turn, chunk) in order.chunks(self.chunk).cycle().enumerate() {
            for sums in if turn == 0 { &mut uncounted } else { &mut counted } {
                let (server, client, start) = (Cpu::of(pid)?, own_cpu(), now());
                generator.run(
                    sums.op,
                    KeySource::once(chunk),
                    self.depth,
                    &mut table,
                    &mut sums.latencies,
                )?;
                sums.took += now() - start;
                sums.client += own_cpu() - client;
                let server = Cpu::of(pid)?.since(server);
                sums.server.ran += server.ran;
                sums.server.waited += server.waited;
            }
            if counted.iter().map(|sums| sums.took).sum::<Duration>() >= limit {
                break;
            }
        }
        let mut reading = read(&counted);
        reading.put("server resident MiB", resident_bytes(pid)? as f64 / f64::from(1 << 20));
        Ok(reading)
    }
}

fn read(counted: &[Sums]) -> Measurement {
    let mut reading = Measurement::default();
    for (op, name) in OPERATIONS {
        for sums in counted.iter().filter(|sums| sums.op == op) {
            let ops = sums.latencies.count() as f64;
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            let mut put = |figure: &str, value: f64| reading.put(&format!("{name} {figure}"), value);
            put("K op/s", ops / sums.took.as_secs_f64() / 1e3);
            put("mean us", sums.latencies.mean() / 1e3);
            for (figure, part) in [("p50 us", 0.5), ("p99 us", 0.99), ("p99.9 us", 0.999)] {
                put(figure, sums.latencies.percentile(part) as f64 / 1e3);
            }
            put("server CPU us/op", us(sums.server.ran) / ops);
            put("client CPU us/op", us(sums.client) / ops);
        }
    }
    let total = |time: fn(&Sums) -> Duration| counted.iter().map(time).sum::<Duration>().as_secs_f64();
    let ops: u64 = counted.iter().map(|sums| sums.latencies.count()).sum();
    reading.put("server CPU us/op", total(|sums| sums.server.ran) * 1e6 / ops as f64);
    let took = total(|sums| sums.took);
    reading.put("server's core busy %", total(|sums| sums.server.ran) * 100.0 / took);
    reading.put("client's core busy %", total(|sums| sums.client) * 100.0 / took);
    reading.put("server kept waiting %", total(|sums| sums.server.waited) * 100.0 / took);
    reading
}
