//! Every command of the guides, run as it stands there, on clusters that the guides themselves start.
//!
//! ```text
//!   guide.md ──> blocks ──> one shell for the guide, in an empty folder ──> what it printed ──> what the guide says
//! ```
//!
//! A block that is marked `sh` is a list of commands, each of which must end well. One marked `console` is a transcript:
//! behind each `$ ` stands a command, below it what it prints. Numbers and what is as long as a checksum may differ, and `…`
//! stands for anything. One marked
//! `python` or `rust` is a program. `zerohop up` and `zerohop node` run on in the background, until the guide ends. Each guide
//! has a loopback of its own where that is permitted, so that the ports of the guides are free; else it takes those of the machine.
//! What is not to be run is in blocks marked `text`; how commands are written there is held against what the program takes.

mod block;
mod matching;
mod pbs;
mod play;
mod programs;
mod shell;
mod synopses;
mod systemd;

use std::path::{Path, PathBuf};

use self::play::play;

/// What is played with nothing but the program itself, from the root of the sources.
const GUIDES: [&str; 7] = [
    "docs/guide/quick-start.md",
    "README.md",
    "docs/guide/client.md",
    "docs/guide/embedded.md",
    "docs/guide/command-line.md",
    "docs/guide/security.md",
    "docs/operations.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn every_command_in_the_guides_does_what_the_guide_says() {
    // Others are named by those who have installed what they need.
    let named = std::env::var("ZEROHOP_GUIDES").unwrap_or_else(|_| GUIDES.join(" "));
    let mut commands = 0;
    for guide in named.split_whitespace() {
        eprintln!("{guide}");
        commands += play(&root(), guide);
    }
    assert!(commands > 0, "no command was found in {named}");
}
