//! The two servers, pinned, on free ports, without a disk.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit until a server listens.
const START_WAIT: Duration = Duration::from_secs(10);

/// A server that runs until this is dropped.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    process: Child,
}

impl Server {
    /// A node of one instance, in memory.
    pub(crate) fn zerohop(folder: &Path) -> Result<Server, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("zerohop");
        let mut process = Command::new("taskset")
            .args(["-c", "0"])
            .arg(&program)
            .args(["up", "--nodes", "1", "--memory", "--instances", "1", "--port", "0", "--json"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        let port = instance_port(&line);
        let mut server = Server { name: "zerohop", port: port.unwrap_or(0), process };
        if port.is_none() {
            server.end();
            return Err(format!("zerohop did not say where its instance listens: {line}"));
        }
        Ok(server)
    }

    /// redis-server without persistence.
    pub(crate) fn redis(folder: &Path) -> Result<Server, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        drop(listener);
        let process = Command::new("taskset")
            .args([
                "-c",
                "0",
                "redis-server",
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--port",
                &port.to_string(),
            ])
            .arg("--dir")
            .arg(folder)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("redis-server cannot be started: {error}; run bench/resp/install"))?;
        let server = Server { name: "redis", port, process };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begin.elapsed() > START_WAIT {
                return Err("redis-server does not listen".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn end(&mut self) {
        // `taskset` has become the server; `up` stops its node on this signal.
        let signalled = Command::new("kill").arg(self.process.id().to_string()).status();
        if signalled.is_err() {
            drop(self.process.kill());
        }
        drop(self.process.wait());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// The port of the first instance in what `zerohop up --json` prints.
fn instance_port(line: &str) -> Option<u16> {
    let (_, instances) = line.split_once("\"instances\":")?;
    let (_, port) = instances.split_once("127.0.0.1:")?;
    port.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_the_first_instance_is_found() {
        let line =
            r#"{"endpoint":"127.0.0.1:7400","nodes":[{"instances":["127.0.0.1:7401","127.0.0.1:7402"]}]}"#;
        assert_eq!(instance_port(line), Some(7401));
        assert_eq!(instance_port("{}"), None);
    }
}
