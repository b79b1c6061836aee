//! What executes each keyed command.

use super::{ExecuteResult, Execution};
use super::{bits, counters, expiry, keys, lists, strings, zerohop};
use crate::Args;
use crate::command::KeyedCommand;

/// Executes a keyed command.
#[inline]
pub(super) fn run(execution: &mut Execution<'_>, command: KeyedCommand, args: Args<'_>) -> ExecuteResult {
    let handler = match command {
        KeyedCommand::Append => strings::append,
        KeyedCommand::BitCount => bits::bitcount,
        KeyedCommand::BitPos => bits::bitpos,
        KeyedCommand::Cas => zerohop::cas,
        KeyedCommand::Copy => keys::copy,
        KeyedCommand::Decr => counters::decr,
        KeyedCommand::DecrBy => counters::decrby,
        KeyedCommand::Del => keys::del,
        KeyedCommand::Exists => keys::exists,
        KeyedCommand::Expire => expiry::expire,
        KeyedCommand::ExpireAt => expiry::expireat,
        KeyedCommand::ExpireTime => expiry::expiretime,
        KeyedCommand::Get => strings::get,
        KeyedCommand::GetBit => bits::getbit,
        KeyedCommand::GetDel => strings::getdel,
        KeyedCommand::GetEx => strings::getex,
        KeyedCommand::GetRange => strings::getrange,
        KeyedCommand::GetSet => strings::getset,
        KeyedCommand::Incr => counters::incr,
        KeyedCommand::IncrBy => counters::incrby,
        KeyedCommand::IncrByFloat => counters::incrbyfloat,
        KeyedCommand::LIndex => lists::lindex,
        KeyedCommand::LLen => lists::llen,
        KeyedCommand::LRange => lists::lrange,
        KeyedCommand::LTrim => lists::ltrim,
        KeyedCommand::MGet => strings::mget,
        KeyedCommand::MSet => strings::mset,
        KeyedCommand::MSetNx => strings::msetnx,
        KeyedCommand::PExpire => expiry::pexpire,
        KeyedCommand::PExpireAt => expiry::pexpireat,
        KeyedCommand::PExpireTime => expiry::pexpiretime,
        KeyedCommand::PSetEx => strings::psetex,
        KeyedCommand::PTtl => expiry::pttl,
        KeyedCommand::Persist => expiry::persist,
        KeyedCommand::RPush => lists::rpush,
        KeyedCommand::RPushX => lists::rpushx,
        KeyedCommand::Rename => keys::rename,
        KeyedCommand::RenameNx => keys::renamenx,
        KeyedCommand::Set => strings::set,
        KeyedCommand::SetBit => bits::setbit,
        KeyedCommand::SetEx => strings::setex,
        KeyedCommand::SetNx => strings::setnx,
        KeyedCommand::SetRange => strings::setrange,
        KeyedCommand::StrLen => strings::strlen,
        KeyedCommand::Ttl => expiry::ttl,
        KeyedCommand::Type => keys::typed,
        KeyedCommand::Wait => zerohop::wait,
    };
    handler(execution, args)
}
