//! `CONFIG`: the settings that Redis clients ask for. None can be changed over this protocol.

use super::help::help;
use super::wrong_number;
use crate::glob::Glob;
use crate::limits::CONFIG_PATTERNS_MAX;
use crate::{Args, ReplyWriter};

/// Names and values.
const SETTINGS: [(&str, &str); 24] = [
    ("activerehashing", "yes"),
    ("appendfsync", "everysec"),
    ("appendonly", "no"),
    ("auto-aof-rewrite-percentage", "0"),
    ("bind", ""),
    ("cluster-enabled", "yes"),
    ("databases", "1"),
    ("dir", ""),
    ("hz", "10"),
    ("io-threads", "1"),
    ("lfu-decay-time", "1"),
    ("lfu-log-factor", "10"),
    ("list-max-listpack-size", "-2"),
    ("loglevel", "notice"),
    ("maxclients", "8192"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("maxmemory-samples", "5"),
    ("notify-keyspace-events", ""),
    ("proto-max-bulk-len", "16777216"),
    ("save", ""),
    ("tcp-keepalive", "60"),
    ("timeout", "0"),
    ("tls-port", "0"),
];

pub(super) fn config(args: Args<'_>, reply: &mut ReplyWriter<'_>) -> Result<(), String> {
    if args.is(1, "GET") {
        if args.len() < 3 {
            return Err(wrong_number("config|get"));
        }
        if args.len() - 2 > CONFIG_PATTERNS_MAX {
            let count = args.len() - 2;
            return Err(format!(
                "ERR {count} patterns in one CONFIG GET, {CONFIG_PATTERNS_MAX} are allowed: ask for `*`"
            ));
        }
        let patterns: Vec<Glob> =
            args.iter().skip(2).map(|pattern| Glob::new(&pattern.to_ascii_lowercase())).collect();
        let is_meant = |name: &str| patterns.iter().any(|pattern| pattern.matches(name.as_bytes()));
        let found: Vec<_> = SETTINGS.iter().filter(|(name, _)| is_meant(name)).collect();
        reply.map(found.len());
        for (name, value) in found {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        return Ok(());
    }
    if !args.is(1, "SET") {
        return help("config", args, reply);
    }
    if args.len() < 4 || !args.len().is_multiple_of(2) {
        return Err(wrong_number("config|set"));
    }
    for place in (2..args.len()).step_by(2) {
        let (name, value) = (args.at(place).to_ascii_lowercase(), args.at(place + 1));
        let shown = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
        match SETTINGS.iter().find(|(known, _)| known.as_bytes() == name) {
            None => {
                return Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{shown}'"));
            }
            Some((_, is)) if is.as_bytes() != value => {
                return Err(format!(
                    "ERR CONFIG SET failed (possibly related to argument '{shown}') - can't set immutable config"
                ));
            }
            Some(_) => {}
        }
    }
    reply.ok();
    Ok(())
}
