//! The users of a cluster with a secret: its tokens. Secret access keys are derived from the cluster's secret, and stored nowhere.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use zerohop_client::{Client, Keyspace, Secret};
use zerohop_wire::admin::{AdminAnswer, AdminQuestion, AdminReply, AdminRequest, TokenList, TokenStatus};

use super::{Grant, User, UserFound, Users, grants_key};

/// How old the list of tokens may be that decides about a request: a revoked token is refused after this time.
const AGE_MAX: Duration = Duration::from_millis(200);
/// How long an access key id waits that is not in the list, before the tokens are listed again.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(50);
/// How old it may become while no manager answers. Then no user is served.
const AGE_MAX_ALONE: Duration = Duration::from_secs(10);
/// How long a manager may take to list the tokens.
const LIST_MAX: Duration = Duration::from_secs(1);

/// The tokens of a cluster as users.
pub struct ClusterUsers {
    client: Client,
    secret: Secret,
    names: String,
    grants: String,
    table: RwLock<TokenTable>,
    /// Only one request refreshes the table, and the others wait for it.
    refreshing: Mutex<()>,
    /// The keyspace of grants, once it was opened.
    opened: Mutex<Option<Keyspace>>,
}

/// The tokens as a manager has listed them.
#[derive(Clone, Default)]
struct TokenTable {
    tokens: TokenUsers,
    /// When the list was asked for.
    listed_at: Option<Instant>,
    /// When a list was last asked for, or did not come.
    tried_at: Option<Instant>,
}

/// The tokens by names.
type TokenUsers = Arc<BTreeMap<String, TokenUser>>;

fn is_recent(at: Option<Instant>, age_max: Duration) -> bool {
    at.is_some_and(|at| at.elapsed() < age_max)
}

impl TokenTable {
    /// Whether there is a list, and the last attempt to get another one failed.
    fn is_failing(&self) -> bool {
        self.listed_at.is_some() && self.tried_at > self.listed_at
    }

    /// The tokens, unless they are too old to decide about anything.
    fn usable(self) -> Result<TokenUsers, String> {
        match is_recent(self.listed_at, AGE_MAX_ALONE) {
            true => Ok(self.tokens),
            false => Err("no manager has listed the tokens for ten seconds".to_owned()),
        }
    }
}

#[derive(Clone)]
struct TokenUser {
    id: u64,
    has_expired: bool,
    /// The permissions in all buckets; 0: none.
    everywhere: u8,
    /// Whether the token has a record of grants.
    has_record: bool,
    /// The grants of the record, which does not change.
    recorded: Arc<RwLock<Option<Arc<[Grant]>>>>,
}

impl ClusterUsers {
    /// The users of a cluster whose objects have their names in the keyspace `names`. A token with `read` in the keyspace `grants`
    /// has a record of grants there.
    #[must_use]
    pub fn new(client: Client, secret: Secret, names: String, grants: String) -> Self {
        Self {
            client,
            secret,
            names,
            grants,
            table: RwLock::default(),
            refreshing: Mutex::new(()),
            opened: Mutex::new(None),
        }
    }

    fn table(&self) -> TokenTable {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tokens, as they were at most `age_max` ago, or longer if no manager answers.
    async fn tokens(&self, age_max: Duration) -> Result<TokenUsers, String> {
        let table = self.table();
        if is_recent(table.listed_at, age_max) {
            return Ok(table.tokens);
        }
        // While managers do not answer, one request at a time waits for them.
        let refreshing = if table.is_failing() {
            match self.refreshing.try_lock() {
                Ok(refreshing) => refreshing,
                Err(_) => return table.usable(),
            }
        } else {
            self.refreshing.lock().await
        };
        let mut table = self.table();
        if is_recent(table.listed_at, age_max) || is_recent(table.tried_at, age_max) {
            return table.usable();
        }
        let request_at = Instant::now();
        match self.list().await {
            Ok(tokens) => {
                let listed = self.users_of(tokens, &table.tokens);
                table = TokenTable {
                    tokens: Arc::new(listed),
                    listed_at: Some(request_at),
                    tried_at: Some(request_at),
                };
            }
            Err(why) => {
                tracing::warn!(why, "the tokens cannot be listed");
                table.tried_at = Some(Instant::now());
            }
        }
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table.clone();
        drop(refreshing);
        table.usable()
    }

    async fn list(&self) -> Result<Vec<TokenStatus>, String> {
        let request = Bytes::from(AdminRequest::of(AdminQuestion::ListTokens(TokenList {})).to_bytes());
        let answer = timeout(LIST_MAX, self.client.admin(request));
        let answer = answer.await.map_err(|_| "no answer came in time".to_owned())?;
        let answer = answer.map_err(|error| error.to_string())?;
        match AdminAnswer::from_bytes(&answer).map_err(|error| error.to_string())?.answer {
            Some(AdminReply::Tokens(found)) => Ok(found.tokens),
            Some(AdminReply::Refused(refused)) => Err(refused.reason),
            _ => Err("the answer is no list of tokens".to_owned()),
        }
    }

    /// The users by names. Of two tokens of one name, the older of which has expired, the valid one counts.
    fn users_of(
        &self,
        tokens: Vec<TokenStatus>,
        before: &BTreeMap<String, TokenUser>,
    ) -> BTreeMap<String, TokenUser> {
        let mut users = BTreeMap::<String, TokenUser>::new();
        for token in tokens {
            let in_keyspace = |name: &str| {
                let grants = token.grants.iter().filter(|grant| grant.keyspace == name);
                grants.fold(0, |bits, grant| bits | u8::try_from(grant.permissions).unwrap_or(0))
            };
            let known = before.get(&token.name).filter(|user| user.id == token.id);
            let user = TokenUser {
                id: token.id,
                has_expired: token.has_expired,
                everywhere: in_keyspace("") | in_keyspace(&self.names),
                has_record: in_keyspace(&self.grants) != 0,
                recorded: known.map(|user| Arc::clone(&user.recorded)).unwrap_or_default(),
            };
            if users.get(&token.name).is_none_or(|other| other.has_expired) {
                users.insert(token.name, user);
            }
        }
        users
    }

    /// The grants of the record of a token.
    async fn recorded(&self, user: &TokenUser) -> Result<Arc<[Grant]>, String> {
        let known = user.recorded.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let record = self.grants_keyspace().await?.lookup_bytes(&grants_key(user.id)).await;
        let record = record.map_err(|error| error.to_string())?;
        let grants = record.map_or(Ok(Vec::new()), |bytes| Grant::decode(&bytes));
        let grants: Arc<[Grant]> = grants.map_err(|error| error.to_string())?.into();
        *user.recorded.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&grants));
        Ok(grants)
    }

    async fn grants_keyspace(&self) -> Result<Keyspace, String> {
        let mut opened = self.opened.lock().await;
        if let Some(keyspace) = &*opened {
            return Ok(keyspace.clone());
        }
        let keyspace = self.client.keyspace(&self.grants).await.map_err(|error| error.to_string())?;
        Ok(opened.insert(keyspace).clone())
    }
}

#[async_trait::async_trait]
impl Users for ClusterUsers {
    async fn find(&self, access_key: &str) -> Result<UserFound, String> {
        let mut tokens = self.tokens(AGE_MAX).await?;
        if !tokens.contains_key(access_key) {
            // The token may be new. The pause bounds how often foreign clients make the gateway list the tokens.
            tokio::time::sleep(UNKNOWN_PAUSE).await;
            tokens = self.tokens(UNKNOWN_PAUSE).await?;
        }
        let Some(token) = tokens.get(access_key) else { return Ok(UserFound::None) };
        if token.has_expired {
            return Ok(UserFound::Expired);
        }
        let everywhere =
            (token.everywhere != 0).then(|| Grant { prefix: String::new(), permissions: token.everywhere });
        let recorded = if token.has_record { self.recorded(token).await? } else { Arc::default() };
        let grants = everywhere.into_iter().chain(recorded.iter().cloned()).collect();
        Ok(UserFound::User(User { grants }, self.secret.token(token.id).s3_secret()))
    }
}
