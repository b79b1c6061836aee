//! `ZH.KEYSPACE`: the keyspace of a connection's commands.

use super::transaction::Watch;
use super::{Connection, wrong_number};
use crate::{Args, ConnectionWorld, ReplyWriter};

impl Connection {
    /// `ZH.KEYSPACE`: returns the keyspace, or changes it.
    pub(super) fn switch(
        &mut self,
        args: Args<'_>,
        world: &dyn ConnectionWorld,
        reply: &mut ReplyWriter<'_>,
    ) -> Result<(), String> {
        match args.len() {
            1 => reply.bulk(world.keyspace_name(self.keyspace).as_bytes()),
            2 if self.transaction.is_some() => {
                return Err("ERR ZH.KEYSPACE inside MULTI is not allowed".to_owned());
            }
            2 => {
                let keyspace = world.keyspace(args.at(1)).ok_or("ERR there is no keyspace of this name")?;
                if keyspace != self.keyspace {
                    self.keyspace = keyspace;
                    self.watch = Watch::default();
                }
                reply.ok();
            }
            _ => return Err(wrong_number("zh.keyspace")),
        }
        Ok(())
    }
}
