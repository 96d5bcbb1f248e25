-- A rollout file may continue the first part of another (a fork or a revert of the peer's). The thread's journal then
-- begins with that part, and the file with what follows it: positions in the two differ by this.

alter table threads add column base_bytes integer not null default 0 check (base_bytes >= 0);
