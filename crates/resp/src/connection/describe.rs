//! `COMMAND`: information about the commands.

use super::help::help;
use super::wrong_number;
use crate::command::{ADMIN, BLOCKING, CommandRow, DENYOOM, FAST, NO_AUTH, NO_MULTI, READONLY, TABLE, WRITE};
use crate::execute::SYNTAX;
use crate::glob::Glob;
use crate::{Args, ReplyWriter};

/// Replies to `COMMAND` and its subcommands.
pub(crate) fn command(args: Args<'_>, reply: &mut ReplyWriter<'_>) -> Result<(), String> {
    match () {
        () if args.len() == 1 => {
            reply.array(TABLE.len());
            TABLE.iter().for_each(|command| describe(command, reply));
        }
        () if args.is(1, "COUNT") && args.len() == 2 => reply.integer(TABLE.len() as i64),
        () if args.is(1, "INFO") => {
            let named: Vec<Option<&CommandRow>> = match args.len() {
                2 => TABLE.iter().map(Some).collect(),
                _ => args.iter().skip(2).map(CommandRow::find).collect(),
            };
            reply.array(named.len());
            for command in named {
                match command {
                    Some(command) => describe(command, reply),
                    None => reply.null(),
                }
            }
        }
        () if args.is(1, "DOCS") => {
            let named: Vec<&CommandRow> = match args.len() {
                2 => TABLE.iter().collect(),
                _ => args.iter().skip(2).filter_map(CommandRow::find).collect(),
            };
            reply.map(named.len());
            named.into_iter().for_each(|command| document(command, reply));
        }
        () if args.is(1, "LIST") && args.len() == 2 => names(TABLE.iter(), reply),
        () if args.is(1, "LIST") && args.len() == 5 && args.is(2, "FILTERBY") => {
            let by = args.at(4);
            match () {
                () if args.is(3, "PATTERN") => {
                    let pattern = Glob::new(&by.to_ascii_lowercase());
                    names(TABLE.iter().filter(|one| pattern.matches(one.name.as_bytes())), reply);
                }
                () if args.is(3, "ACLCAT") => names(TABLE.iter().filter(|one| in_category(by, one)), reply),
                // There are no modules.
                () if args.is(3, "MODULE") => reply.array(0),
                () => return Err(SYNTAX.to_owned()),
            }
        }
        () if args.is(1, "LIST") => return Err(SYNTAX.to_owned()),
        () if args.is(1, "COUNT") => return Err(wrong_number("command|count")),
        () if args.is(1, "GETKEYS") && args.len() < 4 => return Err(wrong_number("command|getkeys")),
        () if args.is(1, "GETKEYS") => keys(args.from(2), reply)?,
        () => return help("command", args, reply),
    }
    Ok(())
}

fn names<'c>(commands: impl Iterator<Item = &'c CommandRow>, reply: &mut ReplyWriter<'_>) {
    let commands: Vec<&CommandRow> = commands.collect();
    reply.array(commands.len());
    commands.into_iter().for_each(|command| reply.bulk(command.name.as_bytes()));
}

fn keys(args: Args<'_>, reply: &mut ReplyWriter<'_>) -> Result<(), String> {
    let command = CommandRow::find(args.at(0)).ok_or("ERR Invalid command specified")?;
    if command.keys.first == 0 {
        return Err("ERR The command has no key arguments".to_owned());
    }
    if !command.accepts_count(args.len()) {
        return Err("ERR Invalid number of arguments specified for command".to_owned());
    }
    let (places, step) = command.key_positions(args.len());
    let keys: Vec<&[u8]> = places.step_by(step).map(|place| args.at(place)).collect();
    reply.array(keys.len());
    keys.into_iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn flags(command: &CommandRow) -> Vec<&'static str> {
    let names = [
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (BLOCKING, "blocking"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MULTI, "no_multi"),
    ];
    names.into_iter().filter(|(flag, _)| command.has(*flag)).map(|(_, name)| name).collect()
}

fn categories(command: &CommandRow) -> Vec<String> {
    let mut all = vec![if command.has(FAST) { "@fast" } else { "@slow" }.to_owned()];
    for (flag, name) in [(WRITE, "@write"), (READONLY, "@read"), (ADMIN, "@admin"), (BLOCKING, "@blocking")] {
        if command.has(flag) {
            all.push(name.to_owned());
        }
    }
    all.push(match command.group {
        "generic" => "@keyspace".to_owned(),
        "transactions" => "@transaction".to_owned(),
        "server" | "cluster" => "@admin".to_owned(),
        group => format!("@{group}"),
    });
    all.dedup();
    all
}

fn in_category(name: &[u8], command: &CommandRow) -> bool {
    categories(command).iter().any(|one| one.as_bytes()[1..].eq_ignore_ascii_case(name))
}

/// One command as `COMMAND` and `COMMAND INFO` have it: ten fields.
fn describe(command: &CommandRow, reply: &mut ReplyWriter<'_>) {
    let keys = command.keys;
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity.into());
    let flags = flags(command);
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    reply.integer(keys.first.into());
    reply.integer(keys.last.into());
    reply.integer(keys.step.into());
    let categories = categories(command);
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(category));
    reply.set(0);
    if keys.first == 0 {
        reply.set(0);
    } else {
        reply.set(1);
        key_specification(command, reply);
    }
    reply.set(0);
}

/// The key specification, in the terms of Redis 7.
fn key_specification(command: &CommandRow, reply: &mut ReplyWriter<'_>) {
    let keys = command.keys;
    reply.map(3);
    reply.bulk(b"flags");
    let flags: &[&str] = if command.has(WRITE) { &["RW", "update"] } else { &["RO", "access"] };
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(keys.first.into());
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"range");
    reply.bulk(b"spec");
    reply.map(3);
    reply.bulk(b"lastkey");
    // Relative to the first key, unless it counts from the end.
    reply.integer(if keys.last < 0 { keys.last.into() } else { i64::from(keys.last - keys.first) });
    reply.bulk(b"keystep");
    reply.integer(keys.step.into());
    reply.bulk(b"limit");
    reply.integer(0);
}

/// One command as `COMMAND DOCS` has it.
fn document(command: &CommandRow, reply: &mut ReplyWriter<'_>) {
    reply.bulk(command.name.as_bytes());
    reply.map(3);
    for (name, text) in [("summary", command.summary), ("since", command.since), ("group", command.group)] {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
}
