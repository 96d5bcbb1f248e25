//! The methods of the queue (`protocol/queue.md`). Starting what waits is in `onward`.

use std::sync::Arc;

use super::client::Request;
use super::error::{Result, RuntimeError};
use super::input::UserMessage;
use super::thread::Command;
use super::{Runtime, parse_id};
use crate::protocol::input::{MediaSource, UserInput};
use crate::protocol::queue::{
    QueuedSubmission, ThreadQueueAddParams, ThreadQueueDeleteParams, ThreadQueueListParams,
    ThreadQueueListResponse, ThreadQueueReorderParams, ThreadQueueStartParams, ThreadQueueUpdateParams,
};
use crate::protocol::turn::Turn;
use crate::store::queue::{QUEUE_MAX, QueueChange, QueuedRow};
use crate::tools::image::{ImageError, data_url};

/// Submissions of a page when the client does not say.
const PAGE: u32 = 25;

/// The most submissions of a page.
const PAGE_MAX: u32 = 100;

impl Runtime {
    /// `thread/queue/add`.
    ///
    /// # Errors
    /// The thread has no queue, the input cannot be, or the queue is full; the texts are those of the page.
    pub async fn queue_add(
        self: &Arc<Self>,
        params: ThreadQueueAddParams,
        request: &Arc<dyn Request>,
    ) -> Result<QueuedSubmission> {
        let thread_id = self.thread_with_queue(&params.thread_id).await?;
        let row = QueuedRow {
            submission_id: self.clock.new_id().to_string(),
            client_id: params.client_user_message_id,
            input_json: checked_input(params.input)?,
            metadata_json: metadata(params.responsesapi_client_metadata),
        };
        let change = match self.loaded(&thread_id) {
            Some(handle) => {
                let (row, request) = (row.clone(), request.clone());
                handle.ask(|reply| Command::QueueAdd(Box::new(row), request, reply)).await?
            }
            None => self.store.enqueue(&thread_id, row.clone()).await?,
        };
        match change {
            QueueChange::Done => to_wire(&row),
            _ => {
                Err(RuntimeError::invalid(format!("queue cannot contain more than {QUEUE_MAX} submissions")))
            }
        }
    }

    /// `thread/queue/list`.
    ///
    /// # Errors
    /// The thread has no queue, or the cursor is none.
    pub async fn queue_list(
        self: &Arc<Self>,
        params: ThreadQueueListParams,
    ) -> Result<ThreadQueueListResponse> {
        let thread_id = self.thread_with_queue(&params.thread_id).await?;
        let offset: u32 = match &params.cursor {
            None => 0,
            Some(cursor) => cursor.parse().map_err(|error| {
                RuntimeError::invalid(format!("invalid queue pagination cursor: {error}"))
            })?,
        };
        let limit = params.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
        let mut rows = self.store.queued(&thread_id, offset.into(), i64::from(limit) + 1).await?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        Ok(ThreadQueueListResponse {
            data: rows.iter().map(to_wire).collect::<Result<_>>()?,
            next_cursor: more.then(|| (offset + limit).to_string()),
        })
    }

    /// `thread/queue/update`.
    ///
    /// # Errors
    /// The thread has no queue, there is no such submission, or the input cannot be.
    pub async fn queue_update(self: &Arc<Self>, params: ThreadQueueUpdateParams) -> Result<QueuedSubmission> {
        let thread_id = self.thread_with_queue(&params.thread_id).await?;
        let id = params.queued_submission_id;
        let row = QueuedRow {
            submission_id: id.clone(),
            input_json: checked_input(params.input)?,
            metadata_json: metadata(params.responsesapi_client_metadata),
            ..QueuedRow::default()
        };
        let change = self.store.update_queued(&thread_id, row).await?;
        let stored = self.store.queued_submission(&thread_id, &id).await?;
        let Some(stored) = stored.filter(|_| change == QueueChange::Done) else {
            return Err(RuntimeError::invalid(format!("queued submission not found: {id}")));
        };
        self.queue_was_changed(&thread_id);
        to_wire(&stored)
    }

    /// `thread/queue/delete`: whether it was there.
    ///
    /// # Errors
    /// The thread has no queue.
    pub async fn queue_delete(self: &Arc<Self>, params: &ThreadQueueDeleteParams) -> Result<bool> {
        let thread_id = self.thread_with_queue(&params.thread_id).await?;
        let deleted = self.store.delete_queued(&thread_id, &params.queued_submission_id).await?;
        if deleted {
            self.queue_was_changed(&thread_id);
        }
        Ok(deleted)
    }

    /// `thread/queue/reorder`.
    ///
    /// # Errors
    /// The thread has no queue, or the ids are not those of the queue.
    pub async fn queue_reorder(self: &Arc<Self>, params: ThreadQueueReorderParams) -> Result<()> {
        let thread_id = self.thread_with_queue(&params.thread_id).await?;
        match self.store.reorder_queue(&thread_id, params.queued_submission_ids).await? {
            QueueChange::Done => {
                self.queue_was_changed(&thread_id);
                Ok(())
            }
            _ => {
                Err(RuntimeError::invalid("queue reorder must include every queued submission exactly once"))
            }
        }
    }

    /// `thread/queue/start`.
    ///
    /// # Errors
    /// The thread is not loaded or busy, or there is no such submission.
    pub async fn queue_start(
        self: &Arc<Self>,
        params: ThreadQueueStartParams,
        request: &Arc<dyn Request>,
    ) -> Result<Turn> {
        let thread_id = self.thread_with_queue(&params.thread_id).await?;
        let Some(handle) = self.loaded(&thread_id) else {
            return Err(RuntimeError::invalid("resume the thread before starting a queued message"));
        };
        let (id, request) = (params.queued_submission_id, request.clone());
        handle.ask(|reply| Command::QueueStart(id, request, reply)).await
    }

    /// Tell a loaded thread that its queue is another.
    fn queue_was_changed(&self, thread_id: &str) {
        if let Some(handle) = self.loaded(thread_id) {
            handle.queue_changed();
        }
    }

    /// The id of a thread that may have a queue, loaded or not.
    async fn thread_with_queue(self: &Arc<Self>, thread_id: &str) -> Result<String> {
        let thread_id = parse_id("thread", thread_id)?;
        if let Some(handle) = self.loaded(&thread_id) {
            if handle.with_live(|live| live.ephemeral) {
                return Err(RuntimeError::invalid(format!(
                    "ephemeral thread does not support queued submissions: {thread_id}"
                )));
            }
            return Ok(thread_id);
        }
        self.importer.indexed().await;
        match self.store.thread(&thread_id).await? {
            Some(row) => {
                super::load::refuse_archived(&row)?;
                Ok(thread_id)
            }
            None => Err(RuntimeError::Failed(format!(
                "failed to read thread: invalid thread-store request: no rollout found for thread id {thread_id}"
            ))),
        }
    }
}

/// The input of a submission as it is kept: checked, local files taken in.
fn checked_input(input: Vec<UserInput>) -> Result<String> {
    if input.is_empty() {
        return Err(RuntimeError::invalid("only user input can be added to the user-message queue"));
    }
    let input = input.into_iter().map(kept).collect::<Result<Vec<UserInput>>>()?;
    let message = UserMessage::new(input, None)?;
    serde_json::to_string(&message.content)
        .map_err(|error| RuntimeError::Failed(format!("keeping a queued submission: {error}")))
}

/// A part whose file may be another by the time it is used is taken in now.
fn kept(part: UserInput) -> Result<UserInput> {
    match part {
        UserInput::LocalImage { path, detail } => {
            let url = tokio::task::block_in_place(|| data_url(path.as_ref())).map_err(|error| {
                let reason = match &error {
                    ImageError::Unreadable { source, .. } => source.to_string(),
                    other => other.to_string(),
                };
                RuntimeError::invalid(format!("local queued attachment is invalid: {reason}"))
            })?;
            Ok(UserInput::Image { detail, source: MediaSource::Url { url } })
        }
        UserInput::Image { source: MediaSource::Url { url }, .. } if !url.starts_with("data:") => {
            Err(RuntimeError::invalid("remote image URLs are not supported; use an inline data URL instead"))
        }
        other => Ok(other),
    }
}

fn metadata(map: Option<std::collections::BTreeMap<String, String>>) -> Option<String> {
    let map = map.filter(|map| !map.is_empty())?;
    serde_json::to_string(&map).ok()
}

fn to_wire(row: &QueuedRow) -> Result<QueuedSubmission> {
    let unreadable = |error: serde_json::Error| {
        RuntimeError::Failed(format!("reading queued submission {}: {error}", row.submission_id))
    };
    let metadata = row.metadata_json.as_deref().map(serde_json::from_str).transpose().map_err(unreadable)?;
    Ok(QueuedSubmission {
        client_user_message_id: row.client_id.clone(),
        id: row.submission_id.clone(),
        input: serde_json::from_str(&row.input_json).map_err(unreadable)?,
        responsesapi_client_metadata: metadata,
    })
}
