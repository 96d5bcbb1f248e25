-- Goals of threads, what happened to them, and submissions that wait to become turns.

-- The goal of a thread: no row, no goal. Its usage is charged in the transaction that adds a row of the ledger.
create table goals (
    thread_key integer not null primary key references threads (thread_key) on delete cascade,
    -- made anew with every new goal; the ledger's rows name it
    goal_id text not null check (goal_id <> ''),
    objective text not null check (objective <> ''),
    status text not null
        check (status in ('active', 'paused', 'blocked', 'usageLimited', 'budgetLimited', 'complete')),
    -- tokens it may use; null: no limit
    token_budget integer check (token_budget > 0),
    -- input less cached input, and output, of the responses that counted
    tokens_used integer not null default 0 check (tokens_used >= 0),
    -- wall clock while it was active and the thread loaded
    time_used_ms integer not null default 0 check (time_used_ms >= 0),
    created_at_ms integer not null,
    updated_at_ms integer not null,
    -- 1: the objective stands in the model's context as it is now
    objective_told integer not null default 0 check (objective_told in (0, 1)),
    -- 1: nothing starts by itself before an explicit turn has run (a fork that took the goal along)
    deferred integer not null default 0 check (deferred in (0, 1)),
    -- when a usageLimited goal becomes active again by itself, once
    wakes_at_ms integer
) strict;

-- The goals that wake by themselves.
create index goals_to_wake on goals (wakes_at_ms) where wakes_at_ms is not null;

-- What happened to a goal: for people who want to know why it stands as it does.
create table goal_events (
    event_key integer not null primary key,
    thread_key integer not null references threads (thread_key) on delete cascade,
    goal_id text not null,
    at_ms integer not null,
    -- set, edited, cleared, status, woken, imported
    kind text not null,
    -- the status after it
    status text not null,
    -- the tokens used by then
    tokens_used integer not null,
    -- the turn that caused it
    turn_id text,
    -- why, in a sentence
    reason text
) strict;

create index goal_events_of_thread on goal_events (thread_key, event_key);

-- Messages of a user that wait to become turns, in order of `place`.
create table queue (
    queue_key integer not null primary key,
    thread_key integer not null references threads (thread_key) on delete cascade,
    -- the id on the wire
    submission_id text not null unique,
    -- orders the submissions of a thread; not dense
    place integer not null,
    -- `clientUserMessageId`; several may have the same
    client_id text not null,
    -- the input parts as wire JSON
    input_json text not null check (json_valid(input_json)),
    -- `responsesapiClientMetadata` as JSON
    metadata_json text check (metadata_json is null or json_valid(metadata_json)),
    created_at_ms integer not null,
    unique (thread_key, place)
) strict;

-- For admins: goals with their threads.
create view v_goals as
select
    threads.thread_id,
    coalesce(threads.name, threads.preview) as title,
    goals.goal_id,
    goals.objective,
    goals.status,
    goals.token_budget,
    goals.tokens_used,
    goals.time_used_ms / 1000 as seconds_used,
    datetime(goals.created_at_ms / 1000, 'unixepoch') as created_at,
    datetime(goals.updated_at_ms / 1000, 'unixepoch') as updated_at,
    (
        select reason from goal_events
        where goal_events.thread_key = goals.thread_key and goal_events.goal_id = goals.goal_id
        order by event_key desc limit 1
    ) as last_reason
from goals
join threads using (thread_key);
