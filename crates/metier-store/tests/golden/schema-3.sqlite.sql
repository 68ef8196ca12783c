-- Version 3, SQLite: passports, predictors, trials. As shipped: never edited, only followed by later versions.

CREATE TABLE passport (
    id     TEXT PRIMARY KEY NOT NULL,
    name   TEXT NOT NULL,
    record TEXT NOT NULL             -- metier.passport/1
);

CREATE TABLE predictor (
    id     TEXT PRIMARY KEY NOT NULL, -- SHA-256 of its file
    kind   TEXT NOT NULL,
    device TEXT,                      -- id of the device it was learned on
    made   INTEGER NOT NULL,
    record TEXT NOT NULL,             -- metier.predictor/1
    file   BLOB NOT NULL
);
CREATE INDEX predictor_kind ON predictor (kind, made);

-- Small measurements that are made in order to learn, thousands of them; what a trial is, its kind knows.
CREATE TABLE trial (
    device TEXT NOT NULL,
    kind   TEXT NOT NULL,
    key    TEXT NOT NULL,             -- what was tried, so that nothing is tried twice
    made   INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (device, kind, key)
) WITHOUT ROWID;
