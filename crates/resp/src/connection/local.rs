//! Replies to the commands that need neither records nor the connection's state.

use zerohop_wire::ids::KeyspaceId;

use super::help::help;
use super::{describe, information, settings, wrong_number};
use crate::command::LocalCommand;
use crate::execute::{NOT_AN_INTEGER, SYNTAX};
use crate::limits::SLEEP_MS_MAX;
use crate::number::integer;
use crate::{Args, ConnectionWorld, Protocol, ReplyWriter};

/// Writes the reply, or returns the error.
pub(super) fn reply(
    local: LocalCommand,
    keyspace: KeyspaceId,
    args: Args<'_>,
    world: &mut dyn ConnectionWorld,
    reply: &mut ReplyWriter<'_>,
) -> Result<(), String> {
    match local {
        LocalCommand::Ping => match args.len() {
            1 => reply.simple("PONG"),
            2 => reply.bulk(args.at(1)),
            _ => return Err(wrong_number("ping")),
        },
        LocalCommand::Echo => reply.bulk(args.at(1)),
        LocalCommand::Select => match integer(args.at(1)).ok_or(NOT_AN_INTEGER)? {
            0 => reply.ok(),
            _ => return Err("ERR DB index is out of range".to_owned()),
        },
        LocalCommand::Time => {
            let now_us = world.now_us();
            reply.array(2);
            reply.bulk((now_us / 1_000_000).to_string().as_bytes());
            reply.bulk((now_us % 1_000_000).to_string().as_bytes());
        }
        LocalCommand::Info => reply.verbatim(&information::text(keyspace, args, world)),
        LocalCommand::Command => return describe::command(args, reply),
        LocalCommand::Config => return settings::config(args, reply),
        LocalCommand::Debug => return debug(args, world, reply),
    }
    Ok(())
}

fn debug(args: Args<'_>, world: &mut dyn ConnectionWorld, reply: &mut ReplyWriter<'_>) -> Result<(), String> {
    if !world.allows_debug() {
        return Err("ERR DEBUG command not allowed.".to_owned());
    }
    if !args.is(1, "SLEEP") {
        return help("debug", args, reply);
    }
    if args.len() != 3 {
        return Err(SYNTAX.to_owned());
    }
    let seconds: Option<f64> = std::str::from_utf8(args.at(2)).ok().and_then(|text| text.parse().ok());
    let ms = seconds.map(|seconds| seconds * 1000.0).filter(|ms| (0.0..=SLEEP_MS_MAX as f64).contains(ms));
    world.sleep(ms.ok_or("ERR value is not a valid float")? as u64);
    reply.ok();
    Ok(())
}

/// Whether a client may use a word as a name: visible ASCII, without spaces.
pub(super) fn is_name(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_graphic)
}

/// The protocol with this version number.
pub(super) fn protocol(number: i64) -> Option<Protocol> {
    match number {
        2 => Some(Protocol::Resp2),
        3 => Some(Protocol::Resp3),
        _ => None,
    }
}
