//! `CLIENT`.

use super::help::help;
use super::local::is_name;
use super::{Connection, Replies, repeated};
use crate::execute::SYNTAX;
use crate::limits::NAME_BYTES_MAX;
use crate::number::integer;
use crate::{Args, ConnectionWorld, Protocol, ReplyWriter};

impl Connection {
    pub(super) fn client(
        &mut self,
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        reply: &mut ReplyWriter<'_>,
    ) -> Result<(), String> {
        let exactly = |count, name| Connection::check_count(args, count, name);
        match () {
            () if args.is(1, "ID") => {
                exactly(2, "client|id")?;
                reply.count(self.id);
            }
            () if args.is(1, "GETNAME") => {
                exactly(2, "client|getname")?;
                match self.name.as_str() {
                    "" => reply.null(),
                    name => reply.bulk(name.as_bytes()),
                }
            }
            () if args.is(1, "SETNAME") => {
                exactly(3, "client|setname")?;
                self.set_name(args.at(2))?;
                reply.ok();
            }
            () if args.is(1, "SETINFO") => {
                exactly(4, "client|setinfo")?;
                self.set_info(args)?;
                reply.ok();
            }
            () if args.is(1, "INFO") => {
                exactly(2, "client|info")?;
                reply.verbatim(&format!("{}\n", self.describe(world.now_us(), 0)));
            }
            () if args.is(1, "LIST") => reply.verbatim(&self.list(args, world)?),
            () if args.is(1, "NO-EVICT") => {
                exactly(3, "client|no-evict")?;
                self.no_evict = on_or_off(args)?;
                reply.ok();
            }
            () if args.is(1, "NO-TOUCH") => {
                exactly(3, "client|no-touch")?;
                on_or_off(args)?;
                reply.ok();
            }
            () if args.is(1, "REPLY") => {
                exactly(3, "client|reply")?;
                self.set_reply_mode(args, reply)?;
            }
            () => return help("client", args, reply),
        }
        Ok(())
    }

    /// `CLIENT REPLY`: which replies are wanted from now on.
    fn set_reply_mode(&mut self, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> Result<(), String> {
        match () {
            () if args.is(2, "ON") => {
                (self.replies, self.silent) = (Replies::On, false);
                reply.ok();
            }
            () if args.is(2, "OFF") => (self.replies, self.silent) = (Replies::Off, true),
            () if args.is(2, "SKIP") => {
                if self.replies == Replies::On {
                    self.replies = Replies::SkipNext;
                }
                self.silent = true;
            }
            () => return Err(SYNTAX.to_owned()),
        }
        Ok(())
    }

    fn set_info(&mut self, args: Args<'_>) -> Result<(), String> {
        let value = args.at(3);
        let (name, field) = match () {
            () if args.is(2, "LIB-NAME") => ("lib-name", &mut self.library),
            () if args.is(2, "LIB-VER") => ("lib-ver", &mut self.library_version),
            () => return Err(format!("ERR Unrecognized option '{}'", repeated(args.at(2), 128))),
        };
        if !is_name(value) || value.len() > NAME_BYTES_MAX {
            return Err(format!("ERR {name} cannot contain spaces, newlines or special characters."));
        }
        *field = String::from_utf8_lossy(value).into_owned();
        Ok(())
    }

    /// `CLIENT LIST`: one line for each connection of this instance.
    fn list(&self, args: Args<'_>, world: &dyn ConnectionWorld) -> Result<String, String> {
        let mut lines = vec![self.describe(world.now_us(), 0)];
        world.other_clients(self.id, &mut |line| lines.push(line.to_owned()));
        match () {
            () if args.len() == 2 => {}
            () if args.is(2, "TYPE") && args.len() == 4 => match () {
                () if args.is(3, "normal") => {}
                () if ["master", "replica", "slave", "pubsub"].iter().any(|word| args.is(3, word)) => {
                    lines.clear()
                }
                () => return Err(format!("ERR Unknown client type '{}'", repeated(args.at(3), 128))),
            },
            () if args.is(2, "ID") && args.len() > 3 => {
                let ids: Option<Vec<i64>> = args.iter().skip(3).map(integer).collect();
                let ids = ids.filter(|ids| ids.iter().all(|&id| id > 0)).ok_or("ERR Invalid client ID")?;
                let starts: Vec<String> = ids.iter().map(|id| format!("id={id} ")).collect();
                lines.retain(|line| starts.iter().any(|start| line.starts_with(start)));
            }
            () => return Err(SYNTAX.to_owned()),
        }
        Ok(lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect())
    }

    /// Its line in `CLIENT LIST`, without a line end. `kept`: bytes in memory for this client.
    #[must_use]
    pub fn describe(&self, now_us: u64, kept: usize) -> String {
        let seconds = |since: u64| now_us.saturating_sub(since) / 1_000_000;
        let resp = if self.protocol == Protocol::Resp3 { 3 } else { 2 };
        let multi = self.transaction.as_ref().map_or(-1, |transaction| transaction.len() as i64);
        let flags = match (multi >= 0, self.blocked.is_some(), self.no_evict) {
            (true, ..) => "x",
            (_, true, _) => "b",
            (.., true) => "e",
            _ => "N",
        };
        format!(
            "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={flags} db=0 sub=0 psub=0 ssub=0 \
             multi={multi} omem={kept} cmd={} user=default redir=-1 resp={resp} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local_address,
            self.name,
            seconds(self.since_us),
            seconds(self.last_us),
            self.last_command,
            self.library,
            self.library_version,
        )
    }
}

fn on_or_off(args: Args<'_>) -> Result<bool, String> {
    match (args.is(2, "ON"), args.is(2, "OFF")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(SYNTAX.to_owned()),
    }
}
