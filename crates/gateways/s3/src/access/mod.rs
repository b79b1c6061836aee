//! The users of a gateway and what each may do: a user is a token of the cluster, and its access key id is the token's name.

mod cluster_users;
mod grants;
mod visitors;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Error, S3ErrorCode, S3Result};
use zerohop_wire::Permission;

use crate::connection_state::ConnectionState;
use crate::metrics::RequestFacts;

pub use cluster_users::ClusterUsers;
pub use grants::{Grant, GrantError, grants_key};
pub(crate) use visitors::{CheckedRequest, RequestAccess, Visitor, may_list, unsigned};

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// What the user may do.
    pub grants: Arc<[Grant]>,
}

/// The result of a search for a user.
#[derive(Clone, PartialEq, Eq)]
pub enum UserFound {
    /// The user, and the secret access key.
    User(User, String),
    /// There is no such access key id, or it was revoked.
    None,
    /// The access key has expired.
    Expired,
}

/// The users of a gateway.
#[async_trait::async_trait]
pub trait Users: Send + Sync + 'static {
    /// The user with this access key id.
    ///
    /// # Errors
    /// The users are not known at this time. The text is for the log.
    async fn find(&self, access_key: &str) -> Result<UserFound, String>;
}

/// Users that all have the same secret access key and may do everything.
#[derive(Clone)]
pub struct FixedUsers {
    /// The only access key id; `None`: any.
    pub access_key: Option<String>,
    /// The secret access key.
    pub secret: String,
}

#[async_trait::async_trait]
impl Users for FixedUsers {
    async fn find(&self, access_key: &str) -> Result<UserFound, String> {
        let is_known = self.access_key.as_ref().map_or(!access_key.is_empty(), |known| known == access_key);
        Ok(match is_known {
            true => UserFound::User(User::unlimited(), self.secret.clone()),
            false => UserFound::None,
        })
    }
}

impl User {
    /// A user that may do everything.
    #[must_use]
    pub fn unlimited() -> Self {
        let permissions = Permission::ALL.iter().fold(0, |bits, one| bits | one.number());
        Self { grants: [Grant { prefix: String::new(), permissions }].into() }
    }

    /// Whether the user has the permission for all objects of the bucket whose names begin with `name`.
    pub(crate) fn may(&self, permission: Permission, bucket: &str, name: &str) -> bool {
        let covers = |prefix: &str| match prefix.strip_prefix(bucket).and_then(|rest| rest.strip_prefix('/'))
        {
            Some(rest) => name.starts_with(rest),
            None => prefix.is_empty(),
        };
        self.grants.iter().any(|grant| grant.has(permission) && covers(&grant.prefix))
    }

    /// Whether the user has any permission in the bucket.
    pub(crate) fn knows(&self, bucket: &str) -> bool {
        let is_of = |prefix: &str| prefix.strip_prefix(bucket).is_some_and(|rest| rest.starts_with('/'));
        self.grants.iter().any(|grant| grant.prefix.is_empty() || is_of(&grant.prefix))
    }
}

/// Finds users for s3s, which checks their signatures, and hands them to the operations.
pub(crate) struct UserAccess(pub(crate) Arc<dyn Users>);

impl UserAccess {
    async fn find(&self, access_key: &str) -> S3Result<(User, String)> {
        let refuse =
            |message: &'static str| Err(S3Error::with_message(S3ErrorCode::InvalidAccessKeyId, message));
        match self.0.find(access_key).await {
            Ok(UserFound::User(user, secret)) => Ok((user, secret)),
            Ok(UserFound::None) => refuse("The access key id does not exist."),
            Ok(UserFound::Expired) => refuse("The access key has expired."),
            Err(why) => {
                tracing::warn!(why, "the users of S3 are not known");
                Err(S3Error::with_message(
                    S3ErrorCode::ServiceUnavailable,
                    "The operation failed; repeat it.",
                ))
            }
        }
    }
}

#[async_trait::async_trait]
impl S3Auth for UserAccess {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        self.find(access_key).await.map(|(_, secret)| SecretKey::from(secret))
    }
}

#[async_trait::async_trait]
impl S3Access for UserAccess {
    /// Only requests with a signature have a user.
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        name_operation(context);
        let Some(credentials) = context.credentials() else {
            return Err(unsigned());
        };
        let (user, _) = self.find(&credentials.access_key.clone()).await?;
        let extensions = context.extensions_mut();
        if let Some(connection) = extensions.get::<Arc<ConnectionState>>() {
            connection.is_known.store(true, Ordering::Relaxed);
        }
        if let Some(checked) = extensions.get::<Arc<CheckedRequest>>() {
            checked.user.get_or_init(|| user.clone());
        }
        extensions.insert(user);
        Ok(())
    }
}

/// Names the operation of a request for metrics and the log.
fn name_operation(context: &mut S3AccessContext<'_>) {
    let operation = context.s3_op().name().to_owned();
    if let Some(facts) = context.extensions_mut().get::<Arc<RequestFacts>>() {
        facts.name_operation(&operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(grants: &[(&str, u8)]) -> User {
        let grants =
            grants.iter().map(|(prefix, bits)| Grant { prefix: (*prefix).to_owned(), permissions: *bits });
        User { grants: grants.collect() }
    }

    #[test]
    fn grant_covers_its_prefix_and_nothing_beside_it() {
        let user = user(&[("pictures/2026/", 3), ("logs/", 1)]);
        let may_read = |bucket, name| user.may(Permission::Read, bucket, name);
        assert!(may_read("pictures", "2026/one") && may_read("pictures", "2026/"));
        assert!(
            !may_read("pictures", "2025/one") && !may_read("pictures", "2026") && !may_read("pictures", "")
        );
        assert!(may_read("logs", "") && may_read("logs", "any"));
        assert!(!may_read("logs2", "any") && !may_read("log", "s/any") && !may_read("picture", "s/2026/one"));
        assert!(user.may(Permission::Write, "pictures", "2026/one"));
        assert!(!user.may(Permission::Write, "logs", "any"));
        assert!(!user.may(Permission::Admin, "logs", ""));
        assert!(user.knows("pictures") && user.knows("logs") && !user.knows("log") && !user.knows("logs2"));
    }

    #[test]
    fn grant_for_all_buckets_covers_each() {
        let all = user(&[("", 1)]);
        assert!(all.may(Permission::Read, "any", "") && all.knows("any"));
        assert!(!all.may(Permission::Write, "any", "name"));
        assert!(User::unlimited().may(Permission::Admin, "any", ""));
        assert!(!user(&[]).knows("any"));
    }
}
