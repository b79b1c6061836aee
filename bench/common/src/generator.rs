//! The load generator: one thread with one epoll. Each connection has a fixed number of outstanding
//! requests.
//!
//! A connection sends a turn's requests in one write, and the next turn's when all are answered; so
//! a depth of one is a closed loop. The same code drives every server. Every answer is checked; a
//! wrong one ends the run.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::failure::Failure;
use crate::histogram::Histogram;
use crate::limits::{ANSWER_WAIT, RECEIVE_BYTES};
use crate::protocol::{Answer, AnswerContent, Op, Protocol, Request};
use crate::readiness::{Events, Readiness, Watch};
use crate::workload::Records;

/// The records, and the last stored version of each.
pub struct Table {
    records: Records,
    versions: Vec<u8>,
}

impl Table {
    /// A table of records that were never stored.
    pub fn new(records: Records) -> Table {
        let versions = vec![0; records.count() as usize];
        Table { records, versions }
    }

    /// All records.
    pub fn records(&self) -> &Records {
        &self.records
    }
}

/// Connections to one server.
pub struct Generator<P> {
    readiness: Readiness,
    connections: Vec<Connection<P>>,
    events: Events,
}

struct Connection<P> {
    /// Index of the server whose keys the connection uses.
    server: usize,
    stream: TcpStream,
    protocol: P,
    /// The records of this turn, by slot; answered ones are marked.
    outstanding: Vec<OutstandingRequest>,
    /// How many of them are not answered.
    waiting: usize,
    /// When the turn was sent.
    since: Instant,
    out: Vec<u8>,
    sent: usize,
    waits_for_room: bool,
    received: Vec<u8>,
    filled: usize,
}

#[derive(Clone, Copy)]
struct OutstandingRequest {
    index: u32,
    is_answered: bool,
}

/// The records to use: each server has an ordered list that its connections share.
pub struct KeySource<'a> {
    sequences: Vec<KeySequence<'a>>,
    /// Repeat until then; `None`: once.
    until: Option<Instant>,
}

struct KeySequence<'a> {
    order: &'a [u32],
    at: usize,
}

impl<'a> KeySource<'a> {
    /// Each record of one list once.
    pub fn once(order: &'a [u32]) -> KeySource<'a> {
        KeySource { sequences: vec![KeySequence { order, at: 0 }], until: None }
    }

    /// Each record of all servers once, or repeatedly until a time. A list must have more records
    /// than its connections have outstanding requests.
    pub fn of_servers(orders: &'a [Vec<u32>], until: Option<Instant>) -> KeySource<'a> {
        KeySource { sequences: orders.iter().map(|order| KeySequence { order, at: 0 }).collect(), until }
    }

    /// At most so many of a server's next records; none at the end.
    fn take(&mut self, server: usize, count: usize) -> &'a [u32] {
        let sequence = &mut self.sequences[server];
        if self.until.is_some_and(|until| now() >= until) {
            return &[];
        }
        if self.until.is_some() && sequence.at == sequence.order.len() {
            sequence.at = 0;
        }
        let from = sequence.at;
        sequence.at = (from + count).min(sequence.order.len());
        &sequence.order[from..sequence.at]
    }
}

/// The state of a step.
struct Step<'a> {
    op: Op,
    depth: usize,
    source: KeySource<'a>,
    table: &'a mut Table,
    latencies: &'a mut Histogram,
}

impl<P: Protocol> Generator<P> {
    /// For open connections, all of the first server.
    ///
    /// # Errors Those of the system.
    pub fn new(connections: Vec<(TcpStream, P)>) -> Result<Generator<P>, Failure> {
        Generator::of_servers(
            connections.into_iter().map(|(stream, protocol)| (0, stream, protocol)).collect(),
        )
    }

    /// For open connections, each with the index of its server.
    ///
    /// # Errors Those of the system.
    pub fn of_servers(connections: Vec<(usize, TcpStream, P)>) -> Result<Generator<P>, Failure> {
        let preparing = || Failure::while_doing("preparing the connections");
        let readiness = Readiness::new().map_err(preparing())?;
        let mut prepared = Vec::with_capacity(connections.len());
        for (name, (server, stream, protocol)) in connections.into_iter().enumerate() {
            stream.set_nonblocking(true).map_err(preparing())?;
            readiness.add(&stream, name as u64).map_err(preparing())?;
            prepared.push(Connection::new(server, stream, protocol));
        }
        Ok(Generator { readiness, connections: prepared, events: Events::default() })
    }

    /// Executes one operation for each of these records, at most `depth` at a time on each
    /// connection. Records each latency from the write that sent the request to the read that
    /// returned its answer.
    ///
    /// # Errors A wrong answer, or none in time.
    pub fn run(
        &mut self,
        op: Op,
        source: KeySource<'_>,
        depth: usize,
        table: &mut Table,
        latencies: &mut Histogram,
    ) -> Result<(), Failure> {
        let mut step = Step { op, depth, source, table, latencies };
        let mut busy = 0;
        for (name, connection) in self.connections.iter_mut().enumerate() {
            busy += usize::from(connection.begin_turn(&mut step, &self.readiness, name)?);
        }
        while busy > 0 {
            let waiting = Failure::while_doing("waiting for answers");
            if !self.readiness.wait(&mut self.events, Some(ANSWER_WAIT)).map_err(waiting)? {
                return Err(Failure::TimedOut(ANSWER_WAIT));
            }
            for ready in self.events.drain() {
                let name = ready.name as usize;
                let connection = &mut self.connections[name];
                if ready.sends {
                    connection.send(&self.readiness, name)?;
                }
                if ready.receives {
                    connection.receive(&mut step)?;
                }
                let is_done = connection.waiting == 0 && !connection.outstanding.is_empty();
                if is_done && !connection.begin_turn(&mut step, &self.readiness, name)? {
                    busy -= 1;
                }
            }
        }
        Ok(())
    }
}

impl<P: Protocol> Connection<P> {
    fn new(server: usize, stream: TcpStream, protocol: P) -> Connection<P> {
        Connection {
            server,
            stream,
            protocol,
            outstanding: Vec::new(),
            waiting: 0,
            since: now(),
            out: Vec::new(),
            sent: 0,
            waits_for_room: false,
            received: vec![0; RECEIVE_BYTES],
            filled: 0,
        }
    }

    /// Sends the next requests, if there are any.
    fn begin_turn(
        &mut self,
        step: &mut Step<'_>,
        readiness: &Readiness,
        name: usize,
    ) -> Result<bool, Failure> {
        let these = step.source.take(self.server, step.depth);
        self.outstanding.clear();
        self.waiting = these.len();
        if these.is_empty() {
            return Ok(false);
        }
        self.protocol.begin_turn();
        (self.sent, _) = (0, self.out.clear());
        for (slot, &index) in these.iter().enumerate() {
            let version = &mut step.table.versions[index as usize];
            if step.op == Op::Insert {
                *version = version.wrapping_add(1);
            }
            let (key, value) = (step.table.records.key(index), step.table.records.value(index, *version));
            let request = Request { op: step.op, index, key, value, slot };
            self.protocol.request(&request, &mut self.out)?;
            self.outstanding.push(OutstandingRequest { index, is_answered: false });
        }
        self.since = now();
        self.send(readiness, name)?;
        Ok(true)
    }

    /// Writes once; watches for room if that was not all.
    fn send(&mut self, readiness: &Readiness, name: usize) -> Result<(), Failure> {
        match self.stream.write(&self.out[self.sent..]) {
            Ok(count) => self.sent += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(source) => return Err(Failure::while_doing("sending requests")(source)),
        }
        let is_behind = self.sent < self.out.len();
        if is_behind != self.waits_for_room {
            self.waits_for_room = is_behind;
            let watch = if is_behind { Watch::Both } else { Watch::Receive };
            readiness
                .change(&self.stream, name as u64, watch)
                .map_err(Failure::while_doing("waiting for room to send"))?;
        }
        Ok(())
    }

    /// Reads once, and checks the received answers.
    fn receive(&mut self, step: &mut Step<'_>) -> Result<(), Failure> {
        match self.stream.read(&mut self.received[self.filled..]) {
            Ok(0) => return Err(Failure::Protocol("nothing more: it closed the connection".into())),
            Ok(count) => self.filled += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(source) => return Err(Failure::while_doing("receiving answers")(source)),
        }
        let took = (now() - self.since).as_nanos() as u64;
        let (mut at, mut answers) = (0, 0);
        while at < self.filled {
            let answer = self.protocol.answer(step.op, &self.received[at..self.filled])?;
            let Answer::Whole { used, slot, content } = answer else { break };
            let Some(OutstandingRequest { index, is_answered: is_answered @ false }) =
                self.outstanding.get_mut(slot)
            else {
                return Err(Failure::Protocol("an answer without a request".into()));
            };
            *is_answered = true;
            check(step.op, *index, &content, step.table)?;
            at += used;
            answers += 1;
        }
        if answers == 0 && self.filled == self.received.len() {
            return Err(Failure::Protocol("an answer longer than any to these requests".into()));
        }
        self.received.copy_within(at..self.filled, 0);
        self.filled -= at;
        self.waiting -= answers;
        step.latencies.record(took, answers as u64);
        Ok(())
    }
}

/// Checks an answer. Inserts are only of absent records, and removes only of present ones.
fn check(op: Op, index: u32, content: &AnswerContent<'_>, table: &Table) -> Result<(), Failure> {
    let what = match (op, content) {
        (Op::Insert | Op::Remove, AnswerContent::Done) => return Ok(()),
        (Op::Lookup, AnswerContent::Value(value)) => {
            if *value == table.records.value(index, table.versions[index as usize]) {
                return Ok(());
            }
            "has a wrong value".to_owned()
        }
        (_, AnswerContent::Absent) => "is missing".to_owned(),
        (_, content) => format!("was answered to {op:?} by {content:?}"),
    };
    Err(Failure::WrongAnswer { key: *table.records.key(index), what })
}

#[expect(clippy::disallowed_methods, reason = "a load generator measures time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Resp;
    use std::net::TcpListener;

    /// Runs lookups of ten records on two connections, five outstanding on each. The server sends
    /// `answers` on each connection once it has its requests.
    #[expect(clippy::disallowed_methods, reason = "a server for the generator to talk to")]
    fn lookups(answers: impl Fn(&[&[u8]]) -> Vec<u8>) -> Result<u64, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut table = Table::new(Records::new(10, 1));
        let clients = (0..2).map(|_| (TcpStream::connect(address).unwrap(), Resp::default())).collect();
        let mut generator = Generator::new(clients).unwrap();
        // The data fits the sockets' buffers, so one thread can play both sides: answers are sent
        // in advance.
        let mut servers = Vec::new();
        for turn in 0..2 {
            let (mut server, _) = listener.accept().unwrap();
            let values: Vec<&[u8]> =
                (0..5).map(|at| table.records.value(turn * 5 + at, 0).as_slice()).collect();
            server.write_all(&answers(&values)).unwrap();
            servers.push(server);
        }
        let mut latencies = Histogram::new();
        let order: Vec<u32> = (0..10).collect();
        generator.run(Op::Lookup, KeySource::once(&order), 5, &mut table, &mut latencies)?;
        Ok(latencies.count())
    }

    fn resp(value: &[u8]) -> Vec<u8> {
        [b"$132\r\n", value, b"\r\n"].concat()
    }

    #[test]
    fn right_answers_are_counted() {
        let all = lookups(|values| values.iter().flat_map(|value| resp(value)).collect());
        assert_eq!(all.unwrap(), 10);
    }

    #[test]
    fn wrong_missing_or_unexpected_answer_ends_the_run() {
        let swapped = lookups(|values| values.iter().rev().flat_map(|value| resp(value)).collect());
        assert!(swapped.unwrap_err().to_string().contains("wrong value"));
        let missing = lookups(|values| [&resp(values[0])[..], b"$-1\r\n"].concat());
        assert!(missing.unwrap_err().to_string().contains("is missing"));
        let refused = lookups(|_| b"-ERR no\r\n".to_vec());
        assert!(refused.unwrap_err().to_string().contains("-ERR no"));
        let many = lookups(|values| [values, &values[..1]].concat().into_iter().flat_map(resp).collect());
        assert!(many.unwrap_err().to_string().contains("without a request"));
    }
}
