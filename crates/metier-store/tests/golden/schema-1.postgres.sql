-- Version 1, PostgreSQL. As shipped: never edited, only followed by later versions.
-- Ids of runs and batches are 32 hexadecimal digits. Moments are microseconds since 1970, UTC.
-- Texts to search by are cut to 600 characters; the record has them whole.

CREATE TABLE run (
    id            TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    batch         TEXT COLLATE "C" NOT NULL,
    workload      TEXT COLLATE "C" NOT NULL,
    workload_name TEXT COLLATE "C" NOT NULL,
    device        TEXT COLLATE "C" NOT NULL,
    device_name   TEXT COLLATE "C" NOT NULL,
    state         TEXT COLLATE "C" NOT NULL,
    cause         TEXT COLLATE "C",
    started       BIGINT NOT NULL,
    warmup        BIGINT NOT NULL,
    search        TEXT COLLATE "C" NOT NULL,     -- name and command in lower case
    owner_host    TEXT COLLATE "C",              -- only while the run is under way
    owner         TEXT COLLATE "C",
    record        TEXT COLLATE "C" NOT NULL      -- metier.run/1
);
-- With `warmup`, counting all but warm-up runs reads no record.
CREATE INDEX run_started ON run (started, id, warmup);
CREATE INDEX run_batch ON run (batch);
CREATE INDEX run_workload ON run (workload, started);
CREATE INDEX run_workload_name ON run (workload_name, started);
CREATE INDEX run_owner ON run (owner_host) WHERE owner_host IS NOT NULL;

CREATE TABLE tag (
    run TEXT COLLATE "C" NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    tag TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (run, tag)
);
CREATE INDEX tag_tag ON tag (tag);

-- Samples of a run under way, one row a series and append; `seq` ascends.
CREATE TABLE chunk (
    run     TEXT COLLATE "C" NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    series  TEXT COLLATE "C" NOT NULL,
    seq     BIGINT NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (run, series, seq)
);

-- Samples of a run that is over, at most 65536 rows each.
CREATE TABLE block (
    run        TEXT COLLATE "C" NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    series     TEXT COLLATE "C" NOT NULL,
    part       BIGINT NOT NULL,
    rows       BIGINT NOT NULL,
    first_time BIGINT NOT NULL,
    last_time  BIGINT NOT NULL,
    content    BYTEA NOT NULL,
    PRIMARY KEY (run, series, part)
);

-- Contents by SHA-256. Parts are written under the upload's id before the digest is known.
CREATE TABLE artefact (
    digest TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    size   BIGINT NOT NULL,
    upload TEXT COLLATE "C" NOT NULL UNIQUE,
    stored BIGINT NOT NULL
);
CREATE TABLE artefact_part (
    upload  TEXT COLLATE "C" NOT NULL,
    part    BIGINT NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (upload, part)
);
CREATE TABLE run_artefact (
    run    TEXT COLLATE "C" NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    name   TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (run, name)
);
CREATE INDEX run_artefact_digest ON run_artefact (digest);

CREATE TABLE device (
    id     TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    record TEXT COLLATE "C" NOT NULL             -- metier.device/1
);
CREATE TABLE workload (
    id     TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    record TEXT COLLATE "C" NOT NULL             -- metier.workload/1
);

CREATE TABLE memo (
    key   TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    used  BIGINT NOT NULL
);
CREATE INDEX memo_used ON memo (used);
