//! One server of PostgreSQL, in a folder of its own, reachable by a Unix socket alone.
//!
//! PostgreSQL refuses to run as root. Then the server gets the user `postgres` or `daemon` by `setpriv`, and its folder belongs to that user.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::failure::Failure;
use crate::limits::{END, POSTGRESQL_INIT};
use crate::process::{self, Server};
use crate::servers::Place;
use crate::usage::Cpu;

/// Where Debian and Ubuntu have the programs, by version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Users that the server of root may become.
const USERS: [&str; 2] = ["postgres", "daemon"];

/// The user of the database, and its database.
pub const DATABASE: &str = "postgres";

/// Part of the name of the socket.
pub const PORT: u16 = 5432;

/// Settings of every server, in the form of its file. `fsync`, `synchronous_commit` and `full_page_writes` are on
/// by default; they are there to be seen. The buffers are as large as the memory of a node of zerohop. The log of a run fits into
/// `max_wal_size`, and plans of short statements are not compiled.
const SETTINGS: &str = "\
fsync = on
synchronous_commit = on
full_page_writes = on
shared_buffers = 1GB
max_wal_size = 4GB
jit = off
listen_addresses = ''
log_min_messages = warning
";

/// A running server.
pub struct PostgresqlServer {
    server: Server,
    /// The folder of the socket: its path is short, as the system requires.
    socket: TempDir,
}

/// A user of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SystemUser {
    uid: u32,
    gid: u32,
}

/// The folder of PostgreSQL's programs.
///
/// # Errors How to install them: by this script.
pub fn programs(install: &str) -> Result<PathBuf, String> {
    let versions = std::fs::read_dir(DEBIAN).map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut found: Vec<(u32, PathBuf)> = versions
        .into_iter()
        .flatten()
        .filter_map(|path| Some((path.file_name()?.to_str()?.parse().ok()?, path.join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").is_file() && bin.join("postgres").is_file())
        .collect();
    found.sort();
    match found.pop() {
        Some((_, bin)) => Ok(bin),
        None => {
            let initdb = process::installed("initdb", install)?;
            Ok(initdb.parent().unwrap_or(Path::new("")).to_path_buf())
        }
    }
}

impl PostgresqlServer {
    /// Creates a database cluster with more settings, a line each, and starts its server from the programs of this folder. It may not answer yet.
    ///
    /// # Errors The server's user may not enter the folder, or `initdb` fails.
    pub fn start(place: &Place, programs: &Path, more_settings: &str) -> Result<PostgresqlServer, Failure> {
        let user = server_user()?;
        let data = place.dir.join("postgresql");
        std::fs::create_dir(&data).map_err(Failure::io("creating", &data))?;
        let socket = tempfile::Builder::new().prefix("bench-").tempdir();
        let socket = socket.map_err(Failure::while_doing("creating a folder for a socket"))?;
        if let Some(SystemUser { uid, gid }) = &user {
            for folder in [data.as_path(), socket.path()] {
                chown(folder, Some(*uid), Some(*gid)).map_err(Failure::io("giving away", folder))?;
            }
            // The user passes through it.
            let passable = std::fs::Permissions::from_mode(0o711);
            std::fs::set_permissions(&place.dir, passable).map_err(Failure::io("opening", &place.dir))?;
        }
        let words = as_user(user.as_ref(), &programs.join("initdb"));
        let mut initdb = Command::new(&words[0]);
        initdb.args(&words[1..]).args(["--encoding=UTF8", "--locale=C", "--auth=trust", "--no-sync"]);
        // Programs of another user may not enter the current folder.
        initdb.args(["--username", DATABASE, "--pgdata"]).arg(&data).current_dir("/");
        process::output(&mut initdb, POSTGRESQL_INIT).map_err(|error| {
            let hint = "its user must be able to enter the target folder: see CARGO_TARGET_DIR";
            Failure::Usage(format!("initdb in {}: {error} ({hint})", data.display()))
        })?;
        let settings = format!(
            "{SETTINGS}port = {PORT}\nunix_socket_directories = '{}'\nunix_socket_permissions = 0700\n{more_settings}",
            socket.path().display()
        );
        process::write(&data.join("postgresql.auto.conf"), &settings)?;
        let mut words = as_user(user.as_ref(), &programs.join("postgres"));
        words.extend(["-D".to_owned(), data.display().to_string()]);
        let program = PathBuf::from(words.remove(0));
        let program = if program.is_absolute() {
            program
        } else {
            process::installed(&program.display().to_string(), "util-linux").map_err(Failure::Usage)?
        };
        Ok(PostgresqlServer { server: place.start(&program, &words)?, socket })
    }

    /// The folder of its socket.
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// Whether it runs.
    ///
    /// # Errors It has ended: the error has the end of its output.
    pub fn check(&mut self) -> Result<(), Failure> {
        self.server.check()
    }

    /// CPU time of all its processes.
    ///
    /// # Errors It has ended.
    pub fn cpu(&self) -> Result<Cpu, Failure> {
        Cpu::of_family(self.server.pid())
    }

    /// Stops it in order, and waits. No client may be connected.
    ///
    /// # Errors It does not end without error and in time.
    pub fn end(mut self) -> Result<(), Failure> {
        self.server.end(END)
    }
}

/// The user of the server, if it needs another one than this process.
fn server_user() -> Result<Option<SystemUser>, Failure> {
    if !is_root()? {
        return Ok(None);
    }
    let path = Path::new("/etc/passwd");
    let users = std::fs::read_to_string(path).map_err(Failure::io("reading", path))?;
    let found = USERS.iter().find_map(|name| find_user(&users, name));
    let missing = || {
        Failure::Usage(format!("PostgreSQL cannot run as root, and there is no user {}", USERS.join(" or ")))
    };
    found.ok_or_else(missing).map(Some)
}

fn is_root() -> Result<bool, Failure> {
    let path = Path::new("/proc/self/status");
    let status = std::fs::read_to_string(path).map_err(Failure::io("reading", path))?;
    Ok(effective_uid(&status) == Some(0))
}

/// The effective user of a process's status.
fn effective_uid(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse().ok())
}

fn find_user(passwd: &str, name: &str) -> Option<SystemUser> {
    let fields =
        passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name)?;
    Some(SystemUser { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
}

/// The command that starts a program as this user. It is killed when its parent ends: with a new user the system forgets that the launcher asked for it.
fn as_user(user: Option<&SystemUser>, program: &Path) -> Vec<String> {
    let program = program.display().to_string();
    let Some(SystemUser { uid, gid }) = user else { return vec![program] };
    let line = format!("setpriv --reuid={uid} --regid={gid} --clear-groups --pdeathsig=KILL --");
    line.split(' ').map(str::to_owned).chain([program]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\npostgres2:x:7:8::/:/bin/sh\npostgres:x:101:104:PostgreSQL:/:/bin/sh\n";
        assert_eq!(find_user(passwd, "postgres"), Some(SystemUser { uid: 101, gid: 104 }));
        assert_eq!(find_user(passwd, "daemon"), None);
    }

    #[test]
    fn effective_user_decides_whether_the_server_needs_another_one() {
        assert_eq!(effective_uid("Name:\tx\nUid:\t1000\t0\t1000\t1000\n"), Some(0));
        assert_eq!(effective_uid("Name:\tx\n"), None);
    }

    #[test]
    fn program_of_another_user_is_started_by_setpriv() {
        let program = Path::new("/bin/postgres");
        assert_eq!(as_user(None, program), ["/bin/postgres"]);
        let words = as_user(Some(&SystemUser { uid: 5, gid: 6 }), program);
        assert_eq!((words[0].as_str(), words[1].as_str()), ("setpriv", "--reuid=5"));
        assert_eq!(words.last().map(String::as_str), Some("/bin/postgres"));
    }
}
