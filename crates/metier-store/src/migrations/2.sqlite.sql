-- Version 2, SQLite: the queue of sessions. As shipped: never edited, only followed by later versions.

CREATE TABLE session (
    id     TEXT PRIMARY KEY NOT NULL,
    number INTEGER NOT NULL UNIQUE,  -- ascends in the order of asking
    state  TEXT NOT NULL,
    device TEXT,                     -- id or name of the device that it is for
    job    TEXT,
    worker TEXT,                     -- id of the device that measures it, only while it runs
    owner  TEXT,                     -- the working process, only while it runs
    child  TEXT,                     -- the measuring process, only while it runs
    cancel INTEGER NOT NULL,         -- 1 when somebody does not want it any more
    record TEXT NOT NULL             -- metier.session/1
);
CREATE INDEX session_state ON session (state, number);
CREATE INDEX session_job ON session (job, number);
-- A device measures one at a time.
CREATE UNIQUE INDEX session_worker ON session (worker) WHERE worker IS NOT NULL;

CREATE TABLE session_log (
    session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    part    INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (session, part)
);

-- Who changes a lane's row first, goes first: one lane a device, and one for those who ask.
CREATE TABLE session_lane (
    lane TEXT PRIMARY KEY NOT NULL,
    used INTEGER NOT NULL,
    last INTEGER NOT NULL            -- the last number that was given
);
