//! The measured servers: how each is started, and when it counts as ready.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::process::{self, Server};
use bench_common::protocol;

use crate::limits::{COMMAND, COMMAND_POLL, START, START_POLL};

/// A server, and how it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A node of one instance.
    Zerohop {
        /// Of the measured keyspace, in the command line's terms.
        durability: &'static str,
        partitions: u32,
    },
    /// The bare store of this package.
    Bare,
    /// `redis-server`, without snapshots.
    Redis {
        /// Every write is on disk before its answer: `appendfsync always`.
        syncs: bool,
    },
    /// `memcached` with one thread.
    Memcached,
}

/// The measured keyspace.
const KEYSPACE: &str = "bench";

/// Where a server runs.
pub(crate) struct Place {
    /// This program, which is also the launcher and the bare store.
    pub(crate) own_program: PathBuf,
    pub(crate) core: usize,
    /// An empty folder for the server.
    pub(crate) dir: PathBuf,
}

/// A server that has answered.
pub(crate) struct RunningServer {
    pub(crate) server: Server,
    pub(crate) program: PathBuf,
    /// Its address; for a node the manager's.
    pub(crate) address: SocketAddr,
    /// The keyspace to use, for subjects with keyspaces.
    pub(crate) keyspace: &'static str,
    /// From its start to its first answer.
    pub(crate) ready: Duration,
}

impl Subject {
    /// Its program, if it is installed.
    pub(crate) fn program(self, own_program: &Path) -> Result<PathBuf, String> {
        let installed = |name| process::installed(name, "bench/kv/install");
        match self {
            Subject::Bare => Ok(own_program.into()),
            Subject::Redis { .. } => installed("redis-server"),
            Subject::Memcached => installed("memcached"),
            Subject::Zerohop { .. } => process::beside(own_program, "zerohop"),
        }
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start(self, place: &Place) -> Result<RunningServer, Failure> {
        let program = self.program(&place.own_program).map_err(Failure::Usage)?;
        // The next port is for a node's instance.
        let port = process::free_ports(2)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let arguments = self.arguments(port, &place.dir);
        let mut server = Server::start(&place.own_program, &[place.core], &program, &arguments)?;
        let ready = self.wait_until_ready(address, &mut server)?;
        let keyspace = match self {
            Subject::Zerohop { .. } => KEYSPACE,
            _ => "default",
        };
        Ok(RunningServer { server, program, address, keyspace, ready })
    }

    /// Creates the measured keyspace, for subjects with keyspaces.
    pub(crate) fn create_keyspace(self, running: &RunningServer) -> Result<(), Failure> {
        let Subject::Zerohop { durability, partitions } = self else { return Ok(()) };
        let mut command = Command::new(&running.program);
        command.args(["keyspace", "create", KEYSPACE, "--partitions", &partitions.to_string()]);
        command.args(["--durability", durability, "--endpoint", &running.address.to_string()]);
        // It answers reads a little before it accepts commands.
        let deadline = process::now() + START;
        loop {
            match process::output(&mut command, COMMAND) {
                Err(Failure::Child { .. }) if process::now() < deadline => process::pause(COMMAND_POLL),
                ended => return ended.map(|_| ()),
            }
        }
    }

    fn arguments(self, port: u16, dir: &Path) -> Vec<String> {
        let dir = dir.display();
        let line = match self {
            Subject::Zerohop { .. } => {
                format!("node --listen 127.0.0.1:{port} --data {dir}/node --instances 1")
            }
            Subject::Bare => format!("--bare 127.0.0.1:{port}"),
            Subject::Redis { syncs } => {
                let log = if syncs { "yes --appendfsync always" } else { "no" };
                format!("--port {port} --bind 127.0.0.1 --dir {dir} --save  --appendonly {log}")
            }
            // Run as root, it needs permission to stay root: a change of user would clear the
            // parent-death signal.
            Subject::Memcached => {
                format!("-u root -l 127.0.0.1 -p {port} -U 0 -m 2048 -t 1 -c 1024")
            }
        };
        // Two spaces in a row surround an empty argument.
        line.split(' ').map(str::to_owned).collect()
    }

    fn wait_until_ready(self, address: SocketAddr, server: &mut Server) -> Result<Duration, Failure> {
        loop {
            server.check()?;
            let answered = match self {
                Subject::Zerohop { .. } | Subject::Bare => protocol::is_ready(address),
                Subject::Redis { .. } => greeting(address, b"PING\r\n", b"+PONG\r\n"),
                Subject::Memcached => greeting(address, b"version\r\n", b"VERSION "),
            };
            let passed = process::now() - server.started;
            match answered {
                Ok(()) => return Ok(passed),
                Err(error) if passed >= START => return Err(error),
                Err(_) => process::pause(START_POLL),
            }
        }
    }
}

fn greeting(address: SocketAddr, question: &[u8], answer: &[u8]) -> Result<(), Failure> {
    let asking = || Failure::while_doing(format!("greeting {address}"));
    let mut stream = protocol::connect(address)?;
    stream.write_all(question).map_err(asking())?;
    let mut received = vec![0; answer.len()];
    stream.read_exact(&mut received).map_err(asking())?;
    if received == answer {
        Ok(())
    } else {
        Err(Failure::Protocol(String::from_utf8_lossy(&received).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_save_argument_disables_redis_snapshots() {
        let arguments = Subject::Redis { syncs: true }.arguments(7000, Path::new("/data"));
        let at = arguments.iter().position(|argument| argument == "--save").unwrap();
        assert_eq!(arguments[at + 1], "");
        assert_eq!(arguments[at + 2..], ["--appendonly", "yes", "--appendfsync", "always"]);
    }
}
