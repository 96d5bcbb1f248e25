-- The reducer's state moves from JSON text to a packed form, and is kept where a file's lines end and not after each
-- part of an import: as text it was written anew again and again, and was larger than some files.

-- the reducer's state (one zstd frame of JSON) at a position that it tells itself, so that a longer file goes on from
-- there; null: the file is read from its beginning again
alter table rollout_files add column reducer blob;
-- After the other column, since SQLite cannot drop the last one of a table whose text has comments there.
alter table rollout_files drop column reducer_json;
