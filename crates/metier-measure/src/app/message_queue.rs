//! What stands between reading and understanding: a queue of whole messages, bounded in bytes.
//!
//! Reading never waits for it. When it is full the messages are dropped and counted, so that an application never waits
//! for us to understand what it says.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metier_types::{LockUnpoisoned, StageSource};

use super::message_framer::MessageFrames;

/// Bytes that may wait.
pub const MAX_QUEUED_BYTES: usize = 16 << 20;
/// What a block costs beside its bytes.
const BLOCK_OVERHEAD_BYTES: usize = 160;

/// Messages of one speaker that were read together.
#[derive(Debug)]
pub struct MessageBlock<K> {
    pub who: K,
    pub source: StageSource,
    /// When it was read, in nanoseconds since 1970.
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
    /// An empty one that holds so many bytes.
    pub fn new(limit: usize) -> Self {
        let inside = QueueState { blocks: VecDeque::new(), bytes: 0, dropped: Vec::new(), closed: false };
        Self { inside: Mutex::new(inside), came: Condvar::new(), limit }
    }

    /// Adds a block, or counts its messages as dropped. Never waits for room.
    pub fn push(&self, block: MessageBlock<K>) {
        let size = block.frames.memory_bytes() + BLOCK_OVERHEAD_BYTES;
        let mut inside = self.lock();
        if inside.bytes + size > self.limit {
            let count = block.frames.count();
            match inside.dropped.iter_mut().find(|(who, _)| *who == block.who) {
                Some((_, dropped)) => *dropped += count,
                None => inside.dropped.push((block.who, count)),
            }
            return;
        }
        inside.bytes += size;
        inside.blocks.push_back(block);
        drop(inside);
        self.came.notify_one();
    }

    /// The next block; waits for one at most so long. `Err` when the queue is closed and empty.
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

    /// How many messages were dropped since the last call, by speaker.
    pub fn take_dropped(&self) -> Vec<(K, u64)> {
        std::mem::take(&mut self.lock().dropped)
    }

    /// Nothing more will come.
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
        MessageBlock { who: 1, source: StageSource::Lines, read_ns: 0, frames }
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
