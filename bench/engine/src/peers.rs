//! The libraries with which the engine is compared, and the compilation of their programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::child;
use crate::failure::Failure;
use crate::limits;

/// A library, and the program under `peers/` that drives it.
pub(crate) struct Peer {
    /// Its name in the table and on the command line.
    pub(crate) name: &'static str,
    source: &'static str,
    /// The library counts as installed if the compiler finds this header.
    header: &'static str,
    library: &'static str,
    /// Passed to the program as `--variant`.
    pub(crate) variant: &'static str,
    /// It flushes the disk at every put. This is no fair comparison with unsynced puts, so it is
    /// measured only if named in `--only`.
    pub(crate) flushes: bool,
}

/// All peers, in the order of the table.
pub(crate) const PEERS: &[Peer] = &[
    peer("kyotocabinet", "kyotocabinet.cc", "kchashdb.h", "kyotocabinet"),
    peer("lmdb", "lmdb.cc", "lmdb.h", "lmdb"),
    Peer { variant: "nometasync", flushes: true, ..peer("lmdb-nometasync", "lmdb.cc", "lmdb.h", "lmdb") },
    peer("rocksdb", "rocksdb.cc", "rocksdb/db.h", "rocksdb"),
    peer("berkeleydb", "berkeleydb.cc", "db_cxx.h", "db_cxx"),
];

/// The result of building a peer's program.
pub(crate) enum PeerBuild {
    /// Ready to run.
    Program(PathBuf),
    /// Not installed, with the evidence.
    Missing(String),
}

impl Peer {
    /// Compiles the program into `target`, unless it is newer than its sources.
    pub(crate) fn build(&self, target: &Path) -> Result<PeerBuild, Failure> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let source = sources.join(self.source);
        let program = target.join(self.source.trim_end_matches(".cc"));
        if !self.header_found()? {
            return Ok(PeerBuild::Missing(format!(
                "no g++ that finds {} (run bench/engine/install)",
                self.header
            )));
        }
        if is_newer(&program, &[&source, &sources.join("common.h")]) {
            return Ok(PeerBuild::Program(program));
        }
        std::fs::create_dir_all(target).map_err(Failure::io("creating", target))?;
        // Compiled under another name and renamed, so that an interrupted compiler leaves no
        // partial program.
        let fresh = program.with_extension("new");
        let mut compiler = Command::new("g++");
        compiler
            .args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&fresh)
            .arg(&source)
            .arg(format!("-l{}", self.library))
            .arg("-lpthread");
        child::output(&mut compiler, limits::COMPILE)?;
        std::fs::rename(&fresh, &program).map_err(Failure::io("renaming", &fresh))?;
        Ok(PeerBuild::Program(program))
    }

    fn header_found(&self) -> Result<bool, Failure> {
        let status = Command::new("g++")
            .args(["-std=c++17", "-E", "-x", "c++", "-o", "/dev/null", "-include", self.header, "/dev/null"])
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) => Ok(status.success()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Failure::Io { doing: "starting g++".into(), source }),
        }
    }
}

const fn peer(name: &'static str, source: &'static str, header: &'static str, library: &'static str) -> Peer {
    Peer { name, source, header, library, variant: "", flushes: false }
}

fn is_newer(program: &Path, sources: &[&Path]) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let built = modified(program);
    built.is_some() && sources.iter().all(|source| modified(source) < built)
}
