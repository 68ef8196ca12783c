//! Shares the work of one page among a few threads, which end with the page.

use std::sync::Mutex;

use metier_types::LockUnpoisoned;

/// Most threads for a page, the calling one included. A page is short; more threads would only wake
/// more cores.
const MAX_THREADS: usize = 3;
/// With fewer items, a thread costs more than it saves.
const MIN_ITEMS_PER_THREAD: usize = 24;
/// Items that a thread takes at once.
const CHUNK_SIZE: usize = 8;

/// Calls `work` for every item; each thread has a buffer of its own. If a thread cannot be started,
/// the others do its share.
pub fn for_each_parallel<T: Send>(pieces: Vec<T>, work: impl Fn(T, &mut Vec<u8>) + Sync) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(MAX_THREADS).min(1 + pieces.len() / MIN_ITEMS_PER_THREAD);
    let pieces = Mutex::new(pieces.into_iter());
    let run = || {
        let mut buffer = Vec::new();
        loop {
            let handful: Vec<T> = pieces.lock_unpoisoned().by_ref().take(CHUNK_SIZE).collect();
            if handful.is_empty() {
                return;
            }
            handful.into_iter().for_each(|piece| work(piece, &mut buffer));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            if std::thread::Builder::new().name("metier-page".into()).spawn_scoped(scope, run).is_err() {
                tracing::debug!("a page is made without a further thread");
            }
        }
        run();
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_piece_is_done_once_however_many_there_are() {
        for count in [0, 1, MIN_ITEMS_PER_THREAD - 1, MIN_ITEMS_PER_THREAD, CHUNK_SIZE * 10 + 3, 1000] {
            let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            for_each_parallel((0..count).collect(), |piece, buffer| {
                buffer.push(0);
                done[piece].fetch_add(1, Ordering::Relaxed);
            });
            assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{count}");
        }
    }
}
