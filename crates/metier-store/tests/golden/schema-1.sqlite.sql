-- Version 1, SQLite. As shipped: never edited, only followed by later versions.
-- Ids of runs and batches are 32 hexadecimal digits. Moments are microseconds since 1970, UTC.
-- Texts to search by are cut to 600 characters; the record has them whole.

CREATE TABLE run (
    id            TEXT PRIMARY KEY NOT NULL,
    batch         TEXT NOT NULL,
    workload      TEXT NOT NULL,
    workload_name TEXT NOT NULL,
    device        TEXT NOT NULL,
    device_name   TEXT NOT NULL,
    state         TEXT NOT NULL,
    cause         TEXT,
    started       INTEGER NOT NULL,
    warmup        INTEGER NOT NULL,
    search        TEXT NOT NULL,     -- name and command in lower case
    owner_host    TEXT,              -- only while the run is under way
    owner         TEXT,
    record        TEXT NOT NULL      -- metier.run/1
);
-- With `warmup`, counting all but warm-up runs reads no record.
CREATE INDEX run_started ON run (started, id, warmup);
CREATE INDEX run_batch ON run (batch);
CREATE INDEX run_workload ON run (workload, started);
CREATE INDEX run_workload_name ON run (workload_name, started);
CREATE INDEX run_owner ON run (owner_host) WHERE owner_host IS NOT NULL;

CREATE TABLE tag (
    run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    tag TEXT NOT NULL,
    PRIMARY KEY (run, tag)
) WITHOUT ROWID;
CREATE INDEX tag_tag ON tag (tag);

-- Samples of a run under way, one row a series and append; `seq` ascends.
CREATE TABLE chunk (
    run     TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    series  TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (run, series, seq)
);

-- Samples of a run that is over, at most 65536 rows each.
CREATE TABLE block (
    run        TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    series     TEXT NOT NULL,
    part       INTEGER NOT NULL,
    rows       INTEGER NOT NULL,
    first_time INTEGER NOT NULL,
    last_time  INTEGER NOT NULL,
    content    BLOB NOT NULL,
    PRIMARY KEY (run, series, part)
);

-- Contents by SHA-256. Parts are written under the upload's id before the digest is known.
CREATE TABLE artefact (
    digest TEXT PRIMARY KEY NOT NULL,
    size   INTEGER NOT NULL,
    upload TEXT NOT NULL UNIQUE,
    stored INTEGER NOT NULL
);
CREATE TABLE artefact_part (
    upload  TEXT NOT NULL,
    part    INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (upload, part)
);
CREATE TABLE run_artefact (
    run    TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    name   TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE INDEX run_artefact_digest ON run_artefact (digest);

CREATE TABLE device (
    id     TEXT PRIMARY KEY NOT NULL,
    name   TEXT NOT NULL,
    record TEXT NOT NULL             -- metier.device/1
);
CREATE TABLE workload (
    id     TEXT PRIMARY KEY NOT NULL,
    name   TEXT NOT NULL,
    record TEXT NOT NULL             -- metier.workload/1
);

CREATE TABLE memo (
    key   TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL,
    used  INTEGER NOT NULL
);
CREATE INDEX memo_used ON memo (used);
