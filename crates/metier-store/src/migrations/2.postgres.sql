-- Version 2, PostgreSQL: the queue of sessions. As shipped: never edited, only followed by later versions.

CREATE TABLE session (
    id     TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    number BIGINT NOT NULL UNIQUE,  -- ascends in the order of asking
    state  TEXT COLLATE "C" NOT NULL,
    device TEXT COLLATE "C",                     -- id or name of the device that it is for
    job    TEXT COLLATE "C",
    worker TEXT COLLATE "C",                     -- id of the device that measures it, only while it runs
    owner  TEXT COLLATE "C",                     -- the working process, only while it runs
    child  TEXT COLLATE "C",                     -- the measuring process, only while it runs
    cancel BIGINT NOT NULL,         -- 1 when somebody does not want it any more
    record TEXT COLLATE "C" NOT NULL             -- metier.session/1
);
CREATE INDEX session_state ON session (state, number);
CREATE INDEX session_job ON session (job, number);
-- A device measures one at a time.
CREATE UNIQUE INDEX session_worker ON session (worker) WHERE worker IS NOT NULL;

CREATE TABLE session_log (
    session TEXT COLLATE "C" NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    part    BIGINT NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (session, part)
);

-- Who changes a lane's row first, goes first: one lane a device, and one for those who ask.
CREATE TABLE session_lane (
    lane TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    used BIGINT NOT NULL,
    last BIGINT NOT NULL            -- the last number that was given
);
