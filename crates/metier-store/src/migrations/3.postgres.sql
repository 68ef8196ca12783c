-- Version 3, PostgreSQL: passports, predictors, trials. As shipped: never edited, only followed by later versions.

CREATE TABLE passport (
    id     TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    record TEXT COLLATE "C" NOT NULL             -- metier.passport/1
);

CREATE TABLE predictor (
    id     TEXT COLLATE "C" PRIMARY KEY NOT NULL, -- SHA-256 of its file
    kind   TEXT COLLATE "C" NOT NULL,
    device TEXT COLLATE "C",                      -- id of the device it was learned on
    made   BIGINT NOT NULL,
    record TEXT COLLATE "C" NOT NULL,             -- metier.predictor/1
    file   BYTEA NOT NULL
);
CREATE INDEX predictor_kind ON predictor (kind, made);

-- Small measurements that are made in order to learn, thousands of them; what a trial is, its kind knows.
CREATE TABLE trial (
    device TEXT COLLATE "C" NOT NULL,
    kind   TEXT COLLATE "C" NOT NULL,
    key    TEXT COLLATE "C" NOT NULL,             -- what was tried, so that nothing is tried twice
    made   BIGINT NOT NULL,
    record TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (device, kind, key)
);
