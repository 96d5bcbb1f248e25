-- What is taken over from another program's databases in the same home.

-- Sections that threads are placed in.
create table sections (
    section_id text not null primary key check (section_id <> ''),
    name text not null,
    -- as the other program has it
    appearance text
) strict, without rowid;

-- Queued submissions that were taken over: each once, though they stay in the other database.
create table taken_submissions (submission_id text not null primary key) strict, without rowid;
