//! Key presses on a terminal, without a line feed behind them.

use std::io::{IsTerminal, stdin};

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// A terminal without echo and line buffering; dropping this restores its former mode. Ctrl-C still
/// sends a signal.
#[derive(Debug)]
pub(crate) struct KeyPresses {
    before: Termios,
}

impl KeyPresses {
    /// For standard input; `None`: it is no terminal, or another process group is in the
    /// foreground.
    pub(crate) fn new() -> Option<KeyPresses> {
        let input = stdin();
        // If the call fails, the terminal controls no process, so no other process group is in the
        // foreground.
        if !input.is_terminal() || tcgetpgrp(&input).is_ok_and(|group| group != getpgrp()) {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(&input, OptionalActions::Now, &modes).ok()?;
        Some(KeyPresses { before })
    }
}

impl Drop for KeyPresses {
    fn drop(&mut self) {
        // An error says that the terminal is gone, so nothing is to be restored.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}
