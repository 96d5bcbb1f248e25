//! What a server may ask of us.

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient,
    handler::client::progress::ProgressDispatcher,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
        ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
        ProgressNotificationParam, UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext},
};
use tokio::sync::watch;

use super::server::{Elicit, Elicitation};

/// Answers one server.
pub struct Handler {
    pub server: String,
    pub elicit: Elicit,
    pub progress: ProgressDispatcher,
    /// How many elicitations wait for a user.
    pub waiting: Arc<watch::Sender<usize>>,
}

impl ClientHandler for Handler {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let internal = |error: serde_json::Error| ErrorData::internal_error(error.to_string(), None);
        let request = serde_json::to_value(&request).map_err(internal)?;
        let waiting = Waiting::new(&self.waiting);
        let answer = (self.elicit)(Elicitation { server: self.server.clone(), request }).await;
        drop(waiting);
        let action = match answer.action.as_str() {
            "accept" => ElicitationAction::Accept,
            "decline" => ElicitationAction::Decline,
            _ => ElicitationAction::Cancel,
        };
        let result = ElicitResult::new(action);
        Ok(match answer.content {
            Some(content) => result.with_content(content),
            None => result,
        })
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.handle_notification(params).await;
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let mut elicitation = ElicitationCapability::default();
        elicitation.form = Some(FormElicitationCapability::default());
        elicitation.url = Some(UrlElicitationCapability::default());
        capabilities.elicitation = Some(elicitation);
        ClientConfig::new(capabilities, Implementation::new("threadkeep", env!("CARGO_PKG_VERSION")))
    }
}

/// Counts an elicitation as long as it lives, also when its future is dropped.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl Waiting<'_> {
    fn new(count: &watch::Sender<usize>) -> Waiting<'_> {
        count.send_modify(|count| *count += 1);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
