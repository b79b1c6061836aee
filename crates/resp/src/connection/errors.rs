//! What a connection is told in words.

use std::borrow::Cow;

use super::ConnectionCommand;
use crate::Args;
use crate::command::Executor;
use crate::execute::INTERNAL;

/// A node that is joining its cluster serves already.
pub(super) const NOT_YET: &str =
    "TRYAGAIN the node is starting: it takes no commands with keys in several partitions yet";

/// What waits for all connections of an instance, or for those of one token, has a bound.
pub(super) const NO_ROOM: &str = "OOM commands and replies that wait take as much memory as they may on this instance, or for this token: read \
                       replies, end transactions, and try again";

pub(crate) const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

pub(crate) fn wrong_number(command: &str) -> String {
    format!("ERR wrong number of arguments for '{command}' command")
}

/// Whether a browser was made to send what it takes for a page. As Redis does, nothing that follows is looked at.
pub(super) fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Characters of what a client sent that an error repeats.
const REPEATED_MAX: usize = 128;

pub(super) fn repeated(bytes: &[u8], room: usize) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(room)])
}

pub(super) fn unknown_command(args: Args<'_>) -> String {
    let mut text =
        format!("ERR unknown command '{}', with args beginning with: ", repeated(args.at(0), REPEATED_MAX));
    let begin = text.len();
    for arg in args.iter().skip(1) {
        let said = text.len() - begin;
        if said >= REPEATED_MAX {
            break;
        }
        text.push_str(&format!("'{}' ", repeated(arg, REPEATED_MAX - said)));
    }
    text
}

pub(crate) fn unknown_subcommand(command: &str, args: Args<'_>) -> String {
    let upper = command.to_ascii_uppercase();
    format!("ERR unknown subcommand '{}'. Try {upper} HELP.", repeated(args.at(1), REPEATED_MAX))
}

/// What is never queued between `MULTI` and `EXEC`.
pub(super) fn ends_or_stops_transactions(how: Executor) -> bool {
    use ConnectionCommand::{Discard, Exec, Multi, Quit, Watch};
    matches!(how, Executor::Special(Discard | Exec | Multi | Quit | Watch))
}

/// The part behind the mark of a reply that is for the connection.
pub(super) fn internal(reply: &[u8]) -> Option<&[u8]> {
    reply.strip_prefix(&[INTERNAL])
}
