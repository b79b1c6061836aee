//! Every command of the guides, run as written, on clusters that the guides themselves start.
//!
//! ```text
//!   guide.md ──> blocks ──> one shell for the guide, in an empty folder ──> output ──> compare
//! ```
//!
//! A block marked `sh` is a list of commands, each of which must succeed. One marked `console` is a
//! transcript: a command behind each `$ `, and its output below. Numbers and words as long as a
//! checksum may differ, and `…` matches anything. One marked `python` or `rust` is a program.
//! `zerohop up` and `zerohop node` run in the background until the guide ends. Each guide has its
//! own loopback if that is permitted, so that its ports are free; otherwise it uses the machine's
//! ports. With `ZEROHOP_GUIDES_ON_TERMINAL` everything is typed on a pseudo-terminal, Python's examples
//! included. Blocks marked `text` are not run; the syntax of commands in them is compared with the
//! program's help.

mod block;
mod matching;
mod pbs;
mod play;
mod programs;
mod screen;
mod shell;
mod synopses;
mod systemd;

use std::path::{Path, PathBuf};
use std::time::Instant;

use self::play::run_guide;

/// Guides that need only the program itself; paths are from the root of the sources.
const GUIDES: [&str; 10] = [
    "docs/guide/quick-start.md",
    "docs/guide/start-cluster.md",
    "README.md",
    "docs/guide/client.md",
    "docs/guide/embedded.md",
    "docs/guide/command-line.md",
    "docs/guide/logs.md",
    "docs/guide/queues.md",
    "docs/guide/security.md",
    "docs/operations.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn guide_commands_give_the_documented_output() {
    // The variable names guides that need other installed software.
    let named = std::env::var("ZEROHOP_GUIDES").unwrap_or_else(|_| GUIDES.join(" "));
    // `cargo xtask first-hour` types them at a terminal.
    let is_on_terminal = std::env::var_os("ZEROHOP_GUIDES_ON_TERMINAL").is_some();
    let mut commands = 0;
    for guide in named.split_whitespace() {
        eprintln!("{guide}");
        let begin = Instant::now();
        let count = run_guide(&root(), guide, is_on_terminal);
        eprintln!("{guide}: {count} commands in {} s", begin.elapsed().as_secs());
        commands += count;
    }
    assert!(commands > 0, "no command was found in {named}");
}
