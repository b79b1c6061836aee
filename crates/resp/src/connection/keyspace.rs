//! The keyspace of a connection's commands, and `ZH.KEYSPACE`.

use super::transaction::Watch;
use super::{Connection, wrong_number};
use crate::reply::{KEYSPACE_DROPPED, NO_KEYSPACE_YET};
use crate::{Args, ConnectionWorld, ReplyWriter};

impl Connection {
    /// The partition count of the keyspace, at least 1. What needs the keyspace but runs no unit in it begins with this.
    ///
    /// # Errors
    /// The keyspace was dropped, or no keyspace is known yet.
    pub(super) fn existing_partitions(&self, world: &dyn ConnectionWorld) -> Result<u32, &'static str> {
        match world.partitions(self.keyspace) {
            0 if !world.has_known_keyspaces() => Err(NO_KEYSPACE_YET),
            0 => Err(KEYSPACE_DROPPED),
            partitions => Ok(partitions),
        }
    }

    /// `ZH.KEYSPACE`: returns the keyspace, or changes it.
    pub(super) fn switch(
        &mut self,
        args: Args<'_>,
        world: &dyn ConnectionWorld,
        reply: &mut ReplyWriter<'_>,
    ) -> Result<(), String> {
        match args.len() {
            1 => {
                self.existing_partitions(world)?;
                reply.bulk(world.keyspace_name(self.keyspace).as_bytes());
            }
            2 if self.transaction.is_some() => {
                return Err("ERR ZH.KEYSPACE inside MULTI is not allowed".to_owned());
            }
            2 => {
                let keyspace =
                    world.keyspace(args.at(1)).ok_or_else(|| match world.has_known_keyspaces() {
                        true => "ERR there is no keyspace of this name",
                        false => NO_KEYSPACE_YET,
                    })?;
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
