//! Places of connections: how many may wait for a head, send a body, be worked on, or read their
//! answer.
//!
//! A newcomer is never refused because others are slow. When a phase is full, it displaces the
//! connection that made no progress for the longest time, first among the addresses that hold the
//! most. Connections whose request is worked on are never displaced: their effects may have begun.
//! Work is bounded by refusal instead, for all and for each address, and health needs no place.
//!
//! All listeners of a process share one table, so that none can take the file descriptors of
//! another.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use metier_types::LockUnpoisoned;
use tokio::sync::Notify;

use super::config::HttpLimits;

/// An address with at most this many connections in a phase is not preferred for displacement.
const FAIR_SHARE: usize = 8;
/// A connection is not displaced before this time, nor before its bytes were looked for in vain: a
/// client that has sent its request keeps its place, however late that is read.
const DISPLACEMENT_GRACE: Duration = Duration::from_millis(20);
/// This part of a full phase is displaced at once, so that a burst does not pay a search for each.
const DISPLACED_PART: usize = 8;
/// Memory of answers that wait for their clients, together.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// Of four parts of the places for work, this many may belong to one address.
const ADDRESS_QUARTERS: usize = 3;

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionPhase {
    /// The rest of a request's head, or a next request.
    Head,
    /// The rest of a request's body.
    Body,
    /// The handler.
    Work,
    /// The client, to read its answer.
    Answer,
}

/// The places of all connections of a process.
#[derive(Debug)]
pub struct ConnectionPlaces {
    /// Places of each phase.
    most: [usize; 4],
    table: Mutex<PlaceTable>,
    freed: Notify,
    epoch: Instant,
}

#[derive(Debug, Default)]
struct PlaceTable {
    next: u64,
    counts: [usize; 4],
    /// Memory of answers that wait for their clients.
    answer_bytes: usize,
    records: HashMap<u64, ConnectionRecord>,
}

#[derive(Debug)]
struct ConnectionRecord {
    network: IpAddr,
    phase: ConnectionPhase,
    since: Instant,
    /// Memory of its answer, while that waits for the client.
    answer_bytes: usize,
    is_cut: bool,
    shared: Arc<ConnectionState>,
}

/// What a connection and the table share without a lock.
#[derive(Debug)]
struct ConnectionState {
    phase: AtomicU8,
    /// Milliseconds from the table's epoch to the latest byte.
    progress: AtomicU64,
    /// Whether its latest bytes were read, and no more were there.
    is_drained: AtomicBool,
    cut: Notify,
}

/// The place of one connection, freed when dropped.
#[derive(Debug)]
pub struct ConnectionSeat {
    id: u64,
    places: Arc<ConnectionPlaces>,
    shared: Arc<ConnectionState>,
}

/// All places for work are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkRefused;

impl PlaceTable {
    /// The connections to displace first from a phase, at most so many.
    fn find_victims(&self, phase: ConnectionPhase, most: usize, now: Instant) -> Vec<u64> {
        let in_phase = || self.records.iter().filter(|(_, record)| record.phase == phase && !record.is_cut);
        let mut held: HashMap<IpAddr, usize> = HashMap::new();
        in_phase().for_each(|(_, record)| *held.entry(record.network).or_default() += 1);
        let mut victims: Vec<_> = in_phase()
            .filter(|(_, record)| {
                now.saturating_duration_since(record.since) >= DISPLACEMENT_GRACE
                    && (phase == ConnectionPhase::Answer || record.shared.is_drained.load(Ordering::Relaxed))
            })
            .map(|(id, record)| {
                let held = held.get(&record.network).copied().unwrap_or_default();
                let above = held.saturating_sub(FAIR_SHARE);
                let progress = record.shared.progress.load(Ordering::Relaxed);
                (std::cmp::Reverse(above), progress, record.since, *id)
            })
            .collect();
        victims.sort_unstable();
        victims.into_iter().take(most).map(|(.., id)| id).collect()
    }

    fn cut(&mut self, id: u64) {
        if let Some(record) = self.records.get_mut(&id)
            && !std::mem::replace(&mut record.is_cut, true)
        {
            self.counts[record.phase as usize] -= 1;
            self.answer_bytes -= record.answer_bytes;
            record.shared.cut.notify_one();
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(record) = self.records.remove(&id)
            && !record.is_cut
        {
            self.counts[record.phase as usize] -= 1;
            self.answer_bytes -= record.answer_bytes;
        }
    }

    fn count_work(&self, network: IpAddr) -> usize {
        let is_own =
            |record: &&ConnectionRecord| record.phase == ConnectionPhase::Work && record.network == network;
        self.records.values().filter(is_own).count()
    }
}

impl ConnectionPlaces {
    /// So many connections at once, divided among the phases.
    pub fn new(connections: usize) -> Self {
        let part = |divisor: usize| (connections / divisor).max(1);
        Self {
            most: [part(2), part(8), part(4), part(8)],
            table: Mutex::default(),
            freed: Notify::new(),
            epoch: Instant::now(),
        }
    }

    fn lock_table(&self) -> MutexGuard<'_, PlaceTable> {
        self.table.lock_unpoisoned()
    }

    fn milliseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }

    /// The place of a new connection. It waits only while all others are too young to be displaced.
    pub async fn admit(self: &Arc<Self>, peer: IpAddr) -> ConnectionSeat {
        loop {
            let freed = self.freed.notified();
            if let Some(seat) = self.try_admit(peer) {
                return seat;
            }
            let _ = tokio::time::timeout(DISPLACEMENT_GRACE / 10, freed).await;
        }
    }

    fn try_admit(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSeat> {
        let now = Instant::now();
        let mut table = self.lock_table();
        if !self.make_room(&mut table, ConnectionPhase::Head, 0, now) {
            return None;
        }
        let shared = Arc::new(ConnectionState {
            phase: AtomicU8::new(ConnectionPhase::Head as u8),
            progress: AtomicU64::new(self.milliseconds(now)),
            is_drained: AtomicBool::new(false),
            cut: Notify::new(),
        });
        table.next += 1;
        let id = table.next;
        let record = ConnectionRecord {
            network: client_network(peer),
            phase: ConnectionPhase::Head,
            since: now,
            answer_bytes: 0,
            is_cut: false,
            shared: shared.clone(),
        };
        table.records.insert(id, record);
        table.counts[ConnectionPhase::Head as usize] += 1;
        Some(ConnectionSeat { id, places: self.clone(), shared })
    }

    /// Whether a phase has a free place, after displacing where that is possible.
    fn make_room(
        &self,
        table: &mut PlaceTable,
        phase: ConnectionPhase,
        answer_bytes: usize,
        now: Instant,
    ) -> bool {
        while table.counts[phase as usize] >= self.most[phase as usize]
            || (table.answer_bytes > 0 && table.answer_bytes + answer_bytes > MAX_ANSWER_BYTES)
        {
            let part = (self.most[phase as usize] / DISPLACED_PART).max(1);
            let victims = table.find_victims(phase, part, now);
            if victims.is_empty() {
                return false;
            }
            victims.into_iter().for_each(|id| table.cut(id));
        }
        true
    }

    /// Cuts connections whose client does not read its answer in time.
    pub fn cut_overdue(&self, limits: &HttpLimits) {
        let now = Instant::now();
        let (at, write_time) = (self.milliseconds(now), limits.write_time.as_millis());
        let mut table = self.lock_table();
        let is_overdue = |record: &ConnectionRecord| {
            let still = at.saturating_sub(record.shared.progress.load(Ordering::Relaxed));
            u128::from(still) >= write_time
                || now.saturating_duration_since(record.since) >= limits.answer_time
        };
        let overdue: Vec<u64> = table
            .records
            .iter()
            .filter(|(_, record)| record.phase == ConnectionPhase::Answer && is_overdue(record))
            .map(|(id, _)| *id)
            .collect();
        overdue.into_iter().for_each(|id| table.cut(id));
    }
}

impl ConnectionSeat {
    /// The body has to be waited for.
    pub fn enter_body(&self) {
        self.enter_phase(ConnectionPhase::Body, 0);
    }

    /// The body is there. The place for work was taken before the body was waited for.
    pub fn leave_body(&self) {
        self.record_phase(&mut self.places.lock_table(), ConnectionPhase::Work, 0, Instant::now());
    }

    /// An answer of so many bytes is to be sent.
    pub fn enter_answer(&self, bytes: usize) {
        self.enter_phase(ConnectionPhase::Answer, bytes);
    }

    fn enter_phase(&self, phase: ConnectionPhase, answer_bytes: usize) {
        let now = Instant::now();
        let mut table = self.places.lock_table();
        // Without anyone to displace the phase is exceeded for the time of the grace.
        let _ = self.places.make_room(&mut table, phase, answer_bytes, now);
        self.record_phase(&mut table, phase, answer_bytes, now);
    }

    /// Takes a place for work.
    pub fn start_work(&self) -> Result<(), WorkRefused> {
        let most = self.places.most[ConnectionPhase::Work as usize];
        let mut table = self.places.lock_table();
        let network = table.records.get(&self.id).map(|record| record.network);
        let is_full = table.counts[ConnectionPhase::Work as usize] >= most
            || network
                .is_some_and(|network| table.count_work(network) >= (most * ADDRESS_QUARTERS).div_ceil(4));
        self.record_phase(&mut table, ConnectionPhase::Work, 0, Instant::now());
        if is_full { Err(WorkRefused) } else { Ok(()) }
    }

    fn record_phase(
        &self,
        table: &mut PlaceTable,
        phase: ConnectionPhase,
        answer_bytes: usize,
        now: Instant,
    ) {
        let Some(record) = table.records.get_mut(&self.id).filter(|record| !record.is_cut) else { return };
        let before = std::mem::replace(&mut record.phase, phase);
        let bytes_before = std::mem::replace(&mut record.answer_bytes, answer_bytes);
        record.since = now;
        self.shared.phase.store(phase as u8, Ordering::Relaxed);
        self.note_progress_at(now);
        table.counts[before as usize] -= 1;
        table.counts[phase as usize] += 1;
        table.answer_bytes = table.answer_bytes - bytes_before + answer_bytes;
        if before == ConnectionPhase::Head {
            self.places.freed.notify_one();
        }
    }

    /// Bytes came or went.
    pub fn note_progress(&self) {
        self.note_progress_at(Instant::now());
    }

    fn note_progress_at(&self, now: Instant) {
        self.shared.progress.store(self.places.milliseconds(now), Ordering::Relaxed);
    }

    /// Bytes were looked for: some were there, or none.
    pub fn note_read(&self, is_drained: bool) {
        self.shared.is_drained.store(is_drained, Ordering::Relaxed);
    }

    /// The answer was handed to the kernel whole.
    pub fn note_flushed(&self) {
        if self.shared.phase.load(Ordering::Relaxed) == ConnectionPhase::Answer as u8 {
            self.enter_phase(ConnectionPhase::Head, 0);
        }
    }

    /// Done when this connection has to make room.
    pub async fn displaced(&self) {
        self.shared.cut.notified().await;
    }
}

impl Drop for ConnectionSeat {
    fn drop(&mut self) {
        self.places.lock_table().remove(self.id);
        self.places.freed.notify_one();
    }
}

/// What counts as one address: with version 6 one client usually has all of a /64.
fn client_network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(connections: usize) -> Arc<ConnectionPlaces> {
        Arc::new(ConnectionPlaces::new(connections))
    }

    fn seat(places: &Arc<ConnectionPlaces>, peer: &str) -> ConnectionSeat {
        places.try_admit(peer.parse().unwrap()).expect("a place")
    }

    /// Makes all connections old enough to be displaced, in the order of their arrival.
    fn age(places: &ConnectionPlaces) {
        for record in places.lock_table().records.values_mut() {
            record.since -= DISPLACEMENT_GRACE;
            record.shared.is_drained.store(true, Ordering::Relaxed);
        }
    }

    fn is_cut(places: &ConnectionPlaces, seat: &ConnectionSeat) -> bool {
        places.lock_table().records[&seat.id].is_cut
    }

    #[test]
    fn a_newcomer_displaces_the_oldest_of_the_address_that_holds_most() {
        let places = places(40);
        let quiet = seat(&places, "127.0.0.2");
        let crowd: Vec<_> = (0..19).map(|_| seat(&places, "127.0.0.3")).collect();
        assert!(places.try_admit("127.0.0.4".parse().unwrap()).is_none(), "all are too young");
        age(&places);
        crowd[0].note_read(false);
        let newcomer = seat(&places, "127.0.0.4");
        let cut: Vec<usize> = (0..19).filter(|at| is_cut(&places, &crowd[*at])).collect();
        assert_eq!(cut, [1, 2], "an eighth of 20, without the one whose bytes are not read yet");
        assert!(!is_cut(&places, &quiet) && !is_cut(&places, &newcomer));
    }

    #[test]
    fn what_is_worked_on_is_never_displaced() {
        let places = places(8);
        let working = seat(&places, "127.0.0.1");
        working.start_work().unwrap();
        let waiting: Vec<_> = (0..4).map(|_| seat(&places, "127.0.0.1")).collect();
        age(&places);
        let _newcomer = seat(&places, "127.0.0.1");
        assert!(!is_cut(&places, &working));
        assert_eq!(waiting.iter().filter(|seat| is_cut(&places, seat)).count(), 1);
    }

    #[test]
    fn one_address_cannot_take_all_places_for_work() {
        let places = places(32);
        let at = |peer: &str| {
            let seat = seat(&places, peer);
            seat.start_work().map(|()| seat)
        };
        let one: Vec<_> = (0..6).map(|_| at("127.0.0.1").unwrap()).collect();
        assert_eq!(at("127.0.0.1").unwrap_err(), WorkRefused);
        let two: Vec<_> = (0..2).map(|_| at("127.0.0.2").unwrap()).collect();
        assert_eq!(at("127.0.0.3").unwrap_err(), WorkRefused, "all places are taken");
        drop((one, two));
        at("127.0.0.3").unwrap();
    }

    #[test]
    fn every_place_is_given_back() {
        let places = places(16);
        let seats: Vec<_> = (0..8).map(|_| seat(&places, "::1")).collect();
        for (number, seat) in seats.iter().enumerate() {
            let phases = [ConnectionPhase::Body, ConnectionPhase::Work, ConnectionPhase::Answer];
            phases.into_iter().take(number % 4).for_each(|phase| seat.enter_phase(phase, number));
        }
        age(&places);
        let more: Vec<_> = (0..8).map(|_| seat(&places, "::2")).collect();
        drop((seats, more));
        let table = places.lock_table();
        assert_eq!((table.counts, table.answer_bytes, table.records.len()), ([0; 4], 0, 0));
    }

    #[test]
    fn unread_answers_share_a_bound_of_memory() {
        let places = places(160);
        let seats: Vec<_> = (0..4).map(|_| seat(&places, "127.0.0.1")).collect();
        seats[..3].iter().for_each(|seat| seat.enter_answer(MAX_ANSWER_BYTES / 3));
        age(&places);
        seats[3].enter_answer(MAX_ANSWER_BYTES / 2);
        let cut: Vec<bool> = seats.iter().map(|seat| is_cut(&places, seat)).collect();
        assert!(cut[0] && !cut[3], "{cut:?}");
        assert!(places.lock_table().answer_bytes <= MAX_ANSWER_BYTES);
    }

    #[test]
    fn an_address_is_a_network_of_version_6() {
        let network = |text: &str| client_network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::2:3"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }
}
