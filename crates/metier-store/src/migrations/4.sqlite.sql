-- Version 4, SQLite: checksums. As shipped: never edited, only followed by later versions.
-- XXH64 of what a row holds and no other column repeats; NULL where an earlier version wrote it.

ALTER TABLE run ADD COLUMN sum INTEGER;
ALTER TABLE device ADD COLUMN sum INTEGER;
ALTER TABLE workload ADD COLUMN sum INTEGER;
ALTER TABLE passport ADD COLUMN sum INTEGER;
ALTER TABLE session ADD COLUMN sum INTEGER;
ALTER TABLE session_log ADD COLUMN sum INTEGER;
ALTER TABLE predictor ADD COLUMN sum INTEGER;
ALTER TABLE trial ADD COLUMN sum INTEGER;
ALTER TABLE memo ADD COLUMN sum INTEGER;
