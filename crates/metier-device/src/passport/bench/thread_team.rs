//! Threads that start together, and their combined rate of work.

use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Thread counts 1, 2, 4 … and all.
pub fn thread_counts(all: u32) -> Vec<u32> {
    let all = all.max(1);
    let mut sizes: Vec<u32> = std::iter::successors(Some(1_u32), |size| size.checked_mul(2))
        .take_while(|size| *size < all)
        .collect();
    sizes.push(all);
    sizes
}

/// Runs `size` threads that each prepare and then repeat `work` for `slice`, starting together,
/// `repetitions` times. `work` does one piece and returns its amount. Returns the combined rate of
/// each repetition.
pub fn measure_rates<T>(
    size: u32,
    repetitions: u32,
    slice: Duration,
    prepare: impl Fn() -> T + Sync,
    work: impl Fn(&mut T) -> u64 + Sync,
) -> Vec<f64> {
    let barrier = Barrier::new(size as usize);
    let member = || {
        let mut own = prepare();
        work(&mut own);
        let one = |_| {
            barrier.wait();
            let (start, mut amount) = (Instant::now(), 0);
            loop {
                amount += work(&mut own);
                let elapsed = start.elapsed();
                if elapsed >= slice {
                    return amount as f64 / elapsed.as_secs_f64();
                }
            }
        };
        (0..repetitions).map(one).collect::<Vec<f64>>()
    };
    let each: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..size).map(|_| scope.spawn(member)).collect();
        let own = member();
        let others = threads.into_iter().filter_map(|thread| thread.join().ok());
        others.chain([own]).collect()
    });
    (0..repetitions as usize).map(|i| each.iter().filter_map(|rates| rates.get(i)).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double_and_end_with_all() {
        assert_eq!(thread_counts(0), [1]);
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(thread_counts(8), [1, 2, 4, 8]);
    }

    #[test]
    fn every_member_works_in_every_repetition() {
        let worked = std::sync::atomic::AtomicU64::new(0);
        let work = |own: &mut u64| {
            *own += 1;
            worked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            1
        };
        let rates = measure_rates(3, 4, Duration::ZERO, || 0, work);
        assert_eq!(rates.len(), 4);
        assert!(rates.iter().all(|rate| *rate > 0.0));
        assert_eq!(worked.into_inner(), 3 * (4 + 1), "once to warm up, once in each");
    }
}
