//! A queue of whole messages between reading and parsing, bounded in bytes.
//!
//! The reader never waits for the queue. When it is full, messages are dropped and counted, so that
//! an application never waits for the parser.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metier_types::{LockUnpoisoned, StageSource};

use super::message_framer::MessageFrames;

/// Capacity in bytes.
pub const MAX_QUEUED_BYTES: usize = 16 << 20;
/// Memory overhead of a block in bytes.
const BLOCK_OVERHEAD_BYTES: usize = 160;

/// Messages of one sender from one read.
#[derive(Debug)]
pub struct MessageBlock<K> {
    pub sender: K,
    pub source: StageSource,
    /// Time of the read, in nanoseconds since 1970.
    pub read_ns: i64,
    pub frames: MessageFrames,
}

#[derive(Debug)]
struct QueueState<K> {
    blocks: VecDeque<MessageBlock<K>>,
    bytes: usize,
    dropped: Vec<(K, u64)>,
    closed: bool,
}

#[derive(Debug)]
pub struct MessageQueue<K> {
    inside: Mutex<QueueState<K>>,
    came: Condvar,
    limit: usize,
}

impl<K: Clone + PartialEq> MessageQueue<K> {
    /// An empty queue with a capacity of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let inside = QueueState { blocks: VecDeque::new(), bytes: 0, dropped: Vec::new(), closed: false };
        Self { inside: Mutex::new(inside), came: Condvar::new(), limit }
    }

    /// Adds a block, or counts its messages as dropped. Never blocks.
    pub fn push(&self, block: MessageBlock<K>) {
        let size = block.frames.memory_bytes() + BLOCK_OVERHEAD_BYTES;
        let mut inside = self.lock();
        if inside.bytes + size > self.limit {
            let count = block.frames.count();
            match inside.dropped.iter_mut().find(|(sender, _)| *sender == block.sender) {
                Some((_, dropped)) => *dropped += count,
                None => inside.dropped.push((block.sender, count)),
            }
            return;
        }
        inside.bytes += size;
        inside.blocks.push_back(block);
        drop(inside);
        self.came.notify_one();
    }

    /// The next block; waits at most `longest`. `Err` if the queue is closed and empty.
    pub fn pop(&self, longest: Duration) -> Result<Option<MessageBlock<K>>, QueueClosed> {
        let mut inside = self.lock();
        if inside.blocks.is_empty() && !inside.closed {
            inside = self.came.wait_timeout(inside, longest).unwrap_or_else(PoisonError::into_inner).0;
        }
        match inside.blocks.pop_front() {
            Some(block) => {
                inside.bytes =
                    inside.bytes.saturating_sub(block.frames.memory_bytes() + BLOCK_OVERHEAD_BYTES);
                Ok(Some(block))
            }
            None if inside.closed => Err(QueueClosed),
            None => Ok(None),
        }
    }

    /// Number of messages dropped since the last call, by sender.
    pub fn take_dropped(&self) -> Vec<(K, u64)> {
        std::mem::take(&mut self.lock().dropped)
    }

    /// Closes the queue for further blocks.
    pub fn close(&self) {
        self.lock().closed = true;
        self.came.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<K>> {
        self.inside.lock_unpoisoned()
    }
}

/// The queue is closed and empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueClosed;

#[cfg(test)]
mod tests {
    use super::super::message_framer::{FrameFormat, MessageFramer};
    use super::*;

    fn block(messages: usize) -> MessageBlock<u8> {
        let mut frames = MessageFrames::default();
        MessageFramer::new(FrameFormat::Lines).push("a 1\n".repeat(messages).as_bytes(), &mut frames);
        MessageBlock { sender: 1, source: StageSource::Lines, read_ns: 0, frames }
    }

    #[test]
    fn a_full_queue_drops_whole_messages_counts_them_and_takes_more_when_there_is_room() {
        let queue = MessageQueue::new(10_000);
        (0..100).for_each(|_| queue.push(block(100)));
        let mut taken = 0;
        while let Ok(Some(block)) = queue.pop(Duration::ZERO) {
            taken += block.frames.count();
        }
        let dropped: u64 = queue.take_dropped().iter().map(|(_, n)| n).sum();
        assert!(taken > 0 && dropped > 0, "{taken} {dropped}");
        assert_eq!(taken + dropped, 10_000);
        queue.push(block(1));
        queue.close();
        assert!(queue.pop(Duration::ZERO).unwrap().is_some());
        assert_eq!(queue.pop(Duration::ZERO).unwrap_err(), QueueClosed);
    }
}
