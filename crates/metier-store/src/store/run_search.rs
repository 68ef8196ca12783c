//! Run search: filtered, paged lists, and the lookup of one run by a user's text.

use metier_types::{BatchId, RecordSchema, Run, RunId, RunList, RunRow, UtcTimestamp};

use super::{RecordStore, hex_id, to_index_text, to_microseconds};
use crate::engine::SqlValue;
use crate::run_filter::{RunPageCursor, parse_run_row};
use crate::{Error, RunFilter};

/// Minimum number of id digits in a search.
const MIN_ID_DIGITS: usize = 4;
/// Maximum number of candidates in an error.
const MAX_CANDIDATES: usize = 10;
/// Maximum number of runs on a page of the list.
const MAX_PAGE_RUNS: u32 = 1000;

/// A page of stored records: id and JSON of each.
struct RecordPage {
    rows: Vec<(String, String)>,
    has_more: bool,
    /// Number of matching records on all pages.
    total: u64,
}

/// Maximum number of batches in the history of a workload on a device.
const MAX_HISTORY_BATCHES: usize = 20;
/// Maximum number of workloads and devices whose history is read.
const MAX_HISTORY_LINES: usize = 8;

impl RecordStore {
    /// Runs that match a filter, newest first.
    pub fn runs(&self, filter: &RunFilter) -> Result<RunList, Error> {
        let RecordPage { rows, has_more, total } = self.record_page(filter)?;
        let parse = |(id, json): (String, String)| {
            parse_run_row(&json).map_err(|error| self.record_error("run", id, error))
        };
        let runs: Vec<RunRow> = rows.into_iter().map(parse).collect::<Result<_, _>>()?;
        let last = runs.last().filter(|_| has_more);
        let next = last.map(|last| cursor_after(last.started, last.id));
        Ok(RunList { schema: RecordSchema::new(), runs, next, total })
    }

    /// Full records of the latest runs that match a filter, newest first; at most `most`. They are
    /// read with the pages of the list, not one by one.
    pub fn latest_runs(&self, filter: &RunFilter, most: usize) -> Result<Vec<Run>, Error> {
        let mut runs: Vec<Run> = Vec::new();
        let mut filter = filter.clone();
        while runs.len() < most {
            filter.limit = (most - runs.len()).min(MAX_PAGE_RUNS as usize) as u32;
            let RecordPage { rows, has_more, .. } = self.record_page(&filter)?;
            for (id, json) in rows {
                let run = serde_json::from_str(&json).map_err(|error| self.record_error("run", id, error))?;
                runs.push(run);
            }
            match runs.last().filter(|_| has_more) {
                Some(last) => filter.after = Some(cursor_after(last.started, last.id)),
                None => break,
            }
        }
        Ok(runs)
    }

    fn record_page(&self, filter: &RunFilter) -> Result<RecordPage, Error> {
        let limit = match filter.limit {
            0 => 100,
            limit if limit <= MAX_PAGE_RUNS => i64::from(limit),
            limit => {
                let want = format!("1 to {MAX_PAGE_RUNS}");
                return Err(Error::Refused { what: "limit", got: limit.to_string(), want });
            }
        };
        let after = filter.after.as_deref().map(str::parse::<RunPageCursor>).transpose()?;
        let (conditions, values) = filter_conditions(filter);
        let counting = format!("SELECT count(*) FROM run{conditions}");
        let listing = match &after {
            Some(_) => {
                let (joint, n) = (if values.is_empty() { " WHERE" } else { " AND" }, values.len());
                format!(
                    "SELECT id, record FROM run{conditions}{joint} (started, id) < (?{}, ?{}) \
                     ORDER BY started DESC, id DESC LIMIT ?{}",
                    n + 1,
                    n + 2,
                    n + 3
                )
            }
            None => format!(
                "SELECT id, record FROM run{conditions} ORDER BY started DESC, id DESC LIMIT ?{}",
                values.len() + 1
            ),
        };
        let (total, rows) = self.read_transaction("listing runs", |session| {
            let parameters = |more: Vec<SqlValue<'static>>| -> Vec<SqlValue<'static>> {
                values.iter().map(FilterParameter::to_sql_value).chain(more).collect()
            };
            let total =
                session.query_row(&counting, &parameters(Vec::new()))?.map_or(0, |mut row| row.next_int());
            if total == 0 {
                return Ok((0, Vec::new()));
            }
            let mut more: Vec<SqlValue<'static>> = Vec::new();
            if let Some(cursor) = &after {
                more.extend([cursor.started.into(), cursor.id.clone().into()]);
            }
            // One extra row shows whether there is a next page.
            more.push((limit + 1).into());
            Ok((total, session.query_rows(&listing, &parameters(more))?))
        })?;
        let has_more = rows.len() as i64 > limit;
        let rows = rows.into_iter().take(limit as usize).map(|mut row| (row.next_text(), row.next_text()));
        Ok(RecordPage { rows: rows.collect(), has_more, total: total.max(0) as u64 })
    }

    /// The runs that a text names: the latest batch of a workload (`NAME~1`: the batch before), a
    /// batch, or the result of [`RecordStore::find_run`]. Warm-up runs of a batch are left out.
    pub fn find_runs(&self, text: &str) -> Result<Vec<Run>, Error> {
        if let Some(runs) = self.batch_of_workload(text, 0)? {
            return Ok(runs);
        }
        if let Some((name, back)) = text.rsplit_once('~').and_then(|(name, n)| Some((name, n.parse().ok()?)))
            && let Some(runs) = self.batch_of_workload(name, back)?
        {
            return Ok(runs);
        }
        if let (Ok(id), Ok(batch)) = (text.parse::<RunId>(), text.parse::<BatchId>()) {
            if let Some(run) = self.run(id)? {
                return Ok(vec![run]);
            }
            let mut batch = self.batch(batch)?;
            batch.retain(|run| !run.context.warmup);
            if !batch.is_empty() {
                return Ok(batch);
            }
        }
        let id = self.find_run(text)?;
        let gone = || Error::NoRun { store: self.name(), text: text.to_string() };
        Ok(vec![self.run(id)?.ok_or_else(gone)?])
    }

    /// The latest batch of a workload, or that many batches before it; `None` if there is no such
    /// workload.
    fn batch_of_workload(&self, name: &str, back: usize) -> Result<Option<Vec<Run>>, Error> {
        let mut filter = RunFilter { workload: Some(name.to_string()), limit: 1000, ..RunFilter::default() };
        let mut batches: Vec<BatchId> = Vec::new();
        loop {
            let page = self.runs(&filter)?;
            for row in page.runs {
                if !batches.contains(&row.batch) {
                    batches.push(row.batch);
                }
                if let Some(batch) = batches.get(back) {
                    let mut runs = self.batch(*batch)?;
                    runs.retain(|run| run.workload.id == row.workload.id && !run.context.warmup);
                    return Ok(Some(runs));
                }
            }
            match page.next {
                Some(next) => filter.after = Some(next),
                None if batches.is_empty() => return Ok(None),
                None => {
                    return Err(Error::NoBatch { workload: name.to_string(), batches: batches.len(), back });
                }
            }
        }
    }

    /// Runs of other batches of the workloads of these runs on their devices, the latest
    /// [`MAX_HISTORY_BATCHES`] of each, without warm-up runs.
    pub fn batch_history(&self, runs: &[Run]) -> Result<Vec<Run>, Error> {
        let mut lines: Vec<(String, String)> = Vec::new();
        for run in runs {
            let line = (run.workload.id.to_string(), run.device.id.to_string());
            if !lines.contains(&line) && lines.len() < MAX_HISTORY_LINES {
                lines.push(line);
            }
        }
        let mut history = Vec::new();
        for (workload, device) in lines {
            let filter = RunFilter {
                workload: Some(workload.clone()),
                device: Some(device),
                limit: 1000,
                ..RunFilter::default()
            };
            let mut batches: Vec<BatchId> = Vec::new();
            for row in self.runs(&filter)?.runs {
                let is_new = row.repetitions > 1
                    && !batches.contains(&row.batch)
                    && !runs.iter().any(|run| run.batch == row.batch);
                if is_new && batches.len() < MAX_HISTORY_BATCHES {
                    batches.push(row.batch);
                    let is_workload = |run: &Run| run.workload.id.as_str() == workload && !run.context.warmup;
                    history.extend(self.batch(row.batch)?.into_iter().filter(is_workload));
                }
            }
        }
        Ok(history)
    }

    /// Finds one run by a user's text: a full id, the first or last 4 or more digits of one,
    /// `last`, `last~2` (two before it), or a workload's name or id (its latest run). An exact name
    /// takes precedence over digits, since digits can be lengthened. Warm-up runs are found by id
    /// only, and co-runner runs are never `last`.
    pub fn find_run(&self, text: &str) -> Result<RunId, Error> {
        let text = text.trim();
        let none = || Error::NoRun { store: self.name(), text: text.chars().take(200).collect() };
        let id = |text: String| text.parse::<RunId>().map_err(|error| self.record_error("run", &text, error));
        if let Some(back) = parse_steps_back(text) {
            // Skip co-runner runs. Quotes inside a JSON text are escaped, so the pattern cannot
            // match user text.
            let sql = "SELECT id FROM run WHERE warmup = 0 AND record NOT LIKE '%\"is_company\":true%' \
                       ORDER BY started DESC, id DESC LIMIT 1 OFFSET ?1";
            let row =
                self.read_transaction("looking for a run", |session| session.query_row(sql, &[back.into()]))?;
            return id(row.ok_or_else(none)?.next_text());
        }
        let digits: String = text.chars().filter(|c| *c != '-').collect::<String>().to_ascii_lowercase();
        let is_digits =
            digits.chars().all(|c| c.is_ascii_hexdigit()) && (MIN_ID_DIGITS..=32).contains(&digits.len());
        let found = self.read_transaction("looking for a run", |session| {
            if is_digits && digits.len() == 32 {
                return session.query_rows("SELECT id FROM run WHERE id = ?1", &[(&digits).into()]);
            }
            let sql = "SELECT id FROM run WHERE warmup = 0 AND (workload = ?1 OR workload_name = ?1) \
                       ORDER BY started DESC, id DESC LIMIT 1";
            let named = session.query_rows(sql, &[to_index_text(text).into()])?;
            if !named.is_empty() || !is_digits {
                return Ok(named);
            }
            let sql =
                "SELECT id FROM run WHERE id LIKE ?1 OR id LIKE ?2 ORDER BY started DESC, id DESC LIMIT ?3";
            let values = [
                format!("{digits}%").into(),
                format!("%{digits}").into(),
                (MAX_CANDIDATES as i64 + 1).into(),
            ];
            session.query_rows(sql, &values)
        })?;
        let mut candidates: Vec<RunId> =
            found.into_iter().map(|mut row| id(row.next_text())).collect::<Result<_, _>>()?;
        match candidates.as_slice() {
            [] => Err(none()),
            [run] => Ok(*run),
            _ => {
                let more = candidates.len() > MAX_CANDIDATES;
                candidates.truncate(MAX_CANDIDATES);
                Err(Error::Ambiguous { text: text.to_string(), candidates, more })
            }
        }
    }
}

/// The cursor of the page after a run.
fn cursor_after(started: UtcTimestamp, id: RunId) -> String {
    RunPageCursor { started: to_microseconds(started), id: hex_id(id.as_bytes()) }.to_string()
}

/// Parses `last` as 0 steps back and `last~2` as 2.
fn parse_steps_back(text: &str) -> Option<i64> {
    match text.strip_prefix("last")?.strip_prefix('~') {
        None => (text == "last").then_some(0),
        Some(steps) => steps.parse::<u32>().ok().map(i64::from),
    }
}

/// A filter's value. Kept apart from the statement's parameters, because a statement may run more
/// than once.
enum FilterParameter {
    Int(i64),
    Text(String),
}

impl FilterParameter {
    fn to_sql_value(&self) -> SqlValue<'static> {
        match self {
            Self::Int(number) => (*number).into(),
            Self::Text(text) => text.clone().into(),
        }
    }
}

/// The `WHERE` clause of a filter and its parameters.
fn filter_conditions(filter: &RunFilter) -> (String, Vec<FilterParameter>) {
    let mut parts = Vec::new();
    let mut values = Vec::new();
    let mut add = |sql: &str, value: FilterParameter| {
        values.push(value);
        parts.push(sql.replace('@', &format!("?{}", values.len())));
    };
    let text = |text: &str| FilterParameter::Text(to_index_text(text));
    let time = |at: UtcTimestamp| FilterParameter::Int(to_microseconds(at));
    if let Some(workload) = &filter.workload {
        add("(workload = @ OR workload_name = @)", text(workload));
    }
    if let Some(device) = &filter.device {
        add("(device = @ OR device_name = @)", text(device));
    }
    if let Some(state) = filter.state {
        add("state = @", text(state.word()));
    }
    if let Some(cause) = filter.cause {
        add("cause = @", text(cause.word()));
    }
    if let Some(tag) = &filter.tag {
        add("id IN (SELECT run FROM tag WHERE tag = @)", text(tag));
    }
    if let Some(batch) = &filter.batch {
        add("batch = @", FilterParameter::Text(hex_id(batch.as_bytes())));
    }
    if let Some(part) = filter.text.as_deref().filter(|part| !part.is_empty()) {
        let mut pattern = "%".to_string();
        for c in to_index_text(part).to_lowercase().chars() {
            if matches!(c, '%' | '_' | '!') {
                pattern.push('!');
            }
            pattern.push(c);
        }
        pattern.push('%');
        add("search LIKE @ ESCAPE '!'", FilterParameter::Text(pattern));
    }
    if let Some(since) = filter.since {
        add("started >= @", time(since));
    }
    if let Some(until) = filter.until {
        add("started < @", time(until));
    }
    if !filter.warmup {
        add("warmup = @", FilterParameter::Int(0));
    }
    let sql = if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) };
    (sql, values)
}
