//! Rate limit for starting runs: a burst, then a steady rate.

use std::sync::Mutex;
use std::time::Instant;

use metier_types::LockUnpoisoned;

/// A token bucket.
#[derive(Debug)]
pub struct RateLimiter {
    burst: f64,
    per_second: f64,
    left: Mutex<(f64, Option<Instant>)>,
}

impl RateLimiter {
    /// Allows this burst, then this many per second.
    pub fn new(burst: f64, per_second: f64) -> Self {
        Self { burst, per_second, left: Mutex::new((burst, None)) }
    }

    /// Takes a token, if one is left.
    pub fn try_acquire(&self, now: Instant) -> bool {
        let mut left = self.left.lock_unpoisoned();
        let since = left.1.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        *left = ((left.0 + since * self.per_second).min(self.burst), Some(now));
        let is_allowed = left.0 >= 1.0;
        if is_allowed {
            left.0 -= 1.0;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_so_many_a_second() {
        let rate = RateLimiter::new(3.0, 2.0);
        let start = Instant::now();
        let allowed = |at: Duration, times: u32| (0..times).filter(|_| rate.try_acquire(start + at)).count();
        assert_eq!(allowed(Duration::ZERO, 10), 3);
        assert_eq!(allowed(Duration::from_millis(400), 10), 0);
        assert_eq!(allowed(Duration::from_millis(1000), 10), 2);
        assert_eq!(allowed(Duration::from_secs(600), 10), 3, "no more than the burst");
    }
}
