//! Keys of a terminal as they are pressed, without a line feed behind them.

use std::io::{IsTerminal, stdin};

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// A terminal that shows no keys, and waits for no end of a line; as it was before, once this is dropped. Ctrl-C stays what it is.
#[derive(Debug)]
pub(crate) struct KeyPresses {
    before: Termios,
}

impl KeyPresses {
    /// Of standard input; `None`: it is no terminal, or another program's now.
    pub(crate) fn new() -> Option<KeyPresses> {
        let input = stdin();
        // Of a terminal that controls no process nobody else is in the foreground.
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
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}
