//! `zerohop token`: permissions of clients that do not know the cluster's secret.

mod buckets;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use zerohop_client::{Client, write_new_token};
use zerohop_s3::{Grant as S3Grant, grants_key};
use zerohop_system::clock::HybridClock;
use zerohop_wire::Permission;
use zerohop_wire::admin::{TokenGrant, TokenPut, TokenStatus};

use self::buckets::{BucketGrantOutput, BucketGrants, check_place};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;
use crate::common::view::{self, AgedRow};
use crate::common::{admin, names, quantity};
use crate::output;
use crate::s3::keyspaces;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Creates a token and writes it into a file, which only its owner can read. It needs the cluster's secret.
    ///
    /// Clients give the file with --token-file or ZEROHOP_TOKEN_FILE. A Redis client uses the contents of the file as
    /// its password. The cluster stores only the number of the token, not the token.
    New(TokenNewArguments),
    /// Lists the tokens and their permissions.
    #[command(visible_alias = "ls")]
    List(TokenListArguments),
    /// Revokes a token, also on open connections.
    Revoke(RevokeArguments),
}

#[derive(Args, Debug)]
pub(crate) struct TokenNewArguments {
    /// The name of the token.
    name: String,
    /// Permissions in a keyspace, as in papers=read,write; `admin` allows to alter, split and drop it. May be given
    /// several times.
    #[arg(long, value_name = "KEYSPACE=PERMISSIONS", value_parser = grant)]
    keyspace: Vec<Grant>,
    /// Permissions in all keyspaces, also in those created later. With `admin`, the token permits everything.
    #[arg(long, value_name = "PERMISSIONS", value_parser = permissions)]
    all: Option<u32>,
    /// Permissions for clients of S3 in a bucket, or in its objects whose names begin with a prefix, as in
    /// pictures=read,write or pictures/2026/=read. A client with `write` in a complete bucket may create and delete it,
    /// and one with `admin` may configure it. May be given several times; prints the access keys as --s3 does.
    #[arg(long, value_name = "BUCKET[/PREFIX]=PERMISSIONS", value_parser = bucket)]
    bucket: Vec<S3Grant>,
    /// The keyspace of `zerohop s3` that --bucket refers to.
    #[arg(long, value_name = "NAME", default_value = "objects")]
    objects: String,
    /// Prints the access key id, which is the name of the token, and the secret access key for clients of S3. In all
    /// buckets they have the permissions of the token in the keyspace of `zerohop s3`.
    #[arg(long)]
    s3: bool,
    /// The validity period from now, as in 12h or 30d, by the clocks of the nodes [default: until the token is
    /// revoked].
    #[arg(long, value_name = "TIME", value_parser = quantity::token_time)]
    expires: Option<Duration>,
    /// The file of the token [default: NAME.token in the current folder].
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TokenListArguments {
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RevokeArguments {
    /// The name of the token.
    name: String,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON of a new token.
#[derive(Serialize)]
struct TokenNewOutput<'a> {
    /// Its number, in hexadecimal digits.
    id: String,
    name: &'a str,
    file: String,
    /// The validity period in milliseconds; `None`: it does not expire.
    expires_in_ms: Option<u64>,
    /// For clients of S3.
    #[serde(flatten)]
    s3: Option<S3Keys<'a>>,
}

/// What a client of S3 signs with.
#[derive(Serialize)]
struct S3Keys<'a> {
    access_key_id: &'a str,
    secret_access_key: String,
}

/// The JSON of a token that was revoked.
#[derive(Serialize)]
struct RevokeOutput<'a> {
    name: &'a str,
    done: bool,
}

/// Permissions in one keyspace.
#[derive(Clone, Debug)]
struct Grant {
    keyspace: String,
    permissions: u32,
}

#[derive(Serialize)]
struct TokenOutput {
    /// Its number, in hexadecimal digits.
    id: String,
    name: String,
    grants: Vec<GrantOutput>,
    /// What clients of S3 may do in buckets; `None`: it cannot be read.
    buckets: Option<Vec<BucketGrantOutput>>,
    /// Milliseconds since 1970; `None`: it does not expire.
    expires_at_ms: Option<u64>,
    expired: bool,
}

#[derive(Serialize)]
struct GrantOutput {
    /// `None`: all keyspaces.
    keyspace: Option<String>,
    permissions: Vec<&'static str>,
}

pub(crate) async fn run(command: TokenCommand) -> Result<CommandEnding, CommandError> {
    match command {
        TokenCommand::New(arguments) => new(arguments).await,
        TokenCommand::List(TokenListArguments { target, json }) => {
            let client = target.connect().await?;
            let tokens = admin::tokens(&client).await?;
            let status = admin::status(&client).await?;
            view::print_age_without_quorum(&status);
            let mut buckets = BucketGrants::new(&client);
            let mut shown = Vec::new();
            for token in tokens {
                let in_buckets = buckets.of(&token).await;
                shown.push(TokenOutput { buckets: in_buckets, ..TokenOutput::from(token) });
            }
            match json {
                true => output::json_lines(shown.into_iter().map(|token| AgedRow::new(token, &status)))?,
                false => {
                    let now_ms = HybridClock::default().tick().millis();
                    shown.iter().try_for_each(|token| output::result(&token.line(now_ms)))?;
                }
            }
            Ok(CommandEnding::Done)
        }
        TokenCommand::Revoke(RevokeArguments { name, target, json }) => {
            admin::revoke_token(&target.connect().await?, &name).await?;
            output::note_done(output::COMMAND);
            if json {
                output::json(&RevokeOutput { name: &name, done: true })?;
            }
            Ok(CommandEnding::Done)
        }
    }
}

async fn new(arguments: TokenNewArguments) -> Result<CommandEnding, CommandError> {
    let TokenNewArguments { name, keyspace, all, bucket, objects, s3, expires, file, target, json } =
        arguments;
    let mut grants: Vec<TokenGrant> = keyspace
        .into_iter()
        .map(|Grant { keyspace, permissions }| TokenGrant { keyspace, permissions })
        .collect();
    grants.extend(all.map(|permissions| TokenGrant { keyspace: String::new(), permissions }));
    if grants.is_empty() && bucket.is_empty() {
        let what =
            "say what it permits: --keyspace NAME=read,write, --all read, or --bucket NAME=read for S3";
        return Err(CommandError::Usage(what.to_owned()));
    }
    let secret = target.secret()?;
    let client = target.connect().await?;
    let path = file.unwrap_or_else(|| PathBuf::from(format!("{}.token", name.replace('/', "_"))));
    if path.exists() {
        return Err(CommandError::Refused(format!(
            "{} exists already: name another file with --file, or remove this one if its token is not used any more",
            names::path(&path)
        )));
    }
    let token = write_new_token(&path, &secret).map_err(CommandError::Secret)?;
    let put = TokenPut { id: token.id(), name: name.clone(), grants };
    if let Err(error) = register(&client, put, &bucket, &objects, expires).await {
        // The file is useless: the cluster does not know the token.
        drop(std::fs::remove_file(&path));
        return Err(error);
    }
    output::note_done(output::COMMAND);
    let keys = (s3 || !bucket.is_empty())
        .then(|| S3Keys { access_key_id: &name, secret_access_key: token.s3_secret() });
    if json {
        output::json(&TokenNewOutput {
            id: format!("{:016x}", token.id()),
            name: &name,
            file: path.display().to_string(),
            expires_in_ms: expires.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            s3: keys,
        })?;
        return Ok(CommandEnding::Done);
    }
    let expiry =
        expires.map_or_else(String::new, |time| format!(" It expires in {}.", quantity::format_time(time)));
    output::problem(&format!(
        "Token {} is in {}. Each client with this file has its permissions.{expiry}",
        names::text(name.as_bytes()),
        names::path(&path)
    ));
    if let Some(S3Keys { access_key_id, secret_access_key }) = keys {
        output::result(&format!("access key id: {access_key_id}\nsecret access key: {secret_access_key}"))?;
    }
    Ok(CommandEnding::Done)
}

/// Makes a token valid. Its grants in buckets are recorded before, so that no gateway finds the token without them.
async fn register(
    client: &Client,
    mut put: TokenPut,
    buckets: &[S3Grant],
    objects: &str,
    expires: Option<Duration>,
) -> Result<(), CommandError> {
    if buckets.is_empty() {
        return admin::put_token(client, put, expires).await;
    }
    let recorded = keyspaces::open_grants(client, objects).await?;
    let permissions = u32::from(Permission::Read.number());
    put.grants.push(TokenGrant { keyspace: keyspaces::grants_of(objects), permissions });
    let key = grants_key(put.id);
    recorded.insert(&key, &S3Grant::encode(buckets)).await?;
    let done = admin::put_token(client, put, expires).await;
    if done.is_err() {
        // A record without a token grants nothing.
        drop(recorded.remove(&key).await);
    }
    done
}

impl From<TokenStatus> for TokenOutput {
    fn from(status: TokenStatus) -> Self {
        let grant = |grant: TokenGrant| {
            let has = |one: &&Permission| grant.permissions & u32::from(one.number()) != 0;
            GrantOutput {
                permissions: Permission::ALL.iter().filter(has).map(|one| one.text()).collect(),
                keyspace: Some(grant.keyspace).filter(|name| !name.is_empty()),
            }
        };
        TokenOutput {
            id: format!("{:016x}", status.id),
            name: status.name,
            expires_at_ms: status.expires_ms,
            expired: status.has_expired,
            grants: status.grants.into_iter().map(grant).collect(),
            buckets: None,
        }
    }
}

impl TokenOutput {
    /// The text form at this time, in milliseconds since 1970.
    fn line(&self, now_ms: u64) -> String {
        let mut grants: Vec<String> = self
            .grants
            .iter()
            .map(|grant| {
                let keyspace = grant.keyspace.as_deref().unwrap_or("all keyspaces");
                format!("{keyspace}: {}", grant.permissions.join(","))
            })
            .collect();
        match &self.buckets {
            Some(buckets) => grants.extend(buckets.iter().map(BucketGrantOutput::line)),
            None => grants.push("buckets: not known".to_owned()),
        }
        let left = |at_ms: u64| at_ms.checked_sub(now_ms).filter(|left| *left > 0);
        let expiry = match (self.expired, self.expires_at_ms) {
            (true, _) => "\thas expired".to_owned(),
            (false, None) => String::new(),
            (false, Some(at_ms)) => match left(at_ms) {
                Some(left) => {
                    format!("\texpires in {}", quantity::format_time(Duration::from_millis(left)))
                }
                None => "\texpires now".to_owned(),
            },
        };
        format!("{}\t{}\t{}{expiry}", names::text(self.name.as_bytes()), self.id, grants.join("; "))
    }
}

/// Parses KEYSPACE=PERMISSIONS. For clap.
fn grant(text: &str) -> Result<Grant, String> {
    let (keyspace, list) =
        text.split_once('=').ok_or("write KEYSPACE=PERMISSIONS, as in papers=read,write")?;
    if keyspace.is_empty() {
        return Err("name a keyspace, as in papers=read; --all is for all of them".to_owned());
    }
    Ok(Grant { keyspace: keyspace.to_owned(), permissions: permissions(list)? })
}

/// Parses BUCKET=PERMISSIONS or BUCKET/PREFIX=PERMISSIONS. For clap. A prefix may have the character `=`.
fn bucket(text: &str) -> Result<S3Grant, String> {
    let (place, list) = text.rsplit_once('=').ok_or("write BUCKET=PERMISSIONS, as in pictures=read,write")?;
    check_place(place)?;
    let bits = u8::try_from(permissions(list)?).map_err(|error| error.to_string())?;
    S3Grant::new(place, bits).map_err(|error| error.to_string())
}

/// Parses permissions into a bit set. For clap.
fn permissions(text: &str) -> Result<u32, String> {
    text.split(',').try_fold(0, |bits, name| {
        let found = Permission::ALL.iter().find(|one| one.text() == name);
        let one = found.ok_or_else(|| {
            format!("{} is no permission: write read, write or admin", names::quoted(name.as_bytes()))
        })?;
        Ok(bits | u32::from(one.number()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_read_and_nonsense_is_not() {
        assert_eq!(permissions("read"), Ok(1));
        assert_eq!(permissions("write,read,admin"), Ok(7));
        for bad in ["", "reads", "read,", "READ", "read write"] {
            assert!(permissions(bad).is_err(), "{bad}");
        }
        let papers = grant("papers=read,write").unwrap();
        assert_eq!((papers.keyspace.as_str(), papers.permissions), ("papers", 3));
        let below = bucket("pictures/a=b/=read").unwrap();
        assert_eq!((below.prefix.as_str(), below.permissions), ("pictures/a=b/", 1));
        assert!(bucket("pictures").is_err() && bucket("=read").is_err() && bucket("pictures=").is_err());
        assert!(grant("papers").is_err() && grant("=read").is_err() && grant("papers=").is_err());
    }
}
