//! `HELLO` and `AUTH`.

use super::information::REDIS_VERSION;
use super::local::{is_name, protocol};
use super::{Connection, wrong_number};
use crate::execute::SYNTAX;
use crate::limits::NAME_BYTES_MAX;
use crate::number::integer;
use crate::{Args, ConnectionWorld, ReplyWriter, WrongPassword};

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(super) const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

impl Connection {
    /// Whether it has failed to authenticate and its delay is not over.
    #[must_use]
    pub fn is_delayed(&self) -> bool {
        self.is_delayed
    }

    /// The delay is over: [`Connection::receive`] must be called again.
    pub fn end_delay(&mut self) {
        self.is_delayed = false;
    }

    pub(super) fn hello(
        &mut self,
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        reply: &mut ReplyWriter<'_>,
    ) -> Result<(), String> {
        let mut requested = self.protocol;
        if let Some(number) = args.get(1) {
            let number = integer(number).ok_or("ERR Protocol version is not an integer or out of range")?;
            requested = protocol(number).ok_or("NOPROTO unsupported protocol version")?;
        }
        let (mut login, mut name) = (None, None);
        let mut at = 2;
        while at < args.len() {
            if args.is(at, "AUTH") && at + 2 < args.len() {
                login = Some((args.at(at + 1), args.at(at + 2)));
                at += 3;
            } else if args.is(at, "SETNAME") && at + 1 < args.len() {
                name = Some(args.at(at + 1));
                at += 2;
            } else {
                let option = super::repeated(args.at(at), 128);
                return Err(format!("ERR Syntax error in HELLO option '{option}'"));
            }
        }
        if let Some((user, password)) = login {
            self.log_in(user, password, world)?;
        }
        if !self.is_authenticated && world.needs_authentication() {
            return Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
                        <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
                        RESP protocol version at the same time"
                .to_owned());
        }
        if let Some(name) = name {
            self.set_name(name)?;
        }
        self.protocol = requested;
        let mut greeting = ReplyWriter::new(reply.body(), requested);
        greeting.map(7);
        for (field, text) in [("server", "redis"), ("version", REDIS_VERSION)] {
            greeting.bulk(field.as_bytes());
            greeting.bulk(text.as_bytes());
        }
        greeting.bulk(b"proto");
        greeting.integer(if requested == crate::Protocol::Resp3 { 3 } else { 2 });
        greeting.bulk(b"id");
        greeting.count(self.id);
        for (field, text) in [("mode", "cluster"), ("role", "master")] {
            greeting.bulk(field.as_bytes());
            greeting.bulk(text.as_bytes());
        }
        greeting.bulk(b"modules");
        greeting.array(0);
        Ok(())
    }

    pub(super) fn auth(
        &mut self,
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        reply: &mut ReplyWriter<'_>,
    ) -> Result<(), String> {
        let (user, password): (&[u8], &[u8]) = match args.len() {
            2 if !world.needs_authentication() => {
                return Err(
                    "ERR AUTH <password> called without any password configured for the default user. Are \
                            you sure your configuration is correct?"
                        .to_owned(),
                );
            }
            2 => (b"default", args.at(1)),
            3 => (args.at(1), args.at(2)),
            _ => return Err(SYNTAX.to_owned()),
        };
        self.log_in(user, password, world)?;
        reply.ok();
        Ok(())
    }

    fn log_in(
        &mut self,
        user: &[u8],
        password: &[u8],
        world: &mut dyn ConnectionWorld,
    ) -> Result<(), String> {
        world.authenticate(user, password).map_err(|WrongPassword { why }| {
            self.is_delayed = true;
            why.map_or_else(|| WRONG_PASSWORD.to_owned(), |why| format!("WRONGPASS {why}"))
        })?;
        self.is_authenticated = true;
        Ok(())
    }

    pub(super) fn set_name(&mut self, name: &[u8]) -> Result<(), String> {
        if !is_name(name) || name.len() > NAME_BYTES_MAX {
            return Err(BAD_NAME.to_owned());
        }
        self.name = String::from_utf8_lossy(name).into_owned();
        Ok(())
    }

    /// An error unless a subcommand has this many arguments, with its own and the command's name.
    pub(super) fn check_count(args: Args<'_>, count: usize, name: &str) -> Result<(), String> {
        if args.len() == count { Ok(()) } else { Err(wrong_number(name)) }
    }
}
