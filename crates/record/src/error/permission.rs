//! Permissions.

use crate::numbered;

numbered!(
    /// A permission: the missing one in [`Failure::Forbidden`](super::Failure::Forbidden), and one bit of the permissions of a token.
    Permission: u8 {
        /// To read records.
        Read = 1, "read";
        /// To change records. The answer to a change may reveal contents of the record.
        Write = 2, "write";
        /// To alter, split and drop the keyspace; with all keyspaces: everything.
        Admin = 4, "admin";
    }
);
