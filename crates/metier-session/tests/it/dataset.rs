//! Datasets from a server of our own that cuts connections, changes its mind and lies; and from a
//! real S3-compatible store.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use metier_session::dataset::{
    self, DatasetCacheFolder, DatasetError, DatasetProgress, FetchWatch, ObtainedDataset, SilentProgress,
};
use metier_session::runfile::{CheckedDataset, DatasetSource};
use metier_store::digest;
use metier_types::{Bytes, ContentDigest, PageCacheState};

/// What the server has, and how it behaves.
#[derive(Default)]
struct State {
    content: Vec<u8>,
    etag: Option<String>,
    /// Bytes of each body after which connections are cut, one after the other; then none is.
    cuts: Vec<usize>,
    /// Answers with this instead.
    status: Option<u16>,
    no_range: bool,
    redirect: Option<String>,
    /// First lines and Range headers that were seen.
    seen: Vec<(String, Option<String>)>,
}

struct Server {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Server {
    fn start(content: &[u8], etag: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State { content: content.to_vec(), etag: etag.map(Into::into), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = shared.clone();
                std::thread::spawn(move || answer(stream, &shared));
            }
        });
        Self { port, state }
    }

    fn address(&self, path: &str) -> String {
        format!("http://user:hunter2@127.0.0.1:{}/{path}?token=hunter3", self.port)
    }

    fn ranges(&self) -> Vec<Option<String>> {
        self.state.lock().unwrap().seen.iter().map(|(_, range)| range.clone()).collect()
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }
}

fn answer(mut stream: TcpStream, shared: &Mutex<State>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let headers: Vec<(String, String)> = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_string()))
        })
        .collect();
    let header = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let mut state = shared.lock().unwrap();
    state.seen.push((first, header("range")));
    let etag = state.etag.clone();
    let tag = etag.as_ref().map(|etag| format!("ETag: {etag}\r\n")).unwrap_or_default();
    let mut say = |head: String, body: &[u8]| {
        let _ = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body))
            .and_then(|()| stream.flush());
    };
    if let Some(to) = &state.redirect {
        return say(
            format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
            b"",
        );
    }
    if let Some(status) = state.status {
        return say(format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), b"");
    }
    if etag.is_some() && header("if-none-match") == etag {
        return say(format!("HTTP/1.1 304 Not Modified\r\n{tag}Connection: close\r\n\r\n"), b"");
    }
    let whole = state.content.len();
    let from = header("range")
        .filter(|_| !state.no_range && header("if-range").is_none_or(|known| Some(known) == etag))
        .and_then(|range| range.strip_prefix("bytes=")?.trim_end_matches('-').parse::<usize>().ok());
    let body = state.content[from.unwrap_or(0).min(whole)..].to_vec();
    let cut = if state.cuts.is_empty() { None } else { Some(state.cuts.remove(0)) };
    drop(state);
    let head = match from {
        Some(from) if from >= whole => {
            return say(
                format!(
                    "HTTP/1.1 416 No\r\nContent-Range: bytes */{whole}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                ),
                b"",
            );
        }
        Some(from) => format!("HTTP/1.1 206 Part\r\nContent-Range: bytes {from}-{}/{whole}\r\n", whole - 1),
        None => "HTTP/1.1 200 OK\r\n".to_string(),
    };
    let head = format!("{head}{tag}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    say(head, &body[..cut.unwrap_or(body.len()).min(body.len())]);
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 17) as u8).collect()
}

fn wanted(source: &str, digest: Option<ContentDigest>) -> CheckedDataset {
    let source = DatasetSource::read(source, None, None).unwrap();
    CheckedDataset { source, digest, target: "/dataset".into(), page_cache: PageCacheState::Untouched }
}

fn get(folder: &Path, wanted: &CheckedDataset) -> Result<ObtainedDataset, DatasetError> {
    let watch = FetchWatch::new(&wanted.source, &SilentProgress, &|| false);
    dataset::obtain(wanted, &|| DatasetCacheFolder::open(&folder.join("cache")), &watch)
}

#[test]
fn what_was_fetched_is_verified_kept_by_digest_and_not_fetched_again() {
    let content = bytes(300_000);
    let server = Server::start(&content, Some("\"one\""));
    let folder = tempfile::tempdir().unwrap();
    let wanted = wanted(&server.address("images.tar"), Some(digest::digest_bytes(&content)));
    let first = get(folder.path(), &wanted).unwrap();
    assert_eq!(std::fs::read(&first.path).unwrap(), content);
    assert!(first.path.ends_with("images.tar") && !first.was_cached && first.fetched_in.is_some());
    assert_eq!((first.size.0, first.digest), (300_000, digest::digest_bytes(&content)));
    assert!(!format!("{first:?}").contains("hunter"), "{first:?}");
    let second = get(folder.path(), &wanted).unwrap();
    assert!(second.was_cached && second.path == first.path);
    assert_eq!(server.ranges().len(), 1, "one request");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder.path().join("cache")), mode(&first.path)), (0o700, 0o400));
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path().join("cache")).unwrap().map(|e| e.unwrap().path()).collect();
    names.retain(|name| name.extension().is_some_and(|ending| ending == "json"));
    for name in names {
        assert!(!std::fs::read_to_string(&name).unwrap().contains("hunter"), "{}", name.display());
    }
}

#[test]
fn a_limit_removes_what_was_not_used_for_longest_and_never_what_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DatasetCacheFolder::open(&folder.path().join("cache")).unwrap();
    let contents: Vec<Vec<u8>> = (1..=4).map(|n| bytes(100_000 + n)).collect();
    let asked: Vec<CheckedDataset> = contents
        .iter()
        .map(|content| {
            // The server's thread lives as long as the test.
            let server = Server::start(content, None);
            wanted(&server.address("set"), Some(digest::digest_bytes(content)))
        })
        .collect();
    let fetched: Vec<ObtainedDataset> =
        asked.iter().map(|wanted| get(folder.path(), wanted).unwrap()).collect();
    let paths: Vec<_> = fetched.iter().map(|one| one.path.clone()).collect();
    let there = || paths.iter().map(|path| path.exists()).collect::<Vec<_>>();
    assert_eq!(cache.trim(Bytes(1)).datasets, 0, "all of them are held");
    assert_eq!(cache.trim(Bytes(1)).beyond, Bytes(400_009));

    // The first is held on; of the others the second was used last.
    let mut fetched = fetched.into_iter();
    let held = fetched.next().unwrap();
    drop(fetched);
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for (at, path) in paths.iter().enumerate() {
        let json = path.parent().unwrap().with_extension("json");
        let used = long_ago + std::time::Duration::from_secs([0, 9, 5, 7][at]);
        std::fs::File::options().write(true).open(json).unwrap().set_modified(used).unwrap();
    }
    let removed = cache.trim(Bytes(250_000));
    assert_eq!((removed.datasets, removed.bytes), (2, Bytes(200_007)), "{removed}");
    assert_eq!(there(), [true, true, false, false]);
    assert_eq!(cache.trim(Bytes(250_000)).datasets, 0, "the rest is within the limit");

    // Being used makes it young; what was removed is fetched again.
    drop(held);
    assert!(get(folder.path(), &asked[0]).unwrap().was_cached);
    assert!(!get(folder.path(), &asked[2]).unwrap().was_cached);
    assert_eq!(cache.trim(Bytes(250_000)).datasets, 1);
    assert_eq!(there(), [true, false, true, false]);
    assert_eq!(cache.trim(Bytes(0)).beyond, Bytes(0));
    assert_eq!(there(), [false; 4]);
}

#[test]
fn a_fetch_that_was_broken_off_counts_and_one_under_way_stays() {
    let content = bytes(50_000);
    let server = Server::start(&content, None);
    let folder = tempfile::tempdir().unwrap();
    let cache = DatasetCacheFolder::open(&folder.path().join("cache")).unwrap();
    get(folder.path(), &wanted(&server.address("set"), Some(digest::digest_bytes(&content)))).unwrap();
    let part = folder.path().join("cache").join(format!("part-{}", "a".repeat(64)));
    std::fs::create_dir(&part).unwrap();
    std::fs::write(part.join("data"), bytes(70_000)).unwrap();
    let lock = std::fs::File::create(part.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(cache.trim(Bytes(0)).beyond, Bytes(70_000));
    assert!(part.exists(), "a fetch is in progress");
    drop(lock);
    assert_eq!(cache.trim(Bytes(0)).beyond, Bytes(0));
    assert!(!part.exists());
}

#[test]
fn a_cut_connection_goes_on_where_it_stopped() {
    let content = bytes(500_000);
    let server = Server::start(&content, Some("\"one\""));
    server.set(|state| state.cuts = vec![100_000, 150_000, 0, 50_000]);
    let folder = tempfile::tempdir().unwrap();
    let got = get(folder.path(), &wanted(&server.address("x"), None)).unwrap();
    assert_eq!(std::fs::read(got.path).unwrap(), content);
    let ranges: Vec<_> = server.ranges().into_iter().map(Option::unwrap_or_default).collect();
    assert_eq!(ranges, ["", "bytes=100000-", "bytes=250000-", "bytes=250000-", "bytes=300000-"]);
}

#[test]
fn a_broken_off_fetch_goes_on_in_a_later_process_and_starts_anew_where_the_file_changed() {
    let content = bytes(400_000);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&content, Some("\"one\""));
    let wanted = wanted(&server.address("x"), None);
    server.set(|state| state.cuts = vec![200_000, 0, 0, 0, 0, 0]);
    let error = get(folder.path(), &wanted).unwrap_err().to_string();
    assert!(
        error.contains("tried 5 times") && error.contains("127.0.0.1") && !error.contains("hunter"),
        "{error}"
    );
    server.set(|state| state.cuts.clear());
    let got = get(folder.path(), &wanted).unwrap();
    assert_eq!(std::fs::read(got.path).unwrap(), content);
    assert_eq!(server.ranges().last().unwrap().as_deref(), Some("bytes=200000-"));

    // Broken off again, and then the server has something else: nothing of the old may be in it.
    let other = tempfile::tempdir().unwrap();
    server.set(|state| state.cuts = vec![200_000, 0, 0, 0, 0, 0]);
    get(other.path(), &wanted).unwrap_err();
    let newer: Vec<u8> = content.iter().map(|byte| !byte).collect();
    server.set(|state| {
        state.cuts.clear();
        (state.content, state.etag) = (newer.clone(), Some("\"two\"".into()));
    });
    assert_eq!(std::fs::read(get(other.path(), &wanted).unwrap().path).unwrap(), newer);
}

#[test]
fn without_a_tag_and_without_a_digest_a_part_is_never_continued() {
    let content = bytes(100_000);
    let server = Server::start(&content, None);
    server.set(|state| state.cuts = vec![40_000]);
    let folder = tempfile::tempdir().unwrap();
    let got = get(folder.path(), &wanted(&server.address("x"), None)).unwrap();
    assert_eq!(std::fs::read(got.path).unwrap(), content);
    assert_eq!(server.ranges(), [None, None]);
    // The digest of the whole is proof enough.
    let server = Server::start(&content, None);
    server.set(|state| state.cuts = vec![40_000]);
    let folder = tempfile::tempdir().unwrap();
    let got =
        get(folder.path(), &wanted(&server.address("x"), Some(digest::digest_bytes(&content)))).unwrap();
    assert_eq!(std::fs::read(got.path).unwrap(), content);
    assert_eq!(server.ranges(), [None, Some("bytes=40000-".to_string())]);
    // A server that knows no ranges sends all of it again.
    let server = Server::start(&content, Some("\"x\""));
    server.set(|state| (state.cuts, state.no_range) = (vec![40_000], true));
    let folder = tempfile::tempdir().unwrap();
    let got = get(folder.path(), &wanted(&server.address("x"), None)).unwrap();
    assert_eq!(std::fs::read(got.path).unwrap(), content);
}

#[test]
fn a_source_without_a_digest_is_asked_whether_it_is_still_the_same() {
    let server = Server::start(b"first", Some("\"1\""));
    let folder = tempfile::tempdir().unwrap();
    let wanted = wanted(&server.address("x"), None);
    assert!(!get(folder.path(), &wanted).unwrap().was_cached);
    let same = get(folder.path(), &wanted).unwrap();
    assert!(same.was_cached && server.ranges().len() == 2);
    server.set(|state| (state.content, state.etag) = (b"second".to_vec(), Some("\"2\"".into())));
    let changed = get(folder.path(), &wanted).unwrap();
    assert!(!changed.was_cached && changed.digest != same.digest);
    assert_eq!(std::fs::read(changed.path).unwrap(), b"second");
}

#[test]
fn a_wrong_digest_is_refused_and_nothing_of_it_stays() {
    let server = Server::start(b"not what you want", Some("\"1\""));
    let folder = tempfile::tempdir().unwrap();
    let want = digest::digest_bytes(b"what you want");
    let error = get(folder.path(), &wanted(&server.address("x"), Some(want))).unwrap_err().to_string();
    let got = digest::digest_bytes(b"not what you want");
    assert!(error.contains(&want.to_string()) && error.contains(&got.to_string()), "{error}");
    let left: Vec<_> =
        std::fs::read_dir(folder.path().join("cache")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    let path = folder.path().join("local");
    std::fs::write(&path, "x").unwrap();
    let error = get(folder.path(), &wanted(path.to_str().unwrap(), Some(want))).unwrap_err().to_string();
    assert!(error.contains(&want.to_string()), "{error}");
}

#[test]
fn refusals_and_absences_say_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(b"", None);
    for (status, part) in
        [(404, "404"), (403, "credentials"), (401, "credentials"), (410, "410"), (503, "503")]
    {
        server.set(|state| state.status = Some(status));
        let error = get(folder.path(), &wanted(&server.address("x"), None)).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("hunter"), "{status}: {error}");
    }
    server.set(|state| (state.status, state.redirect) = (None, Some("/round".into())));
    let error = get(folder.path(), &wanted(&server.address("x"), None)).unwrap_err().to_string();
    assert!(error.contains("redirect"), "{error}");
    // No server listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error =
        get(folder.path(), &wanted(&format!("http://127.0.0.1:{port}/x"), None)).unwrap_err().to_string();
    assert!(error.contains("refused") && error.contains("is the store up"), "{error}");
    let error = get(folder.path(), &wanted("/no/such/dataset", None)).unwrap_err().to_string();
    assert!(error.contains("/no/such/dataset"), "{error}");
    let left: Vec<_> =
        std::fs::read_dir(folder.path().join("cache")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_full_disk_is_told_before_and_while_it_happens() {
    // A file system of one page has no room; /dev/full is one where every write fails.
    let server = Server::start(&bytes(1_000_000), Some("\"1\""));
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(&small)
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "SKIP: a_full_disk_is_told_before_and_while_it_happens because this user cannot mount a small file system"
        );
        return;
    }
    let error = get(&small, &wanted(&server.address("x"), None)).unwrap_err().to_string();
    std::process::Command::new("umount").arg(&small).status().unwrap();
    assert!(error.contains("no room") && error.contains("--dataset-cache"), "{error}");
}

#[test]
fn many_who_want_the_same_fetch_it_once() {
    let content = bytes(200_000);
    let server = Server::start(&content, Some("\"one\""));
    let folder = tempfile::tempdir().unwrap();
    let wanted = wanted(&server.address("x"), Some(digest::digest_bytes(&content)));
    let got: Vec<ObtainedDataset> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(|| get(folder.path(), &wanted).unwrap())).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(server.ranges().len(), 1);
    assert_eq!(got.iter().filter(|got| !got.was_cached).count(), 1);
    assert!(got.iter().all(|got| std::fs::read(&got.path).unwrap() == content));
}

#[test]
fn a_wish_to_stop_ends_a_fetch_that_hangs() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/x", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let wanted = wanted(&address, None);
    let is_asked = AtomicBool::new(false);
    let stop = || is_asked.load(Ordering::Relaxed);
    struct Asks<'a>(&'a AtomicBool);
    impl DatasetProgress for Asks<'_> {}
    let asks = Asks(&is_asked);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Accepted, and then nothing.
            let held = listener.accept().unwrap();
            asks.0.store(true, Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(300));
            drop(held);
        });
        let watch = FetchWatch::new(&wanted.source, &SilentProgress, &stop);
        let error =
            dataset::obtain(&wanted, &|| DatasetCacheFolder::open(folder.path()), &watch).unwrap_err();
        assert!(matches!(error, DatasetError::Interrupted { .. }), "{error}");
    });
}

#[test]
fn a_folder_here_is_known_by_names_and_contents() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir_all(data.join("sub")).unwrap();
    std::fs::write(data.join("a"), "12").unwrap();
    std::fs::write(data.join("sub/b"), "345").unwrap();
    let got = get(folder.path(), &wanted(data.to_str().unwrap(), None)).unwrap();
    assert_eq!((got.size.0, got.digest), (5, digest::digest_input(&data).unwrap()));
    assert!(!folder.path().join("cache").exists(), "what lies here is not copied");
}

#[test]
fn the_page_cache_is_cold_or_warm_as_it_was_asked_for() {
    // Not in /tmp, which may be memory itself.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, bytes(4 << 20)).unwrap();
    let got = get(folder.path(), &wanted(path.to_str().unwrap(), None)).unwrap();
    let share = || {
        let (resident, pages) = residency(&path);
        resident as f64 / pages as f64
    };
    assert_eq!(dataset::prepare_page_cache(&got, &[], PageCacheState::Warm, &|| false).unwrap(), None);
    assert!(share() > 0.99, "{}", share());
    // What belongs to it has the same state.
    let beside = [folder.path().join("data.weights")];
    std::fs::write(&beside[0], bytes(4 << 20)).unwrap();
    match dataset::prepare_page_cache(&got, &beside, PageCacheState::Cold, &|| false).unwrap() {
        None => {
            let (resident, pages) = residency(&beside[0]);
            assert!(share() < 0.02 && resident * 50 < pages, "{} {resident} of {pages}", share());
        }
        Some(warning) => {
            assert!(share() > 0.0 && warning.contains("cold"), "{warning}");
            eprintln!(
                "SKIP: the rest of the_page_cache_is_cold_or_warm because this file system keeps its pages: {warning}"
            );
        }
    }
}

/// Pages in memory and all pages, by our own look.
fn residency(path: &Path) -> (usize, usize) {
    use std::os::fd::AsRawFd;
    let file = std::fs::File::open(path).unwrap();
    let length = file.metadata().unwrap().len() as usize;
    let mut state = vec![0u8; length.div_ceil(4096)];
    // SAFETY: a mapping of an open file that is not read through, and a byte for each page of it.
    unsafe {
        let map =
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(map, libc::MAP_FAILED);
        assert_eq!(libc::mincore(map, length, state.as_mut_ptr()), 0);
        libc::munmap(map, length);
    }
    (state.iter().filter(|byte| *byte & 1 == 1).count(), state.len())
}
