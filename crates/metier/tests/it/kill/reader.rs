//! A reader of the SQLite store that shares nothing with `metier-store`: its own SQL, its own look
//! at the head of a chunk. It says what is committed, whether the file is whole, and what two looks
//! contradict each other in.
//!
//! It never changes the file: `query_only` refuses writes, and closing makes no checkpoint.
//! Files of the store must not be opened by other means in the same process: closing them would
//! drop SQLite's locks.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use sha2::{Digest, Sha256};

/// A run as it is committed.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub name: String,
    pub state: String,
    /// Microseconds since 1970.
    pub started: i64,
    pub record: String,
    /// By series and number: rows and content.
    pub chunks: BTreeMap<(String, i64), (u64, Vec<u8>)>,
    /// By series and part.
    pub blocks: BTreeMap<(String, i64), Block>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    pub rows: u64,
    /// Nanoseconds since the start of the run.
    pub last_time: i64,
    pub content: Vec<u8>,
}

impl Seen {
    /// Rows of a series, wherever they are.
    pub fn rows(&self, series: &str) -> u64 {
        let chunks = self.chunks.iter().filter(|(key, _)| key.0 == series).map(|(_, chunk)| chunk.0);
        let blocks = self.blocks.iter().filter(|(key, _)| key.0 == series).map(|(_, block)| block.rows);
        chunks.sum::<u64>() + blocks.sum::<u64>()
    }

    /// The last sample in blocks, in nanoseconds since the start.
    pub fn last_time(&self) -> Option<i64> {
        self.blocks.values().map(|block| block.last_time).max()
    }

    fn is_over(&self) -> bool {
        self.state != "running"
    }
}

/// All runs by id.
pub type Content = BTreeMap<String, Seen>;

fn open(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    connection.execute_batch("PRAGMA query_only = ON").unwrap();
    connection
}

/// What is committed now, in one transaction; damage is an error.
pub fn look(path: &Path) -> Result<Content, String> {
    if !path.exists() {
        return Ok(Content::new());
    }
    let connection = open(path);
    read(&connection).map_err(|error| format!("the store cannot be read: {error}"))?
}

fn read(connection: &Connection) -> rusqlite::Result<Result<Content, String>> {
    connection.execute_batch("BEGIN")?;
    let whole: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if whole != "ok" {
        return Ok(Err(format!("integrity_check: {whole}")));
    }
    if connection.prepare("PRAGMA foreign_key_check")?.exists([])? {
        return Ok(Err("foreign_key_check found rows without their run".to_string()));
    }
    let mut content = Content::new();
    let tables: i64 =
        connection
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'run'", [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(Ok(content));
    }
    let mut statement = connection.prepare("SELECT id, workload_name, state, started, record FROM run")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let seen = Seen {
            name: row.get(1)?,
            state: row.get(2)?,
            started: row.get(3)?,
            record: row.get(4)?,
            chunks: BTreeMap::new(),
            blocks: BTreeMap::new(),
        };
        content.insert(row.get(0)?, seen);
    }
    let mut statement = connection.prepare("SELECT run, series, seq, content FROM chunk")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (run, bytes): (String, Vec<u8>) = (row.get(0)?, row.get(3)?);
        let Some(count) = rows_in(&bytes) else {
            return Ok(Err(format!("a chunk of run {run} is not one: {bytes:02x?}")));
        };
        if let Some(seen) = content.get_mut(&run) {
            seen.chunks.insert((row.get(1)?, row.get(2)?), (count, bytes));
        }
    }
    let mut statement =
        connection.prepare("SELECT run, series, part, rows, last_time, content FROM block")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (run, count): (String, i64) = (row.get(0)?, row.get(3)?);
        let block = Block { rows: count as u64, last_time: row.get(4)?, content: row.get(5)? };
        if rows_in(&block.content) != Some(block.rows) {
            return Ok(Err(format!("a block of run {run} does not hold the rows that it says")));
        }
        if let Some(seen) = content.get_mut(&run) {
            seen.blocks.insert((row.get(1)?, row.get(2)?), block);
        }
    }
    connection.execute_batch("COMMIT")?;
    Ok(Ok(content))
}

/// How many rows encoded samples say they have: after 20 bytes of head, the run's id (16 bytes),
/// the name and the other fields (texts), the rows (varint).
fn rows_in(bytes: &[u8]) -> Option<u64> {
    let body = bytes.strip_prefix(b"mser\x01\0\0\0")?;
    let length = u32::from_le_bytes(body.get(..4)?.try_into().ok()?) as usize;
    let mut rest = body.get(12..)?;
    if rest.len() != length {
        return None;
    }
    rest = rest.get(16..)?;
    for _ in 0..2 {
        let size = varint(&mut rest)?;
        rest = rest.get(size as usize..)?;
    }
    varint(&mut rest)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// What of the earlier look is gone or changed in the later one, that no run may lose or change.
pub fn losses(before: &Content, after: &Content) -> Vec<String> {
    let mut losses = Vec::new();
    for (id, was) in before {
        let Some(is) = after.get(id) else {
            losses.push(format!("run {id} ({}, {}) is gone", was.name, was.state));
            continue;
        };
        let mut say = |what: &str| losses.push(format!("run {id} ({}): {what}", was.name));
        match (was.is_over(), is.is_over()) {
            (true, _) if was != is => say(&format!("was {} and has changed, now {}", was.state, is.state)),
            (true, _) => {}
            (false, false) => {
                if was.chunks.iter().any(|(key, chunk)| is.chunks.get(key) != Some(chunk)) {
                    say("a chunk is gone or has changed");
                }
                if without_artefacts(&was.record) != without_artefacts(&is.record) {
                    say("the record has changed under way");
                }
            }
            (false, true) => {
                if !is.chunks.is_empty() {
                    say(&format!("is {} and still has chunks", is.state));
                }
                for series in was.chunks.keys().map(|key| &key.0) {
                    if is.rows(series) < was.rows(series) {
                        let (had, has) = (was.rows(series), is.rows(series));
                        say(&format!("had {had} rows of {series} and has {has} as {}", is.state));
                    }
                }
            }
        }
    }
    losses
}

/// Files may be linked to a run while it is under way.
fn without_artefacts(record: &str) -> serde_json::Value {
    let mut value: serde_json::Value = serde_json::from_str(record).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("artefacts");
    }
    value
}

/// Checks each file that a run links: it is there, whole, and has the digest that it is called by.
/// Gives how many uploads were begun and never became a file.
pub fn artefacts(path: &Path) -> Result<usize, String> {
    let connection = open(path);
    let check = || -> rusqlite::Result<Result<usize, String>> {
        let sql = "SELECT DISTINCT l.digest, a.size, a.upload FROM run_artefact l LEFT JOIN artefact a USING (digest)";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (digest, size, upload): (String, Option<i64>, Option<String>) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            let mut statement =
                connection.prepare("SELECT content FROM artefact_part WHERE upload = ?1 ORDER BY part")?;
            let parts = statement.query_map([upload], |row| row.get::<_, Vec<u8>>(0))?;
            let content = parts.collect::<rusqlite::Result<Vec<_>>>()?.concat();
            let is: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
            if size != Some(content.len() as i64) || !digest.ends_with(&is) {
                return Ok(Err(format!(
                    "artefact {digest}: {} bytes with digest {is}, want {size:?}",
                    content.len()
                )));
            }
        }
        let sql = "SELECT count(DISTINCT upload) FROM artefact_part WHERE upload NOT IN (SELECT upload FROM artefact)";
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|count| Ok(count as usize))
    };
    check().map_err(|error| error.to_string())?
}
