//! The kinds of commands, by what executes them. Several names may have one kind.

/// Commands that the partition of their keys executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyedCommand {
    Append,
    BitCount,
    BitPos,
    Cas,
    Copy,
    Decr,
    DecrBy,
    Del,
    Exists,
    Expire,
    ExpireAt,
    ExpireTime,
    Get,
    GetBit,
    GetDel,
    GetEx,
    GetRange,
    GetSet,
    Incr,
    IncrBy,
    IncrByFloat,
    LIndex,
    LLen,
    LRange,
    LTrim,
    MGet,
    MSet,
    MSetNx,
    PExpire,
    PExpireAt,
    PExpireTime,
    PSetEx,
    PTtl,
    Persist,
    RPush,
    RPushX,
    Rename,
    RenameNx,
    Set,
    SetBit,
    SetEx,
    SetNx,
    SetRange,
    StrLen,
    Ttl,
    Type,
    Wait,
}

/// Commands that need neither records nor the connection's state. They are allowed in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalCommand {
    Command,
    Config,
    Debug,
    Echo,
    Info,
    Ping,
    Select,
    Time,
}

/// Commands that change the state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionCommand {
    AskingRedirect,
    Auth,
    Client,
    Cluster,
    Discard,
    Exec,
    Hello,
    Keyspace,
    Multi,
    Quit,
    Unwatch,
    Watch,
}

/// Commands over all partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatherCommand {
    /// `CLUSTER COUNTKEYSINSLOT`.
    CountSlot(u16),
    DbSize,
    Flush,
    Keys,
    RandomKey,
    Scan,
}
