//! Locks in Redis, one per aggregate: a list with one token, which the lock's holder has removed.
//! Waiters are served in order and ask once, so there are no repeated attempts. All locks of an
//! event are requested together and acquired one after the other. The lock of a client that has
//! died is never released; a production system would have to do that.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::limits::{COMMAND, END, SERVING, STATUS_POLL};
use bench_common::process::{self, Server};
use bench_common::protocol::connect;
use bench_common::servers::Place;
use bench_common::usage::Cpu;

use crate::layout::aggregates;
use crate::limits::LOCK_SECONDS;

/// The program that must be installed.
pub(crate) fn installed() -> Result<PathBuf, String> {
    process::installed("redis-cli", "bench/monitor/install")?;
    process::installed("redis-server", "bench/monitor/install")
}

/// The server of the locks, in memory only.
pub(crate) struct Redis {
    pub(crate) address: SocketAddr,
    server: Server,
}

impl Redis {
    /// Starts it, and creates the locks of all aggregates.
    pub(crate) fn start(place: &Place) -> Result<Redis, Failure> {
        let program = installed().map_err(Failure::Usage)?;
        let port = process::free_ports(1)?;
        let line = format!("--bind 127.0.0.1 --port {port} --appendonly no --maxclients 4096 --save  --dir");
        let dir = place.dir.display().to_string();
        // The argument after `--save` is empty: it saves nothing.
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).chain([dir]).collect();
        let mut redis =
            Redis { address: ([127, 0, 0, 1], port).into(), server: place.start(&program, &arguments)? };
        let deadline = process::now() + SERVING;
        while ping(port).is_err() {
            redis.server.check()?;
            if process::now() >= deadline {
                return Err(Failure::TimedOut(SERVING));
            }
            process::pause(STATUS_POLL);
        }
        let all: Vec<usize> = (0..aggregates()).collect();
        let mut locks = Locks::connect(redis.address)?;
        locks.release(&all)?;
        locks.drain()?;
        Ok(redis)
    }

    /// Its CPU time.
    pub(crate) fn cpu(&self) -> Result<Cpu, Failure> {
        Cpu::of(self.server.pid())
    }

    /// Stops it in order, and waits.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.server.end(END)
    }
}

fn ping(port: u16) -> Result<(), Failure> {
    process::output(Command::new("redis-cli").args(["-p", &port.to_string(), "ping"]), COMMAND).map(drop)
}

/// One client's connection.
pub(crate) struct Locks {
    stream: BufReader<TcpStream>,
    /// Releases whose answers are not read yet.
    unread: usize,
    text: String,
}

impl Locks {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr) -> Result<Locks, Failure> {
        let stream = connect(address)?;
        let limit = Duration::from_secs(2 * LOCK_SECONDS);
        stream.set_read_timeout(Some(limit)).map_err(Failure::while_doing("setting up a socket"))?;
        Ok(Locks { stream: BufReader::new(stream), unread: 0, text: String::new() })
    }

    /// Waits for the locks of these aggregates and acquires them in this order.
    pub(crate) fn take(&mut self, aggregates: &[usize]) -> Result<(), Failure> {
        self.text.clear();
        for aggregate in aggregates {
            self.text.push_str(&format!("BLPOP lock-{aggregate} {LOCK_SECONDS}\r\n"));
        }
        self.send()?;
        self.drain()?;
        for aggregate in aggregates {
            // Two strings, each with a line for its length: the lock's name, and the token.
            if self.line()? != "*2" {
                return Err(Failure::Protocol(format!(
                    "{} to one that waits for lock {aggregate}",
                    self.text
                )));
            }
            for _ in 0..4 {
                self.line()?;
            }
        }
        Ok(())
    }

    /// Releases them in reverse order, and does not wait for the answers.
    pub(crate) fn release(&mut self, aggregates: &[usize]) -> Result<(), Failure> {
        self.text.clear();
        for aggregate in aggregates.iter().rev() {
            self.text.push_str(&format!("LPUSH lock-{aggregate} 1\r\n"));
        }
        self.unread += aggregates.len();
        self.send()
    }

    /// Reads the remaining answers to releases.
    pub(crate) fn drain(&mut self) -> Result<(), Failure> {
        for _ in 0..std::mem::take(&mut self.unread) {
            // A second token in the list would mean two holders of one lock.
            if !self.line()?.starts_with(':') || self.text == ":2" {
                return Err(Failure::Protocol(format!("{} to one that gives a lock back", self.text)));
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Failure> {
        self.stream.get_mut().write_all(self.text.as_bytes()).map_err(Failure::while_doing("asking Redis"))
    }

    fn line(&mut self) -> Result<&str, Failure> {
        self.text.clear();
        let read =
            self.stream.read_line(&mut self.text).map_err(Failure::while_doing("listening to Redis"))?;
        if read == 0 {
            return Err(Failure::Protocol("nothing more, and was Redis".into()));
        }
        self.text.truncate(self.text.trim_end().len());
        Ok(&self.text)
    }
}
