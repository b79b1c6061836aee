//! Inserts, then lookups: 32 connections, one request outstanding on each, driven by one thread; the same for all.
//!
//! Each connection uses one server. With zerohop it is an instance, which is asked for records of
//! the partitions that it leads by the map; each node has a third of the connections. With etcd,
//! which forwards, they go to all members or to the leader only.

use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::generator::{Generator, KeySource, Table};
use bench_common::histogram::Histogram;
use bench_common::process::now;
use bench_common::protocol::{Op, Protocol, Routing, Zerohop};
use bench_common::reading::Measurement;
use bench_common::usage::own_cpu;
use bench_common::workload::{Records, shuffled};

use super::Orders;
use crate::etcd::Etcd;
use crate::limits::{CLIENTS, WARM_UP};
use crate::servers::{Cluster, KEYSPACE, Place, Setting};

/// Connections, each with the index of its list of records.
type Connections<P> = Vec<(usize, TcpStream, P)>;

pub(super) fn on_zerohop(setting: Setting, place: Place, orders: &Orders) -> Result<Measurement, Failure> {
    let mut cluster = Cluster::of_zerohop(place)?;
    cluster.create_keyspace(setting)?;
    let table = Table::new(Records::new(orders.records, orders.seed));
    let routing = Rc::new(Routing::fetch(cluster.addresses[0], KEYSPACE, table.records())?);
    let keys = routing.split(&shuffled(orders.records, orders.seed));
    let open = |server| Zerohop::open(&routing, server).map(|(stream, protocol)| (server, stream, protocol));
    let connections = (0..CLIENTS).map(|client| open(client % keys.len())).collect::<Result<_, _>>()?;
    let reading = measure(connections, &keys, table, &cluster, orders);
    // A server that has ended explains more than the load's error.
    cluster.check()?;
    reading
}

pub(super) fn on_etcd(is_at_leader: bool, place: Place, orders: &Orders) -> Result<Measurement, Failure> {
    let mut cluster = Cluster::of_etcd(place)?;
    let members = match is_at_leader {
        true => vec![cluster.addresses[cluster.leader()?]],
        false => cluster.addresses.clone(),
    };
    let order = shuffled(orders.records, orders.seed);
    let keys: Vec<Vec<u32>> = (0..members.len())
        .map(|server| order.iter().skip(server).step_by(members.len()).copied().collect())
        .collect();
    let open =
        |server: usize| Etcd::open(members[server]).map(|(stream, protocol)| (server, stream, protocol));
    let connections = (0..CLIENTS).map(|client| open(client % keys.len())).collect::<Result<_, _>>()?;
    let table = Table::new(Records::new(orders.records, orders.seed));
    let reading = measure(connections, &keys, table, &cluster, orders);
    cluster.check()?;
    reading
}

fn measure<P: Protocol>(
    connections: Connections<P>,
    keys: &[Vec<u32>],
    mut table: Table,
    cluster: &Cluster,
    orders: &Orders,
) -> Result<Measurement, Failure> {
    let mut generator = Generator::of_servers(connections)?;
    generator.run(Op::Insert, KeySource::of_servers(keys, None), 1, &mut table, &mut Histogram::new())?;
    let mut reading = Measurement::default();
    for (op, name) in [(Op::Insert, "insert"), (Op::Lookup, "lookup")] {
        let mut for_seconds = |seconds: f64| {
            let (servers, client, start) = (cluster.cpu()?, own_cpu(), now());
            let mut latencies = Histogram::new();
            let source = KeySource::of_servers(keys, Some(start + Duration::from_secs_f64(seconds)));
            generator.run(op, source, 1, &mut table, &mut latencies)?;
            let took = (now() - start).as_secs_f64();
            Ok::<_, Failure>((latencies, took, cluster.cpu()?.since(servers), own_cpu() - client))
        };
        for_seconds(orders.seconds * WARM_UP)?;
        let (latencies, took, servers, client) = for_seconds(orders.seconds)?;
        let ops = latencies.count() as f64;
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let mut put = |figure: &str, value: f64| reading.put(&format!("{name} {figure}"), value);
        put("K op/s", ops / took / 1e3);
        put("mean us", latencies.mean() / 1e3);
        for (figure, part) in [("p50 us", 0.5), ("p99 us", 0.99), ("p99.9 us", 0.999)] {
            put(figure, latencies.percentile(part) as f64 / 1e3);
        }
        put("servers' CPU us/op", us(servers.ran) / ops);
        put("client CPU us/op", us(client) / ops);
        put("client busy %", client.as_secs_f64() * 100.0 / took);
        put("servers kept waiting us/op", us(servers.waited) / ops);
    }
    Ok(reading)
}
