//! What somebody must be permitted.

use crate::numbered::numbered;

numbered!(
    /// A permission: what is missing in [`Failure::Forbidden`](super::Failure::Forbidden), and one bit of what a token has.
    Permission: u8 {
        /// To read records.
        Read = 1, "read";
        /// To change them. What a change answers may tell of the record.
        Write = 2, "write";
        /// To alter, split and drop the keyspace; with all keyspaces: everything.
        Admin = 4, "admin";
    }
);
