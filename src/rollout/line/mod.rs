//! What a line says: the typed records of every generation (`protocol/rollout.md`, sections 2 to 4).
//!
//! Parts that are only passed on stay borrowed JSON text. A member of an unexpected type makes that member absent
//! where the rest still makes sense, and the line a problem only where nothing is left of it.

mod tagged;

use std::borrow::Cow;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// What one physical line holds.
#[derive(Debug)]
pub enum Parsed<'a> {
    /// Nothing.
    Blank,
    /// One record.
    Line(Box<Line<'a>>),
    /// Not readable, and why.
    Bad(String),
}

/// A record with its moment.
#[derive(Debug)]
pub struct Line<'a> {
    /// RFC 3339, UTC; absent in the bare generation.
    pub timestamp: Option<Cow<'a, str>>,
    /// Its number, in paginated files.
    pub ordinal: Option<u64>,
    /// What it says.
    pub record: Record<'a>,
}

/// What a record says.
#[derive(Debug)]
pub enum Record<'a> {
    /// The thread's metadata.
    SessionMeta(Box<SessionMeta>),
    /// A model item.
    ResponseItem(&'a RawValue),
    /// Something that happened.
    Event(Box<Event>),
    /// Settings of a turn, as JSON.
    TurnContext(Value),
    /// The model context starts anew.
    Compacted(Compacted<'a>),
    /// Tokens of one model response.
    TokenUsage(Box<TokenUsageRecord>),
    /// A record of a known kind that tells nothing we keep apart.
    Other,
    /// A line of a kind nobody knows.
    Unknown,
    /// Mid 2025: the metadata without a wrapper.
    BareMeta(Box<SessionMeta>),
    /// Mid 2025: a model item without a wrapper.
    BareItem(&'a RawValue),
    /// May 2025: a whole session in one object ([`super::read::joined`]).
    Session(Box<SessionMeta>, Vec<&'a RawValue>),
}

/// Metadata of a thread.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the members are those of protocol/rollout.md, section 3")]
pub struct SessionMeta {
    #[serde(deserialize_with = "id")]
    pub id: Option<String>,
    #[serde(deserialize_with = "id")]
    pub session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub timestamp: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub cwd: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub originator: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub cli_version: Option<String>,
    pub source: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub thread_source: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub model_provider: Option<String>,
    #[serde(deserialize_with = "id")]
    pub forked_from_id: Option<String>,
    #[serde(deserialize_with = "id")]
    pub parent_thread_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub history_mode: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub history_base: Option<HistoryBase>,
    #[serde(deserialize_with = "lenient")]
    pub agent_nickname: Option<String>,
    #[serde(deserialize_with = "lenient", alias = "agent_type")]
    pub agent_role: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub git: Option<Git>,
    #[serde(deserialize_with = "lenient")]
    pub memory_mode: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub subagent_history_start_ordinal: Option<u64>,
}

/// The repository of a thread.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Git {
    /// Commit.
    pub commit_hash: Option<String>,
    /// Branch.
    pub branch: Option<String>,
    /// Origin.
    pub repository_url: Option<String>,
}

/// The part of another rollout that a file continues.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HistoryBase {
    /// The rollout id of that file.
    #[serde(deserialize_with = "base_id")]
    pub thread_id: String,
    /// Its lines up to this ordinal.
    pub end_ordinal_exclusive: Option<u64>,
    /// The same as a byte position.
    pub end_byte_offset: Option<u64>,
}

/// The model context starts anew.
#[derive(Debug, Deserialize)]
pub struct Compacted<'a> {
    /// A summary of what was before.
    #[serde(default)]
    pub message: Option<String>,
    /// What the model is shown in its place.
    #[serde(borrow, default)]
    pub replacement_history: Option<Vec<&'a RawValue>>,
    /// Ours, instead of repeating them: messages of the user that the model is still shown before the summary, by how
    /// many lines before this one they stand.
    #[serde(default)]
    pub kept_lines_back: Vec<i64>,
    /// Ours: how many compactions there were, this one included.
    #[serde(default)]
    pub window_number: Option<u64>,
}

/// Token counts as the lines have them.
#[derive(Clone, Copy, Debug, Default, Deserialize, serde::Serialize, PartialEq, Eq)]
#[serde(default)]
#[expect(missing_docs, reason = "the members are those of protocol/usage.md, section 4")]
pub struct Tokens {
    #[serde(deserialize_with = "count")]
    pub input_tokens: i64,
    #[serde(deserialize_with = "count")]
    pub cached_input_tokens: i64,
    #[serde(deserialize_with = "count")]
    pub cache_write_input_tokens: i64,
    #[serde(deserialize_with = "count")]
    pub output_tokens: i64,
    #[serde(deserialize_with = "count")]
    pub reasoning_output_tokens: i64,
    #[serde(deserialize_with = "count")]
    pub total_tokens: i64,
}

/// One model response's tokens.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the members are those of protocol/usage.md, section 4")]
pub struct TokenUsageRecord {
    #[serde(deserialize_with = "id")]
    pub thread_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub turn_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub response_id: Option<String>,
    pub usage: Tokens,
    pub thread_token_usage: Tokens,
}

/// Something that happened.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the members are those of protocol/rollout.md, section 4")]
pub enum Event {
    #[serde(alias = "turn_started")]
    TaskStarted {
        #[serde(default, deserialize_with = "lenient")]
        turn_id: Option<String>,
        #[serde(default, deserialize_with = "lenient")]
        root_turn_id: Option<String>,
        #[serde(default, deserialize_with = "lenient")]
        started_at: Option<i64>,
        #[serde(default, deserialize_with = "lenient")]
        model_context_window: Option<i64>,
    },
    #[serde(alias = "turn_complete")]
    TaskComplete {
        #[serde(default, deserialize_with = "lenient")]
        turn_id: Option<String>,
        error: Option<Value>,
        #[serde(default, deserialize_with = "lenient")]
        started_at: Option<i64>,
        #[serde(default, deserialize_with = "lenient")]
        completed_at: Option<i64>,
        #[serde(default, deserialize_with = "lenient")]
        duration_ms: Option<i64>,
    },
    TurnAborted {
        #[serde(default, deserialize_with = "lenient")]
        turn_id: Option<String>,
        #[serde(default, deserialize_with = "lenient")]
        started_at: Option<i64>,
        #[serde(default, deserialize_with = "lenient")]
        completed_at: Option<i64>,
        #[serde(default, deserialize_with = "lenient")]
        duration_ms: Option<i64>,
    },
    TokenCount {
        info: Option<TokenInfo>,
    },
    UserMessage(UserMessageEvent),
    AgentMessage {
        #[serde(default)]
        message: String,
        phase: Option<Value>,
        memory_citation: Option<Value>,
    },
    AgentReasoning {
        #[serde(default)]
        text: String,
    },
    AgentReasoningRawContent {
        #[serde(default)]
        text: String,
    },
    ItemCompleted {
        #[serde(default, deserialize_with = "id")]
        thread_id: Option<String>,
        #[serde(default, deserialize_with = "lenient")]
        turn_id: Option<String>,
        item: Value,
        #[serde(default, deserialize_with = "lenient")]
        started_at_ms: Option<i64>,
        #[serde(default, deserialize_with = "lenient")]
        completed_at_ms: Option<i64>,
    },
    EnteredReviewMode(Value),
    ExitedReviewMode(Value),
    PatchApplyEnd(Value),
    McpToolCallEnd(Value),
    WebSearchEnd(Value),
    ImageGenerationEnd(Value),
    SubAgentActivity(Value),
    ContextCompacted {},
    ThreadRolledBack {
        num_turns: u64,
    },
    ThreadGoalUpdated(Value),
    ThreadSettingsApplied {
        thread_settings: Value,
    },
    Error {
        #[serde(default)]
        message: String,
        codex_error_info: Option<Value>,
    },
    #[serde(other)]
    Other,
}

/// Totals and the last response of a thread.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the members are those of protocol/usage.md, section 4")]
pub struct TokenInfo {
    pub total_token_usage: Tokens,
    pub last_token_usage: Tokens,
    #[serde(default, deserialize_with = "lenient")]
    pub model_context_window: Option<i64>,
}

/// What a user said, in the legacy form.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the members are those of protocol/rollout.md, section 4")]
pub struct UserMessageEvent {
    pub message: String,
    #[serde(deserialize_with = "lenient")]
    pub images: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient")]
    pub local_images: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient")]
    pub audio: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient")]
    pub local_audio: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient")]
    pub text_elements: Option<Vec<Value>>,
    #[serde(deserialize_with = "lenient")]
    pub client_id: Option<String>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    timestamp: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "lenient")]
    ordinal: Option<u64>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    record_type: Option<Value>,
    #[serde(default)]
    id: Option<Value>,
    #[serde(borrow, default)]
    session: Option<&'a RawValue>,
    #[serde(borrow, default)]
    items: Option<&'a RawValue>,
}

/// Kinds of records that are known and tell nothing that we keep apart from the line itself.
const QUIET_KINDS: &[&str] = &[
    "world_state",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "security_risk_score",
];

/// Read one line, given without its end ([`super::read::content`]).
pub fn parse(content: &[u8]) -> Parsed<'_> {
    if content.is_empty() {
        return Parsed::Blank;
    }
    let text = match std::str::from_utf8(content) {
        Ok(text) => text,
        Err(error) => return Parsed::Bad(format!("invalid UTF-8 at byte {}", error.valid_up_to() + 1)),
    };
    if !text.starts_with('{') {
        return Parsed::Bad("not a JSON object".to_owned());
    }
    match serde_json::from_str::<Envelope<'_>>(text) {
        Ok(envelope) => from_envelope(text, envelope),
        // A wrapper of unknown shape is kept as unknown; only what is no JSON is a fault of the file.
        Err(error) => match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Parsed::Line(Box::new(Line { timestamp: None, ordinal: None, record: Record::Unknown })),
            Err(_) => Parsed::Bad(without_line(&error)),
        },
    }
}

fn from_envelope<'a>(text: &'a str, envelope: Envelope<'a>) -> Parsed<'a> {
    let Envelope { timestamp, ordinal, kind, payload, record_type, id, session, items } = envelope;
    let timestamp = timestamp.and_then(text_of);
    let line = |timestamp, record| Parsed::Line(Box::new(Line { timestamp, ordinal, record }));
    match (kind.as_deref(), payload) {
        (Some(kind), Some(payload)) => match record(kind, payload) {
            Ok(record) => line(timestamp, record),
            Err(error) => {
                tracing::debug!(%error, kind, "a record has another shape than is known");
                line(timestamp, Record::Unknown)
            }
        },
        // Mid 2025: items without a wrapper.
        (Some(_), None) => match serde_json::from_str(text) {
            Ok(item) if timestamp.is_none() => line(None, Record::BareItem(item)),
            _ => line(timestamp, Record::Unknown),
        },
        (None, _) if record_type.is_some() => line(timestamp, Record::Other),
        (None, _) if session.is_some() => match whole_session(session, items) {
            Ok(session) => line(None, session),
            Err(_) => line(None, Record::Unknown),
        },
        (None, _) if id.is_some() && timestamp.is_some() => match serde_json::from_str(text) {
            // Its time is the thread's, not the line's.
            Ok(meta) => line(None, Record::BareMeta(Box::new(meta))),
            Err(_) => line(None, Record::Unknown),
        },
        (None, _) => line(timestamp, Record::Unknown),
    }
}

/// A JSON text's value, borrowed where nothing in it is escaped.
fn text_of(json: &RawValue) -> Option<Cow<'_, str>> {
    let inner = json.get().strip_prefix('"')?.strip_suffix('"')?;
    match inner.contains('\\') {
        true => serde_json::from_str(json.get()).ok().map(Cow::Owned),
        false => Some(Cow::Borrowed(inner)),
    }
}

fn whole_session<'a>(
    session: Option<&'a RawValue>,
    items: Option<&'a RawValue>,
) -> Result<Record<'a>, serde_json::Error> {
    let meta = serde_json::from_str(session.map_or("{}", RawValue::get))?;
    let items = serde_json::from_str(items.map_or("[]", RawValue::get))?;
    Ok(Record::Session(Box::new(meta), items))
}

fn record<'a>(kind: &str, payload: &'a RawValue) -> Result<Record<'a>, serde_json::Error> {
    let text = payload.get();
    if !text.starts_with('{') {
        return Ok(Record::Unknown);
    }
    Ok(match kind {
        "session_meta" => Record::SessionMeta(Box::new(serde_json::from_str(text)?)),
        "response_item" => Record::ResponseItem(payload),
        "event_msg" => Record::Event(Box::new(tagged::from_str(text)?)),
        "turn_context" => Record::TurnContext(serde_json::from_str(text)?),
        "compacted" => Record::Compacted(serde_json::from_str(text)?),
        "token_usage_record" => Record::TokenUsage(Box::new(serde_json::from_str(text)?)),
        _ if QUIET_KINDS.contains(&kind) => Record::Other,
        _ => Record::Unknown,
    })
}

/// serde's text, without the place in a line that is always the first.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((text, place)) => match place.rsplit_once("column ") {
            Some((_, column)) => format!("{text} at column {column}"),
            None => text.to_owned(),
        },
        None => text,
    }
}

/// More tokens than any thread has; sums of such counts still fit.
const COUNT_MAX: i64 = 1_000_000_000_000_000;

/// A count; one of another type, or out of range, is as good as 0.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(lenient(from)?.filter(|count| (0..=COUNT_MAX).contains(count)).unwrap_or(0))
}

/// An id; UUIDs in capitals are the same as others.
fn id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(lenient::<String, D>(from)?.map(|id| same_id(&id)))
}

fn base_id<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(id(from)?.unwrap_or_default())
}

/// An id as it is stored: a UUID in small letters, and any other text as it is.
pub fn same_id(id: &str) -> String {
    match id.len() == 36 && id.parse::<uuid::Uuid>().is_ok() {
        true => id.to_ascii_lowercase(),
        false => id.to_owned(),
    }
}

/// A member of another type than expected is as good as absent.
fn lenient<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    // By way of a value, out of which a text is moved however large it is.
    Ok(T::deserialize(Value::deserialize(from)?).ok())
}
