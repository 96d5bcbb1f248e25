-- Views for whoever opens the file with sqlite3. Their columns stay when the tables behind them change.

-- One row a thread, with its tokens and the size of its history.
create view v_threads as
select
    t.thread_id,
    coalesce(t.name, t.preview) as title,
    t.cwd,
    t.source_kind,
    t.model_provider,
    t.model,
    datetime(t.created_at_ms / 1000, 'unixepoch') as created_at,
    datetime(t.updated_at_ms / 1000, 'unixepoch') as updated_at,
    t.archived,
    t.parent_thread_id,
    t.forked_from_id,
    t.rollout_path,
    t.journal_lines,
    t.journal_bytes,
    (select count(*) from turns where turns.thread_key = t.thread_key) as turns,
    (select coalesce(sum(u.total), 0) from token_usage as u where u.thread_key = t.thread_key)
        as own_tokens,
    t.inherited_total as inherited_tokens
from threads as t;

-- One row a turn, in the order of the thread, with its own tokens.
create view v_turns as
select
    threads.thread_id,
    turns.turn_id,
    turns.turn_key & 0xffffffff as position,
    turns.status,
    turns.error_json ->> '$.message' as error,
    datetime(turns.started_at_ms / 1000, 'unixepoch') as started_at,
    datetime(turns.completed_at_ms / 1000, 'unixepoch') as completed_at,
    turns.duration_ms,
    (select count(*) from items where items.turn_key = turns.turn_key) as items,
    (
        select coalesce(sum(u.total), 0)
        from token_usage as u
        where u.thread_key = turns.thread_key and u.turn_id = turns.turn_id
    ) as tokens
from turns
inner join threads on threads.thread_key = turns.thread_key;

-- Tokens a day (UTC), model and provider.
create view v_usage_daily as
select
    date(at_ms / 1000, 'unixepoch') as day,
    model_provider,
    model,
    count(*) as responses,
    sum(input) as input_tokens,
    sum(cached_input) as cached_input_tokens,
    sum(cache_write_input) as cache_write_input_tokens,
    sum(output) as output_tokens,
    sum(reasoning_output) as reasoning_output_tokens,
    sum(total) as total_tokens
from token_usage
group by day, model_provider, model;
