-- Version 4, PostgreSQL: checksums. As shipped: never edited, only followed by later versions.
-- XXH64 of what a row holds and no other column repeats; NULL where an earlier version wrote it.

ALTER TABLE run ADD COLUMN sum BIGINT;
ALTER TABLE device ADD COLUMN sum BIGINT;
ALTER TABLE workload ADD COLUMN sum BIGINT;
ALTER TABLE passport ADD COLUMN sum BIGINT;
ALTER TABLE session ADD COLUMN sum BIGINT;
ALTER TABLE session_log ADD COLUMN sum BIGINT;
ALTER TABLE predictor ADD COLUMN sum BIGINT;
ALTER TABLE trial ADD COLUMN sum BIGINT;
ALTER TABLE memo ADD COLUMN sum BIGINT;
