//! Ceph RADOS with one monitor and one OSD, configured manually, without manager daemon and
//! authentication.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::limits::{COMMAND, END, SERVING, STATUS_POLL};
use crate::process::{self, Server};
use crate::servers::Place;
use crate::usage::Cpu;

/// Any id would do: it is the only cluster in its folder.
const FSID: &str = "6f1d2a5e-8f37-4f0e-9a51-3d6f2b7c9e10";
const OSD: &str = "a3f1c7d2-54be-4c0a-8d6e-1b2c3d4e5f60";

/// The pool, with one copy.
pub const POOL: &str = "bench";

/// Bytes of its store, in memory or on disk; only the used part is allocated. An OSD whose store is
/// full aborts without a report to its clients.
/// hears of it.
const STORE_BYTES: u64 = 8 << 30;

/// Checks that the programs are installed.
///
/// # Errors Which ones are missing, and how to install them.
pub fn installed() -> Result<(), String> {
    let programs = ["ceph-mon", "ceph-osd", "ceph", "rados", "monmaptool"];
    programs.iter().try_for_each(|name| process::installed(name, "bench/blob/install").map(drop))
}

/// The servers of a cluster, which end when this is dropped.
pub struct Ceph {
    /// The configuration file for clients.
    pub configuration: PathBuf,
    servers: Vec<Server>,
}

impl Ceph {
    /// Starts it, with its store in memory or on disk, and waits until it accepts an object.
    ///
    /// # Errors A part of it cannot be started, or does not serve in time.
    pub fn start(place: &Place, in_memory: bool) -> Result<Ceph, Failure> {
        let dir = &place.dir;
        let ports = process::free_ports(2)?;
        let monitor = format!("[v2:127.0.0.1:{ports},v1:127.0.0.1:{}]", ports + 1);
        let configuration = dir.join("ceph.conf");
        process::write(&configuration, &settings(dir, &monitor, in_memory))?;
        let mut ceph = Ceph { configuration, servers: Vec::new() };
        let (map, mon, osd) = (shown(dir, "monmap"), shown(dir, "mon"), dir.join("osd"));
        once("monmaptool", &["--create", "--fsid", FSID, "--addv", "a", &monitor, &map])?;
        let conf = ceph.configuration.display().to_string();
        once("ceph-mon", &["-c", &conf, "--mkfs", "-i", "a", "--monmap", &map, "--mon-data", &mon])?;
        ceph.serve(place, "ceph-mon", &["-i", "a", "--mon-data", &mon])?;
        ceph.eventually(|ceph| ceph.ceph(&["osd", "new", OSD]).map(drop))?;
        std::fs::create_dir_all(&osd).map_err(Failure::io("creating", &osd))?;
        let osd = osd.display().to_string();
        once("ceph-osd", &["-c", &conf, "-i", "0", "--mkfs", "--osd-uuid", OSD, "--osd-data", &osd])?;
        ceph.serve(place, "ceph-osd", &["-i", "0", "--osd-data", &osd])?;
        ceph.eventually(|ceph| {
            let osd_status = ceph.ceph(&["osd", "stat"])?;
            let is_up = osd_status.contains("1 osds: 1 up") && osd_status.contains("1 in");
            if is_up { Ok(()) } else { Err(Failure::Protocol(osd_status)) }
        })?;
        ceph.ceph(&["osd", "pool", "create", POOL, "32", "32"])?;
        ceph.ceph(&["osd", "pool", "set", POOL, "size", "1", "--yes-i-really-mean-it"])?;
        // It is ready once it accepts an object.
        ceph.eventually(|ceph| ceph.rados(&["touch", "first-object"]).map(drop))?;
        Ok(ceph)
    }

    fn serve(&mut self, place: &Place, name: &str, arguments: &[&str]) -> Result<(), Failure> {
        let program = process::installed(name, "bench/blob/install").map_err(Failure::Usage)?;
        let conf = self.configuration.display().to_string();
        let arguments: Vec<String> =
            ["-f", "-c", &conf].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
        self.servers.push(place.start(&program, &arguments)?);
        Ok(())
    }

    fn eventually(&mut self, mut look: impl FnMut(&Ceph) -> Result<(), Failure>) -> Result<(), Failure> {
        let deadline = process::now() + SERVING;
        loop {
            self.servers.iter_mut().try_for_each(Server::check)?;
            match look(self) {
                Ok(()) => return Ok(()),
                Err(error) if process::now() >= deadline => return Err(error),
                Err(_) => process::pause(STATUS_POLL),
            }
        }
    }

    fn ceph(&self, words: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new("ceph");
        command.arg("-c").arg(&self.configuration).args(["--connect-timeout", "5"]).args(words);
        process::output(&mut command, COMMAND)
    }

    fn rados(&self, words: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new("rados");
        command.arg("-c").arg(&self.configuration).args(["-p", POOL]).args(words);
        process::output(&mut command, COMMAND)
    }

    /// The CPU time of its servers.
    ///
    /// # Errors One of them has ended.
    pub fn cpu(&self) -> Result<Cpu, Failure> {
        let mut sum = Cpu::default();
        for server in &self.servers {
            let cpu = Cpu::of(server.pid())?;
            (sum.ran, sum.waited) = (sum.ran + cpu.ran, sum.waited + cpu.waited);
        }
        Ok(sum)
    }

    /// Stops it, the OSD first, which notifies the monitor.
    ///
    /// # Errors It does not end without error and in time.
    pub fn end(mut self) -> Result<(), Failure> {
        self.servers.iter_mut().rev().try_for_each(|server| server.end(END))
    }
}

fn settings(dir: &Path, monitor: &str, in_memory: bool) -> String {
    let dir = dir.display();
    let store = match in_memory {
        true => format!("osd objectstore = memstore\nmemstore device bytes = {STORE_BYTES}"),
        false => format!(
            "osd objectstore = bluestore\nbluestore block size = {STORE_BYTES}\nbluestore block create = true"
        ),
    };
    format!(
        "[global]\nfsid = {FSID}\nmon host = {monitor}\nauth cluster required = none\nauth service required = none\n\
         auth client required = none\nrun dir = {dir}\nadmin socket = {dir}/$name.asok\nlog file = {dir}/$name.log\n\
         pid file = {dir}/$name.pid\nmon allow pool size one = true\nosd pool default size = 1\n\
         osd pool default min size = 1\nosd crush chooseleaf type = 0\nosd pool default pg autoscale mode = off\n\
         mon cluster log file = {dir}/cluster.log\nosd class dir = /usr/lib/rados-classes\ncrash dir = {dir}\n\
         mon data avail crit = 0\n{store}\n"
    )
}

fn once(name: &str, arguments: &[&str]) -> Result<(), Failure> {
    process::output(Command::new(name).args(arguments), COMMAND).map(drop)
}

fn shown(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}
