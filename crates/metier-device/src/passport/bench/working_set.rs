//! Sizes of working sets that fit into one cache level, or into none.

use metier_types::{Bytes, CpuCache};

/// Default sets for unknown caches, suitable for small and large processors.
const DEFAULT_WORKING_SETS: [u64; 3] = [16 << 10, 128 << 10, 1 << 20];

/// Smallest working set for main memory.
const MIN_MEMORY_SET_BYTES: u64 = 64 << 20;

/// Working sets of one thread for each cache level, smallest first. A set has half the size of its
/// level, to leave space for other data. `threads` share the last level.
pub fn cache_level_sets(caches: &[CpuCache], threads: u32) -> Vec<Bytes> {
    let mut data: Vec<(u32, u64)> = caches
        .iter()
        .filter(|cache| !cache.kind.eq_ignore_ascii_case("instruction"))
        .map(|cache| (cache.level, cache.size_bytes.get()))
        .collect();
    data.sort_unstable();
    let last = data.last().map_or(0, |(level, _)| *level);
    let mut sets: Vec<u64> = Vec::new();
    for (level, size) in data {
        let shared = if level == last && level > 1 { u64::from(threads.max(1)) } else { 1 };
        let set = (size / 2 / shared) & !0xfff;
        if sets.last().is_none_or(|smaller| set > 2 * smaller) && set > 0 {
            sets.push(set);
        }
    }
    let sets = if sets.is_empty() { DEFAULT_WORKING_SETS.to_vec() } else { sets };
    sets.into_iter().map(Bytes).collect()
}

/// Working set of all threads together for main memory: twice the largest cache, so that caches
/// hold little of it. `None` if that exceeds a third of the free memory.
pub fn memory_set(caches: &[CpuCache], free: Option<Bytes>) -> Option<Bytes> {
    let largest = caches.iter().map(|cache| cache.size_bytes.get()).max().unwrap_or(0);
    let number = (2 * largest).max(MIN_MEMORY_SET_BYTES);
    (free.is_none_or(|free| number <= free.get() / 3)).then_some(Bytes(number))
}

#[cfg(test)]
mod tests {
    use metier_types::ExtraFields;

    use super::*;

    fn cache(level: u32, kind: &str, kib: u64) -> CpuCache {
        CpuCache { level, kind: kind.into(), size_bytes: Bytes(kib << 10), extra: ExtraFields::new() }
    }

    #[test]
    fn each_level_gets_half_of_itself_and_the_last_is_shared() {
        let caches = [
            cache(1, "Data", 48),
            cache(1, "Instruction", 32),
            cache(2, "Unified", 2048),
            cache(3, "Unified", 32768),
        ];
        assert_eq!(cache_level_sets(&caches, 1), [Bytes(24 << 10), Bytes(1 << 20), Bytes(16 << 20)]);
        assert_eq!(cache_level_sets(&caches, 4), [Bytes(24 << 10), Bytes(1 << 20), Bytes(4 << 20)]);
        assert_eq!(
            cache_level_sets(&caches, 16),
            [Bytes(24 << 10), Bytes(1 << 20)],
            "a share below the level before is no level"
        );
    }

    #[test]
    fn sets_grow_and_are_never_empty() {
        assert_eq!(cache_level_sets(&[], 4).len(), 3);
        for threads in [1, 3, 64, 500] {
            let sets = cache_level_sets(
                &[cache(3, "Unified", 1024), cache(1, "Data", 32), cache(2, "Unified", 8)],
                threads,
            );
            assert!(!sets.is_empty() && sets.is_sorted(), "{sets:?}");
        }
    }

    #[test]
    fn memory_is_beyond_all_caches_or_not_measured() {
        let caches = [cache(3, "Unified", 260 << 10)];
        assert_eq!(memory_set(&caches, None), Some(Bytes(520 << 20)));
        assert_eq!(memory_set(&caches, Some(Bytes(1 << 30))), None);
        assert_eq!(memory_set(&[], Some(Bytes(1 << 30))), Some(Bytes(64 << 20)));
    }
}
