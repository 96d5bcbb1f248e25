-- The first schema: threads, their recorded lines, and what is derived from those lines.
-- Times are Unix milliseconds UTC. Ids are text as on the wire; children point to a short integer key.

create table threads (
    thread_key integer primary key,
    thread_id text not null unique,
    -- The root thread of a tree of sub-agents.
    session_id text not null,
    forked_from_id text,
    parent_thread_id text,
    attached_to_thread_id text,
    -- Text of the first user message; a thread without one is not listed.
    preview text not null default '',
    name text,
    -- SessionSource as wire JSON, and the kind that lists filter by.
    source_json text not null check (json_valid(source_json)),
    source_kind text not null,
    thread_source text,
    originator text,
    cli_version text not null,
    model_provider text not null,
    model text,
    reasoning_effort text,
    cwd text not null,
    -- All sticky settings, as the runtime writes them.
    settings_json text not null default '{}' check (json_valid(settings_json)),
    git_sha text,
    git_branch text,
    git_origin_url text,
    history_mode text not null check (history_mode in ('paginated', 'legacy')),
    created_at_ms integer not null,
    updated_at_ms integer not null,
    recency_at_ms integer not null,
    archived_at_ms integer,
    -- The rollout file that mirrors the journal, absolute; null when there is none.
    rollout_path text,
    agent_nickname text,
    agent_role text,
    memory_mode text,
    project_id text,
    section_id text,
    section_entered_at_ms integer,
    section_position integer,
    -- Token totals inherited by a fork; its own are sums over the ledger.
    inherited_input integer not null default 0,
    inherited_cached_input integer not null default 0,
    inherited_cache_write_input integer not null default 0,
    inherited_output integer not null default 0,
    inherited_reasoning_output integer not null default 0,
    inherited_total integer not null default 0,
    model_context_window integer,
    -- Lines and bytes in the journal: a rollout file in step has just these.
    journal_lines integer not null default 0,
    journal_bytes integer not null default 0,
    -- Sequence number of the line that the model context starts with.
    context_from_line integer not null default 0
) strict;

-- thread/list: one index a sort key, over the rows that can be listed.
create index threads_by_created on threads (created_at_ms, thread_id) where preview <> '';
create index threads_by_updated on threads (updated_at_ms, thread_id) where preview <> '';
create index threads_by_recency on threads (recency_at_ms, thread_id) where preview <> '';
create index threads_by_parent on threads (parent_thread_id) where parent_thread_id is not null;

-- The lossless history: the exact bytes of the thread's rollout file, cut into runs of whole lines. The key is
-- thread_key << 32 | number of the run, so that a thread's runs lie together and need no second index.
create table journal (
    run_key integer primary key,
    first_line integer not null,
    line_count integer not null,
    first_byte integer not null,
    byte_count integer not null,
    -- 0: as they are, 1: zstd.
    encoding integer not null check (encoding in (0, 1)),
    payload blob not null
) strict;

-- The key is thread_key << 32 | order within the thread, so that a thread's turns lie together in their order.
create table turns (
    turn_key integer primary key,
    thread_key integer not null,
    turn_id text not null,
    root_turn_id text,
    status text not null check (status in ('inProgress', 'completed', 'interrupted', 'failed')),
    error_json text check (json_valid(error_json)),
    started_at_ms integer,
    completed_at_ms integer,
    duration_ms integer,
    -- The journal lines of the turn.
    first_line integer not null,
    end_line integer not null,
    client_user_message_id text,
    unique (thread_key, turn_id)
) strict;

-- After a crash: the turns that were cut.
create index turns_in_progress on turns (thread_key) where status = 'inProgress';
-- The same submission twice: the turn it already stands for.
create index turns_by_client_message on turns (thread_key, client_user_message_id)
    where client_user_message_id is not null;

-- Items as they go over the wire, so that a page is copied and not rebuilt. The key is made as that of turns.
create table items (
    item_key integer primary key,
    turn_key integer not null,
    item_id text not null,
    kind text not null,
    -- 0: JSON text, 1: zstd of it.
    encoding integer not null check (encoding in (0, 1)),
    payload blob not null,
    started_at_ms integer,
    completed_at_ms integer,
    unique (turn_key, item_id)
) strict;

-- The ledger: one row a model response.
create table token_usage (
    usage_key integer primary key,
    thread_key integer not null references threads on delete cascade,
    turn_id text not null,
    -- Unique within the thread, so that no response is charged twice.
    response_id text not null,
    model text,
    model_provider text,
    goal_id text,
    at_ms integer not null,
    input integer not null,
    cached_input integer not null,
    cache_write_input integer not null,
    output integer not null,
    reasoning_output integer not null,
    total integer not null,
    model_context_window integer,
    unique (thread_key, response_id)
) strict;

create index token_usage_by_time on token_usage (at_ms);

-- Who runs a turn on a thread. The fence counts up with every claim.
create table leases (
    thread_key integer primary key references threads on delete cascade,
    turn_id text not null,
    owner text not null,
    pid integer not null,
    fence integer not null,
    heartbeat_at_ms integer not null
) strict;

-- Rollout files seen on disk: what makes an import incremental.
create table rollout_files (
    path text primary key,
    thread_id text,
    size integer not null,
    mtime_ns integer not null,
    bytes_taken integer not null,
    lines_taken integer not null,
    -- Hashes of the first and the last bytes taken: a rewritten file is noticed by them.
    head_hash blob,
    tail_hash blob,
    verdict text not null check (verdict in ('indexed', 'imported', 'conflict', 'not_a_rollout', 'unreadable')),
    reason text,
    -- State of the reducer after the lines taken.
    reducer_json text
) strict, without rowid;

create index rollout_files_by_thread on rollout_files (thread_id);

create table import_problems (
    path text not null,
    line integer not null,
    reason text not null,
    primary key (path, line)
) strict, without rowid;

-- For admins: these views stay as they are when the tables change.
create view v_threads as
select thread_id, name, preview, cwd, model_provider, model, source_kind as source,
       datetime(created_at_ms / 1000, 'unixepoch') as created_at,
       datetime(updated_at_ms / 1000, 'unixepoch') as updated_at,
       archived_at_ms is not null as archived, rollout_path, journal_lines, journal_bytes,
       (select count(*) from turns where turns.thread_key = threads.thread_key) as turns,
       inherited_total
           + (select coalesce(sum(total), 0) from token_usage where token_usage.thread_key = threads.thread_key)
           as total_tokens
from threads;

create view v_turns as
select thread_id, turn_id, status, error_json,
       datetime(started_at_ms / 1000, 'unixepoch') as started_at,
       datetime(completed_at_ms / 1000, 'unixepoch') as completed_at, duration_ms,
       (select count(*) from items where items.turn_key = turns.turn_key) as items
from turns join threads using (thread_key);

create view v_usage_daily as
select date(at_ms / 1000, 'unixepoch') as day, token_usage.model_provider, token_usage.model, count(*) as responses,
       sum(input) as input, sum(cached_input) as cached_input, sum(output) as output,
       sum(reasoning_output) as reasoning_output, sum(total) as total
from token_usage
group by 1, 2, 3;
