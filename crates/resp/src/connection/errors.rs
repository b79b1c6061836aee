//! Error texts of a connection.

use std::borrow::Cow;

use crate::Args;
use crate::command::ConnectionCommand;
use crate::command::Executor;
use crate::execute::INTERNAL;

/// A node that is joining its cluster already serves clients.
pub(super) const NOT_YET: &str =
    "TRYAGAIN the node is starting: it takes no commands with keys in several partitions yet";

/// The memory that waiting commands and replies use is limited per instance and per token.
pub(super) const MEMORY_FULL: &str = "OOM pending commands and replies exceed the memory limit of this instance or of this token: read replies, end \
                       transactions, and try again";

pub(crate) const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

pub(crate) fn wrong_number(command: &str) -> String {
    format!("ERR wrong number of arguments for '{command}' command")
}

/// Whether the command is the beginning of an HTTP request, which a browser can be made to send. As in Redis, nothing after it is read.
pub(super) fn is_http(args: Args<'_>) -> bool {
    let name = args.at(0);
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") || is_http_line(args)
}

/// Whether the command is the first line of an HTTP request.
pub(super) fn is_http_line(args: Args<'_>) -> bool {
    args.len() == 3 && args.at(2).starts_with(b"HTTP/1.")
}

/// The answer to an HTTP request: a person has taken the port of an instance for that of a manager.
pub(super) const HTTP_ANSWER: &str = "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 207\r\n\
connection: close\r\n\r\n\
This is the port of an instance, which speaks the protocols of Redis and of zerohop. The port of the node's manager serves HTTP: a page \
at /, and /status, /metrics and /health. `zerohop node list` shows it.\n";

/// Most characters of the client's input that an error repeats.
const REPEATED_MAX: usize = 128;

pub(super) fn repeated(bytes: &[u8], room: usize) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(room)])
}

pub(super) fn unknown_command(args: Args<'_>) -> String {
    let mut text =
        format!("ERR unknown command '{}', with args beginning with: ", repeated(args.at(0), REPEATED_MAX));
    let begin = text.len();
    for arg in args.iter().skip(1) {
        let quoted_bytes = text.len() - begin;
        if quoted_bytes >= REPEATED_MAX {
            break;
        }
        text.push_str(&format!("'{}' ", repeated(arg, REPEATED_MAX - quoted_bytes)));
    }
    text
}

pub(super) fn unknown_subcommand(command: &str, args: Args<'_>) -> String {
    let upper = command.to_ascii_uppercase();
    format!("ERR unknown subcommand '{}'. Try {upper} HELP.", repeated(args.at(1), REPEATED_MAX))
}

/// What is never queued between `MULTI` and `EXEC`.
pub(super) fn ends_or_stops_transactions(how: Executor) -> bool {
    use ConnectionCommand::{Discard, Exec, Multi, Quit, Watch};
    matches!(how, Executor::Special(Discard | Exec | Multi | Quit | Watch))
}

/// The content of a reply for the connection, after its marker byte.
pub(super) fn internal(reply: &[u8]) -> Option<&[u8]> {
    reply.strip_prefix(&[INTERNAL])
}
