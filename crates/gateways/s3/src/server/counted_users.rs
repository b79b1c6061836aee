//! The users of a gateway, and a count of the times that they are not known.

use std::sync::Arc;

use crate::access::{UserFound, Users};
use crate::metrics::GatewayMetrics;

/// Users whose failures are counted.
pub(super) struct CountedUsers {
    pub(super) users: Arc<dyn Users>,
    pub(super) metrics: Arc<GatewayMetrics>,
}

#[async_trait::async_trait]
impl Users for CountedUsers {
    async fn find(&self, access_key: &str) -> Result<UserFound, String> {
        self.users.find(access_key).await.inspect_err(|_| self.metrics.users_unknown())
    }
}
