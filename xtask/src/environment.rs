//! External programs that tests run (clients, tools, servers to compare with), installed once and
//! reused.
//!
//! ```text
//! suites/environment.toml     the versions: what `test` needs, what `clients` adds; apart from them what `wheel` needs
//! HOME/SET-HASH/venv          the Python packages of a set, by the hash of its list
//! HOME/SET-HASH/node_modules  its packages for Node.js
//! HOME/SET-HASH/ready         present once all is installed
//! ```
//!
//! HOME is `$ZEROHOP_KEPT`, else `zerohop` in the user's cache folder. All checkouts share it, so
//! that a new one installs nothing that another has installed. Programs of the system come from its
//! packages (`suites/*/install`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::completed_step::{CompletedStep, line};
use crate::workspace::{Failure, Workspace, cannot_start};

/// The lists of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// The requirements of `cargo xtask test`.
    Test,
    /// The same, and the wide set of clients.
    Clients,
    /// The tools that build a wheel for other distributions, and nothing else.
    Wheel,
}

impl Set {
    fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Clients => "clients",
            Self::Wheel => "wheel",
        }
    }

    /// Its sections of the list.
    fn sections(self) -> &'static [&'static str] {
        match self {
            Self::Test => &["test"],
            Self::Clients => &["test", "clients"],
            Self::Wheel => &["wheel"],
        }
    }
}

/// The packages of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Packages {
    pip: Vec<String>,
    npm: Vec<String>,
}

/// An installed environment.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Its folder.
    pub home: PathBuf,
}

impl Environment {
    /// The folder of the programs of the Python packages.
    pub fn bin(&self) -> PathBuf {
        self.home.join("venv").join("bin")
    }

    /// The folder in which Python finds the packages.
    pub fn site_packages(&self) -> Result<PathBuf, Failure> {
        site_packages(&self.home.join("venv"))
    }
}

/// The folder in which Python finds the packages of a virtual environment.
pub fn site_packages(venv: &Path) -> Result<PathBuf, Failure> {
    let lib = venv.join("lib");
    let folders = fs::read_dir(&lib).into_iter().flatten().filter_map(Result::ok);
    folders.map(|version| version.path().join("site-packages")).find(|folder| folder.is_dir()).ok_or_else(
        || Failure::new(format!("{} has no site-packages: remove {}", lib.display(), venv.display())),
    )
}

/// An installation that runs in parallel with other work.
#[derive(Debug)]
pub struct RunningInstallation(JoinHandle<(Duration, Result<String, Failure>)>);

/// Starts to install the set `test` and the system's programs, in parallel with other work.
pub fn begin(workspace: &Workspace) -> RunningInstallation {
    let workspace = workspace.clone();
    RunningInstallation(std::thread::spawn(move || {
        let begin = Instant::now();
        let all = system(&workspace).and_then(|()| install(&workspace, Set::Test)).map(|_| String::new());
        (begin.elapsed(), all)
    }))
}

impl RunningInstallation {
    /// Waits for its end.
    pub fn wait(self) -> Result<CompletedStep, Failure> {
        let (took, all) = self
            .0
            .join()
            .unwrap_or_else(|_| (Duration::ZERO, Err(Failure::new("the thread that installs has panicked"))));
        let text = all?;
        let done = CompletedStep { step: "environment", took, cost: Duration::ZERO, summary: text };
        println!("{}", line("ok", &done));
        Ok(done)
    }
}

/// Installs missing programs from the system's packages.
pub fn system(workspace: &Workspace) -> Result<(), Failure> {
    for suite in ["redis", "slurm"] {
        let mut install = Command::new(workspace.root.join("suites").join(suite).join("install"));
        quietly(&mut install, &format!("what the suite `{suite}` needs of the system could not be had"))?;
    }
    Ok(())
}

/// Installs a set, unless it is installed.
pub fn install(workspace: &Workspace, set: Set) -> Result<Environment, Failure> {
    let list = workspace.root.join("suites").join("environment.toml");
    let text = fs::read_to_string(&list)
        .map_err(|error| Failure::new(format!("{} cannot be read: {error}", list.display())))?;
    let packages = packages(&text, set)?;
    let name = set.name();
    let parent = home()?;
    let home = parent.join(format!("{name}-{:016x}", hash(&packages)));
    let environment = Environment { home: home.clone() };
    let failed = |what: &Path, error: std::io::Error| {
        Failure::new(format!("{}: {error}; set ZEROHOP_KEPT to a folder of yours", what.display()))
    };
    fs::create_dir_all(&parent).map_err(|error| failed(&parent, error))?;
    // Another checkout may be installing the same set.
    let lock = parent.join(format!("{name}.lock"));
    let lock_file = File::create(&lock).map_err(|error| failed(&lock, error))?;
    lock_file.lock().map_err(|error| failed(&lock, error))?;
    let ready = home.join("ready");
    if ready.is_file() {
        return Ok(environment);
    }
    // The remains of an interrupted installation may be incomplete.
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).map_err(|error| failed(&home, error))?;
    quietly(
        Command::new("python3").args(["-m", "venv"]).arg(home.join("venv")),
        "no Python environment could be made: install python3 with its module venv",
    )?;
    let mut pip = Command::new(environment.bin().join("pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(&packages.pip);
    quietly(&mut pip, "the Python package index cannot be reached, or lacks one of suites/environment.toml")?;
    if !packages.npm.is_empty() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-fund", "--no-audit", "--no-save", "--prefix"]).arg(&home);
        quietly(
            npm.args(&packages.npm),
            "the npm registry cannot be reached, or lacks one of suites/environment.toml",
        )?;
    }
    fs::write(&ready, "").map_err(|error| failed(&ready, error))?;
    Ok(environment)
}

/// The folder that all checkouts share.
fn home() -> Result<PathBuf, Failure> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("ZEROHOP_KEPT")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("zerohop")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache").join("zerohop")))
        .ok_or_else(|| Failure::new("no home folder is known: set ZEROHOP_KEPT to a folder of yours"))
}

/// The packages of a set, from the text of the list.
fn packages(text: &str, set: Set) -> Result<Packages, Failure> {
    let wrong = |what: &str| Failure::new(format!("suites/environment.toml: {what}"));
    let table: toml::Table = text.parse().map_err(|error| wrong(&format!("{error}")))?;
    let list = |section: &str, kind: &str| -> Result<Vec<String>, Failure> {
        let Some(list) = table.get(section).and_then(|section| section.get(kind)) else {
            return Ok(Vec::new());
        };
        let all = list.as_array().into_iter().flatten().map(|one| one.as_str().map(str::to_owned));
        all.collect::<Option<_>>()
            .ok_or_else(|| wrong(&format!("{kind} of [{section}] is not a list of texts")))
    };
    let mut all = Packages::default();
    for section in set.sections() {
        all.pip.extend(list(section, "pip")?);
        all.npm.extend(list(section, "npm")?);
    }
    if all.pip.is_empty() {
        return Err(wrong("has no packages"));
    }
    Ok(all)
}

/// FNV-1a over the names, to distinguish lists.
fn hash(packages: &Packages) -> u64 {
    let names = packages.pip.iter().chain(&packages.npm);
    names.flat_map(|name| name.bytes().chain([b'\n'])).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Runs a command and prints its output only if it fails.
pub fn quietly(command: &mut Command, advice: &str) -> Result<(), Failure> {
    let output =
        command.stdin(std::process::Stdio::null()).output().map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(Failure::new(format!("{}\n{advice}", String::from_utf8_lossy(&text).trim_end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "[test]\npip = [\"a==1\"]\n[clients]\npip = [\"b==2\"]\nnpm = [\"c@3\"]\n\
                        [wheel]\npip = [\"d==4\"]\n";

    #[test]
    fn clients_set_includes_test_set() {
        let (test, clients) = (packages(LIST, Set::Test).unwrap(), packages(LIST, Set::Clients).unwrap());
        assert_eq!((test.pip.as_slice(), test.npm.len()), (&["a==1".to_owned()][..], 0));
        assert_eq!(clients.pip, ["a==1", "b==2"]);
        assert_eq!(clients.npm, ["c@3"]);
        assert_ne!(hash(&test), hash(&clients));
    }

    #[test]
    fn wheel_set_has_its_own_packages_only() {
        let wheel = packages(LIST, Set::Wheel).unwrap();
        assert_eq!((wheel.pip.as_slice(), wheel.npm.len()), (&["d==4".to_owned()][..], 0));
        assert!(packages("[test]\npip = [\"a==1\"]\n", Set::Wheel).is_err());
    }

    #[test]
    fn invalid_package_list_is_refused() {
        for text in ["[test]\npip = [1]\n", "[test]\n", "pip =", ""] {
            assert!(packages(text, Set::Test).is_err(), "{text}");
        }
    }

    #[test]
    fn failed_command_reports_its_output_and_remedy() {
        let mut command = Command::new("sh");
        let failure = quietly(command.args(["-c", "echo out; echo err >&2; exit 3"]), "do the other thing");
        let text = failure.unwrap_err().to_string();
        assert!(
            text.contains("out") && text.contains("err") && text.contains("do the other thing"),
            "{text}"
        );
    }
}
