-- The first schema: threads, their journal, what is derived from it, and what the importer remembers.
--
-- Clustering. Rows of one thread stand together in `journal`, `turns`, `items` and `token_usage`: their
-- integer primary key is `thread_key << 32 | place within the thread`. So a thread's rows are one range of
-- the primary key, in order, and reading a page or deleting a thread needs no second index.
--
-- Times are Unix milliseconds UTC, ids are text as on the wire.

-- "thkp": tells this file from another program's SQLite database before anything in it is touched.
pragma application_id = 0x74686b70;

-- A thread's metadata and settings: everything that thread/list filters and sorts by.
create table threads (
    -- short key that children point to
    thread_key integer not null primary key check (thread_key between 1 and 0x7fffffff),
    -- the id on the wire
    thread_id text not null unique check (thread_id <> ''),
    -- root of the tree of sub-agents; its own id for a root
    session_id text not null,
    -- where a fork came from (not a reference: the source may be deleted)
    forked_from_id text,
    -- the thread that spawned this sub-agent
    parent_thread_id text,
    -- the thread a fork is attached to; such forks are left out of ordinary lists
    attached_to_thread_id text,
    -- text of the first user message; '' until then, and then the thread is not listed
    preview text not null,
    -- the name given by a user
    name text,
    -- SessionSource as wire JSON
    source_json text not null check (json_valid(source_json)),
    -- the ThreadSourceKind that thread/list filters by
    source_kind text not null,
    -- threadSource as the client gave it
    thread_source text,
    -- first client of the process that made the thread
    originator text,
    -- version of the program that made the thread
    cli_version text not null,
    -- provider of the next turn
    model_provider text not null,
    -- model of the next turn
    model text,
    -- reasoning effort of the next turn
    reasoning_effort text,
    -- working directory, absolute
    cwd text not null,
    -- all sticky settings
    settings_json text not null check (json_valid(settings_json)),
    -- gitInfo.sha
    git_sha text,
    -- gitInfo.branch
    git_branch text,
    -- gitInfo.originUrl
    git_origin_url text,
    -- the form of the rollout file
    history_mode text not null check (history_mode in ('legacy', 'paginated')),
    -- when it was made
    created_at_ms integer not null,
    -- when anything was last written to it
    updated_at_ms integer not null,
    -- when its last turn started
    recency_at_ms integer not null,
    -- when it was archived; null for an active thread
    archived_at_ms integer,
    -- 1 when archived: leads the list indexes
    archived integer not null generated always as (archived_at_ms is not null) virtual,
    -- the rollout file, absolute, without `.zst`
    rollout_path text,
    -- nickname of a sub-agent
    agent_nickname text,
    -- role of a sub-agent
    agent_role text,
    -- whether memories may be made of it
    memory_mode text check (memory_mode in ('enabled', 'disabled')),
    -- project it belongs to
    project_id text,
    -- section it is placed in
    section_id text,
    -- when it was placed there
    section_entered_at_ms integer,
    -- place within the section
    section_position integer,
    -- token totals a fork inherits; a thread's own are sums over token_usage
    inherited_input integer not null default 0,
    inherited_cached_input integer not null default 0,
    inherited_cache_write_input integer not null default 0,
    inherited_output integer not null default 0,
    inherited_reasoning_output integer not null default 0,
    inherited_total integer not null default 0,
    -- context window of the model, as last reported
    model_context_window integer,
    -- lines in the journal; the next line's sequence number
    journal_lines integer not null default 0 check (journal_lines between 0 and 0xffffffff),
    -- bytes in the journal: the length of a rollout file that is in step
    journal_bytes integer not null default 0 check (journal_bytes >= 0),
    -- the line the model context starts with (the last compaction), else 0
    context_from_line integer not null default 0 check (context_from_line between 0 and journal_lines)
) strict;

-- thread/list by each sort key: a walk along the index from the cursor. `source_kind` is in it so that rows
-- of other sources are passed over without reading them.
create index threads_listed_by_creation on threads (archived, created_at_ms, thread_id, source_kind)
where preview <> '';
create index threads_listed_by_update on threads (archived, updated_at_ms, thread_id, source_kind)
where preview <> '';
create index threads_listed_by_recency on threads (archived, recency_at_ms, thread_id, source_kind)
where preview <> '';
-- thread/list with sectionId, by place
create index threads_in_section on threads (section_id, section_position, thread_id)
where section_id is not null;
-- thread/list with projectId; members of a project that goes
create index threads_in_project on threads (project_id) where project_id is not null;
-- thread/list with parentThreadId and ancestorThreadId
create index threads_of_parent on threads (parent_thread_id) where parent_thread_id is not null;
-- thread/list with attachedToThreadId
create index threads_attached on threads (attached_to_thread_id) where attached_to_thread_id is not null;
-- thread/resume with a path; the importer
create index threads_by_rollout_path on threads (rollout_path) where rollout_path is not null;

-- The exact bytes of each thread's rollout, in runs of whole lines. Only appended to; short runs at the end
-- are joined to a long one when there are many.
create table journal (
    -- thread_key << 32 | sequence number of the first line
    run_key integer not null primary key,
    -- how many lines
    line_count integer not null check (line_count > 0),
    -- where the run starts in the thread's journal, in bytes
    first_byte integer not null check (first_byte >= 0),
    -- how long it is there, before compression
    byte_count integer not null check (byte_count > 0),
    -- 0: payload is the bytes themselves; 1: one zstd frame
    encoding integer not null check (encoding in (0, 1)),
    -- the bytes
    payload blob not null
) strict;

create table turns (
    -- thread_key << 32 | place of the turn in the thread
    turn_key integer not null primary key,
    thread_key integer not null references threads (thread_key) on delete cascade
        check (thread_key = turn_key >> 32),
    -- the id on the wire, unique within the thread
    turn_id text not null,
    -- rootTurnId
    root_turn_id text,
    -- how it stands
    status text not null check (status in ('inProgress', 'completed', 'interrupted', 'failed')),
    -- TurnError as wire JSON, for a failed turn
    error_json text check (error_json is null or json_valid(error_json)),
    -- when it started
    started_at_ms integer,
    -- when it ended
    completed_at_ms integer,
    -- how long it ran
    duration_ms integer,
    -- sequence number of its first journal line
    first_line integer not null,
    -- sequence number after its last journal line so far
    end_line integer not null,
    -- clientUserMessageId of the submission that started it
    client_user_message_id text,
    unique (thread_key, turn_id)
) strict;

-- a submission repeated by a client
create index turns_by_client_message on turns (thread_key, client_user_message_id)
where client_user_message_id is not null;
-- turns that a dead process left behind
create index turns_in_progress on turns (thread_key) where status = 'inProgress';

create table items (
    -- thread_key << 32 | place of the item in the thread
    item_key integer not null primary key,
    turn_key integer not null references turns (turn_key) on delete cascade
        check (turn_key >> 32 = item_key >> 32),
    -- the id on the wire, unique within the turn
    item_id text not null,
    -- its type, for example agentMessage
    kind text not null,
    -- 0: payload is JSON text, 1: one zstd frame of it
    encoding integer not null check (encoding in (0, 1)),
    -- ThreadItem as wire JSON
    payload blob not null,
    -- when it started
    started_at_ms integer,
    -- when it completed
    completed_at_ms integer,
    unique (turn_key, item_id)
) strict;

-- turns with itemsView summary: the first user message and the last agent message
create index items_of_summary on items (turn_key, kind) where kind in ('userMessage', 'agentMessage');

-- The ledger: one model response's tokens. All totals are sums over it.
create table token_usage (
    -- thread_key << 32 | place in the thread
    usage_key integer not null primary key,
    thread_key integer not null references threads (thread_key) on delete cascade
        check (thread_key = usage_key >> 32),
    -- the turn that asked (not a reference: reverting drops the turn, not what it cost)
    turn_id text not null,
    -- the provider's response id: what makes a row count once
    response_id text not null,
    -- model asked
    model text,
    -- provider asked
    model_provider text,
    -- goal the tokens count for
    goal_id text,
    -- when the response ended
    at_ms integer not null,
    -- input, the cached part included
    input integer not null,
    -- part of the input that came from the provider's cache
    cached_input integer not null,
    -- part of the input that was written to the provider's cache
    cache_write_input integer not null,
    -- output, the reasoning part included
    output integer not null,
    -- part of the output that was reasoning
    reasoning_output integer not null,
    -- the provider's own total
    total integer not null,
    -- context window told with it
    model_context_window integer,
    unique (thread_key, response_id)
) strict;

-- v_usage_daily and usage/report between two days
create index token_usage_by_time on token_usage (at_ms);
-- what a goal has used
create index token_usage_of_goal on token_usage (goal_id) where goal_id is not null;

-- Who runs a turn on a thread. A row stays when the lease is given back, so that `fence` only grows.
create table leases (
    thread_key integer not null primary key references threads (thread_key) on delete cascade,
    -- token of the open store that holds it; null: nobody
    owner text,
    -- its process
    pid integer,
    -- when that process started, in clock ticks after boot: tells it from a later one of the same pid
    pid_started integer,
    -- host, boot and pid namespace in which `pid` means anything
    host text,
    -- the turn it runs
    turn_id text,
    -- when it was taken
    claimed_at_ms integer,
    -- when its owner last said that it lives
    heartbeat_at_ms integer,
    -- counts the claims of this thread
    fence integer not null
) strict;

-- heartbeat and release of all that an owner holds
create index leases_of_owner on leases (owner) where owner is not null;

-- A rollout file on disk and how far it is taken: what makes importing again cheap.
create table rollout_files (
    -- absolute, as found
    path text not null primary key,
    -- the thread it belongs to, once known
    thread_id text,
    -- size in bytes when last looked at
    size integer not null,
    -- modified time when last looked at, in nanoseconds
    mtime_ns integer not null,
    -- bytes that are in the journal
    bytes_taken integer not null,
    -- lines that are in the journal
    lines_taken integer not null,
    -- hash of its first bytes: tells a file that was replaced
    head_hash blob,
    -- hash of the last bytes taken: tells a file that was changed in the middle
    tail_hash blob,
    -- what the importer made of it
    verdict text not null check (verdict in ('indexed', 'imported', 'conflict', 'not_a_rollout', 'unreadable')),
    -- why, for the last three
    reason text,
    -- the reducer's state after the last line taken, so that a longer file goes on from there
    reducer_json text
) strict, without rowid;

-- files of a thread; what goes with it
create index rollout_files_of_thread on rollout_files (thread_id) where thread_id is not null;

-- What could not be read while importing.
create table import_problems (
    -- the file
    path text not null references rollout_files (path) on delete cascade on update cascade,
    -- line within the file, from 1; 0: the file as a whole
    line integer not null,
    -- what is wrong with it
    reason text not null,
    primary key (path, line)
) strict, without rowid;

-- Deleting a thread deletes its journal and its files' state as well. Triggers and not foreign keys: the journal
-- has no column to index, and they also run where foreign keys are off, as in the sqlite3 shell.
create trigger threads_delete_rest after delete on threads
begin
    delete from journal
    where run_key >= old.thread_key << 32 and run_key < (old.thread_key + 1) << 32;
    delete from items
    where item_key >= old.thread_key << 32 and item_key < (old.thread_key + 1) << 32;
    delete from turns
    where turn_key >= old.thread_key << 32 and turn_key < (old.thread_key + 1) << 32;
    delete from token_usage
    where usage_key >= old.thread_key << 32 and usage_key < (old.thread_key + 1) << 32;
    delete from leases where thread_key = old.thread_key;
    delete from import_problems
    where path in (select path from rollout_files where thread_id = old.thread_id);
    delete from rollout_files where thread_id = old.thread_id;
end;
