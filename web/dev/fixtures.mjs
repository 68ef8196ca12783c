// Made-up runs for working on the page without a metier server, and for unit tests. Deterministic: the same seed
// gives the same runs. Covers what is rare in practice: each ending, missing values, 120,000 samples, 10,000 processes.

/** A small generator of numbers in [0, 1). */
export function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const hex = (random, digits) => Array.from({ length: digits }, () => Math.floor(random() * 16).toString(16)).join("");

function uuid(random, at) {
  const time = Math.floor(at).toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(random, 3)}-8${hex(random, 3)}-${hex(random, 12)}`;
}

const digest = (random) => `sha256:${hex(random, 64)}`;

export const DEVICES = [
  {
    schema: "metier.device/1", id: "dev-7f3a91c2", name: "bench-01", class: "machine", product: "Example Workstation 5",
    cpu: { model: "Example CPU 8-Core @ 3.6 GHz", architecture: "x86_64", sockets: 1, cores: 8, threads: 8, max_frequency_hertz: 4.6e9,
      caches: [{ level: 1, kind: "Data", size_bytes: 32768 }, { level: 1, kind: "Instruction", size_bytes: 32768 }, { level: 2, kind: "Unified", size_bytes: 524288 }, { level: 3, kind: "Unified", size_bytes: 33554432 }] },
    memory_bytes: 34359738368, swap_bytes: 2147483648, os: "Debian GNU/Linux 12 (bookworm)", kernel: "6.1.0-18-amd64", accelerators: [], sensors: ["rapl package-0", "coretemp"],
    seen: "2026-03-01T10:00:00Z", missing: {},
  },
  {
    schema: "metier.device/1", id: "dev-22b0e5d4", name: "edge-board", class: "board", product: "Example Board B",
    cpu: { model: null, architecture: "aarch64", sockets: null, cores: 4, threads: 4, max_frequency_hertz: 1.8e9, caches: [] },
    memory_bytes: 4294967296, swap_bytes: 0, os: "Debian GNU/Linux 12 (bookworm)", kernel: "6.1.21-v8", accelerators: [], sensors: [],
    seen: "2026-02-27T08:30:00Z", missing: { "cpu.model": "the kernel shows no name for this processor", sensors: "no energy meter; fix: attach an INA3221 and load its driver" },
  },
];

const KINDS = [
  { name: "compile", command: ["cargo", "build", "--release"], wall: 42, cores: 6.2, memory: 1.9e9, read: 3e8, written: 9e8, processes: 180, shape: "bursts", tags: ["ci"] },
  { name: "resnet50-infer", command: ["python3", "infer.py", "--graph", "resnet50.onnx", "--batch", "8"], wall: 12.5, cores: 3.6, memory: 8.2e8, read: 1.1e8, written: 2e5, processes: 5, shape: "warm", tags: ["ml", "nightly"] },
  { name: "tokenise", command: ["python3", "-m", "tokenise", "corpus/part 01.txt"], wall: 6.1, cores: 0.99, memory: 3.1e8, read: 6e8, written: 1.2e8, processes: 1, shape: "flat", tags: ["ml"] },
  { name: "copy-dataset", command: ["cp", "-r", "/data/in", "/data/out"], wall: 18, cores: 0.12, memory: 5e7, read: 8e9, written: 8e9, processes: 1, shape: "waves", tags: [] },
  { name: "sort-log", command: ["sh", "-c", "zcat log.gz | sort | uniq -c > out"], wall: 3.3, cores: 1.8, memory: 6e8, read: 2e8, written: 4e7, processes: 4, shape: "ramp", tags: ["nightly"] },
];

function makeRun(random, kind, device, at, batch, repetition, repetitions, warmup) {
  const noise = () => 1 + (random() - 0.5) * 0.06 + (random() > 0.95 ? 0.2 : 0);
  const wall = kind.wall * noise() * (warmup ? 1.25 : 1);
  const cpu = wall * kind.cores * noise();
  const hasEnergy = device.sensors.length > 0;
  const samples = Math.max(1, Math.round(wall / 0.1));
  const isNoisy = random() > 0.8;
  return {
    schema: "metier.run/1", id: uuid(random, at), batch, workload: { id: kind.name, name: kind.name }, device: { id: device.id, name: device.name },
    state: "finished", started: new Date(at).toISOString(), ended: new Date(at + wall * 1000).toISOString(),
    exit: { code: 0, signal: null, cause: "exited", left_behind: 0 },
    context: {
      command: kind.command, working_directory: "/home/ada/project", executable: `/usr/bin/${kind.command[0]}`, executable_digest: digest(random), environment_digest: digest(generator(3)),
      input: null, input_digest: null, kernel: device.kernel, measured_by: "metier 0.1.0", method: device.id === "dev-22b0e5d4" ? "systemd-scope" : "cgroup-v2",
      sampling: { interval_seconds: 0.1, samples, late: isNoisy ? Math.round(samples * 0.05) : 0 }, timeout_seconds: null, grace_seconds: 2, repetition, repetitions, warmup, neighbours: [], limits: {},
    },
    tags: kind.tags,
    summary: {
      wall_seconds: wall, cpu_seconds: cpu, cpu_user_seconds: cpu * 0.87, cpu_system_seconds: cpu * 0.13, peak_memory_bytes: Math.round(kind.memory * noise()), read_bytes: Math.round(kind.read * noise()),
      written_bytes: Math.round(kind.written * noise()), energy_joules: hasEnergy ? wall * 14 + cpu * 5.2 : null, processes: kind.processes, own_overhead_ratio: 0.0004 + random() * 0.0004,
    },
    cpu: { voluntary_switches: Math.round(wall * 220), involuntary_switches: Math.round(cpu * 31), throttled_periods: 0, throttled_seconds: 0 },
    memory: { peak_anonymous_bytes: Math.round(kind.memory * 0.7), peak_file_bytes: Math.round(kind.memory * 0.25), peak_kernel_bytes: Math.round(kind.memory * 0.05), peak_resident_sum_bytes: Math.round(kind.memory * 1.1), peak_process_bytes: Math.round(kind.memory * 0.6), minor_faults: Math.round(kind.memory / 4096), major_faults: 12, oom_kills: 0 },
    io: { device_read_bytes: Math.round(kind.read * 0.2), device_written_bytes: kind.written, call_read_bytes: kind.read, call_written_bytes: kind.written },
    network: null,
    pressure: { cpu_seconds: wall * 0.03, memory_seconds: 0, io_seconds: kind.name === "copy-dataset" ? wall * 0.78 : wall * 0.01 },
    energy: hasEnergy ? { meters: [{ name: "package-0", source: "rapl", energy_joules: wall * 14 + cpu * 5.2, counted: true }, { name: "core", source: "rapl", energy_joules: cpu * 4.4, counted: false }], mean_power_watts: 14 + (cpu / wall) * 5.2 } : { meters: [], mean_power_watts: null },
    gpus: [],
    host: {
      before: { load1: 0.4, runnable: 2, memory_available_bytes: 2.7e10, frequency_hertz: 3.6e9, temperature_celsius: 46 }, after: { load1: 0.4 + kind.cores * 0.3, runnable: 3, memory_available_bytes: 2.6e10, frequency_hertz: 4.2e9, temperature_celsius: 58.5 },
      governor: "performance", steal_ratio: isNoisy ? 0.031 : 0.0002, others_ratio: isNoisy ? 0.21 : 0.012, cpu_pressure_ratio: isNoisy ? 0.18 : 0.02, memory_pressure_ratio: 0, io_pressure_ratio: kind.name === "copy-dataset" ? 0.81 : 0.01,
    },
    overhead: { cpu_seconds: wall * 0.0005, launcher_cpu_seconds: 0.0008, startup_seconds: 0.0041, lost_events: 0 },
    quality: {
      "summary.wall_seconds": "exact", "summary.cpu_seconds": "exact", "summary.cpu_user_seconds": "exact", "summary.cpu_system_seconds": "exact", "summary.peak_memory_bytes": "exact", "summary.read_bytes": "estimated",
      "summary.written_bytes": "exact", "summary.energy_joules": "exact", "summary.processes": "exact", memory: "sampled", "memory.minor_faults": "exact", "memory.major_faults": "exact", cpu: "exact", io: "exact", pressure: "exact",
    },
    missing: { ...(hasEnergy ? {} : { "summary.energy_joules": "this device has no energy meter; fix: attach an INA3221 and load its driver", energy: "this device has no energy meter" }), network: "the run shares the host's network; fix: metier run --network own", gpus: "no GPU library found" },
    warnings: isNoisy ? [{ code: "steal", text: "The hypervisor gave 3.1 % of the cores' time to others; times may be longer than they need be." }, { code: "late-samples", text: "5 % of the samples came late; short peaks of the time line may be missing." }] : [],
    artefacts: [],
    shape: kind.shape,
  };
}

/** All made-up runs, newest first, ending at `now`. */
export function makeRuns(now, seed = 7) {
  const random = generator(seed);
  const runs = [];
  let at = now - 9 * 86400e3;
  for (let b = 0; b < 26; b++) {
    const kind = KINDS[b % KINDS.length];
    const device = DEVICES[b % 4 === 3 ? 1 : 0];
    const n = [1, 5, 1, 10, 1, 3][b % 6];
    const batch = uuid(random, at);
    if (n > 1) runs.push(makeRun(random, kind, device, (at += 3000), batch, 1, n, true));
    for (let r = 1; r <= n; r++) runs.push(makeRun(random, kind, device, (at += kind.wall * 1100), batch, r, n, false));
    at += 86400e3 * 9 / 32;
  }
  const single = (change, kind = KINDS[4]) => {
    const run = makeRun(random, kind, DEVICES[0], (at += 60e3), uuid(random, at), 1, 1, false);
    change(run);
    runs.push(run);
    return run;
  };
  single((r) => { r.exit = { code: 3, signal: null, cause: "exited", left_behind: 0 }; });
  single((r) => { r.exit = { code: null, signal: 11, cause: "signalled", left_behind: 2 }; });
  single((r) => { r.exit = { code: null, signal: 9, cause: "timeout", ended_by: "metier, with KILL after INT and TERM", left_behind: 0 }; r.context.timeout_seconds = 3; });
  single((r) => { r.exit = { code: null, signal: 9, cause: "oom", left_behind: 0 }; r.memory.oom_kills = 1; });
  single((r) => { r.exit = null; r.state = "interrupted"; r.ended = null; r.summary = { wall_seconds: null, cpu_seconds: null }; });
  single((r) => { r.workload = { id: "<b>odd</b>", name: "<b>odd & long name that goes on and on until it has to be cut somewhere</b>" }; r.tags = ["<script>", "a-very-long-tag-that-must-be-cut"]; r.context.command = ["printf", "%s\n", "it's <i>odd</i>"]; });
  single((r) => { r.workload = { id: "fork-storm", name: "fork-storm" }; r.summary.processes = 10_000; r.shape = "bursts"; r.manyProcesses = 10_000; });
  single((r) => { r.workload = { id: "long-soak", name: "long-soak" }; r.summary.wall_seconds = 1200; r.summary.cpu_seconds = 2100; r.summary.processes = 6; r.context.sampling = { interval_seconds: 0.01, samples: 120_000, late: 41 }; r.shape = "waves"; }, KINDS[0]);
  single((r) => {
    r.workload = { id: "edge-detector", name: "edge-detector" };
    r.exit = { code: null, signal: 9, cause: "oom", detail: "its control group reached memory.max of 300 MiB", left_behind: 0 };
    r.artefacts = [{ name: "stacks.folded", media_type: "text/plain", digest: digest(random), size_bytes: 91_204 }, { name: "out/<i>trace</i>.nsys-rep", media_type: "application/octet-stream", digest: digest(random), size_bytes: 4_200_000 }];
    Object.assign(r.context, {
      image: { reference: "registry.example/edge/detector:1.4", digest: digest(random), engine: "Docker Engine 20.10.24", container: "4f1c" },
      pod: { namespace: "edge", name: "detector-7d9f", uid: null, node: "orin-3" },
      dataset: { source: "s3://sets/street-2026", digest: digest(random), size_bytes: 3.1e9, was_cached: false, fetch_seconds: 41.5, page_cache: "cold" },
      company: [{ run: runs[0].id, name: "redis", role: "companion", overlap_seconds: 3.2 }, { run: runs[1].id, name: "stress", role: "neighbour", overlap_seconds: 2.9 }],
      phases: [{ name: "start-up", from_seconds: 0, to_seconds: 0.9 }, { name: "warm", from_seconds: 0.9, to_seconds: 2.1 }, { name: "steady", from_seconds: 2.1, to_seconds: 3.9 }],
      limits: { "memory.max": "300 MiB" },
    });
  });
  const live = makeRun(random, KINDS[1], DEVICES[0], now - 8000, uuid(random, now), 1, 1, false);
  Object.assign(live, { state: "running", ended: null, exit: null, summary: { own_overhead_ratio: 0.0005 }, energy: { meters: [] }, warnings: [] });
  runs.push(live);
  return runs.sort((a, b) => (a.id < b.id ? 1 : -1));
}

/** The row of the list for a run. */
export function rowOf(run) {
  const { id, batch, workload, device, state, started, ended, exit, tags, summary } = run;
  return { id, batch, workload, device, state, started, ended, exit, tags, summary, repetition: run.context.repetition, repetitions: run.context.repetitions, warmup: run.context.warmup, counted: state === "finished" && !run.context.warmup && (exit?.planned === true || (exit?.cause === "exited" && exit.code === 0)), warnings: run.warnings.length, command: run.context.command.join(" ") };
}

function level(shape, x, random) {
  switch (shape) {
    case "bursts":
      return Math.max(0.02, (Math.sin(x * 40) > -0.3 ? 1.25 : 0.3) * (0.8 + 0.4 * random()));
    case "warm":
      return x < 0.18 ? 0.28 : 1.15 * (0.92 + 0.16 * random());
    case "waves":
      return 1 + 0.8 * Math.sin(x * 60) + 0.1 * random();
    case "ramp":
      return 0.3 + 1.4 * x + 0.1 * random();
    default:
      return 0.97 + 0.06 * random();
  }
}

/** The series of a run, up to `until` seconds. */
export function makeSeries(run, until) {
  const random = generator(parseInt(run.id.slice(-6), 16));
  const wall = until ?? run.summary.wall_seconds ?? 4;
  const { interval_seconds: step } = run.context.sampling;
  const n = Math.max(2, Math.round(wall / step));
  const expected = run.summary.wall_seconds ?? 12;
  const cores = (run.summary.cpu_seconds ?? expected * 3) / expected;
  const peak = run.summary.peak_memory_bytes ?? 8e8;
  const cols = { cpu: [], memory: [], anonymous: [], file: [], kernel: [], read: [], written: [], processes: [] };
  const times = [];
  const absent = [];
  let cpu = 0, read = 0, written = 0;
  for (let i = 0; i < n; i++) {
    const x = (i * step) / expected;
    const l = level(run.shape, x, random);
    times.push(Math.round((i * step + random() * step * 0.05) * 1e9));
    cpu += Math.round(l * cores * step * 1e9);
    read += Math.round(Math.max(0, (1.3 - x * 1.2) * random() * 2) * ((run.summary.read_bytes ?? 1e8) / expected) * step);
    written += Math.round(Math.max(0, x * random() * 4) * ((run.summary.written_bytes ?? 1e8) / expected) * step);
    const anonymous = Math.round(peak * 0.68 * Math.min(1, 0.15 + x * 1.4) * (0.92 + 0.08 * l / 1.4));
    const file = Math.round(peak * 0.24 * Math.min(1, x * 2.2));
    const kernel = Math.round(peak * 0.04 * (0.6 + 0.4 * random()));
    cols.cpu.push(cpu); cols.read.push(read); cols.written.push(written);
    cols.anonymous.push(anonymous); cols.file.push(file); cols.kernel.push(kernel); cols.memory.push(anonymous + file + kernel);
    cols.processes.push(Math.max(1, Math.round(Math.min(24, run.summary.processes ?? 4) * Math.min(1, l))));
    if (run.shape === "warm" && i > n * 0.5 && i < n * 0.53) absent.push(i);
  }
  const unit = { cpu: "nanoseconds", processes: "count" };
  const kind = { cpu: "counter", read: "counter", written: "counter" };
  const use = { schema: "metier.series/1", run: run.id, name: "use", times, columns: Object.entries(cols).map(([name, values]) => ({ name, kind: kind[name] ?? "gauge", unit: unit[name] ?? "bytes", values: { integer: values }, ...(absent.length > 0 ? { absent } : {}) })) };
  const hostTimes = [], busy = [], steal = [], load1 = [], frequency = [], temperature = [], available = [], pc = [], pm = [], pi = [];
  const energy = [];
  let b = 0, s = 0, c = 0, io = 0, e = 0;
  for (let t = 0; t <= wall; t += 1) {
    const l = level(run.shape, t / expected, random);
    hostTimes.push(t * 1e9);
    busy.push((b += Math.round((l * cores + 0.1 + random() * 0.4) * 1e9))); steal.push((s += Math.round(random() * 2e7)));
    load1.push(0.4 + Math.min(cores, t * 0.1)); frequency.push(4.2e9 - random() * 2e8); temperature.push(46 + 12 * (1 - Math.exp(-t / 8)));
    available.push(Math.round(2.7e10 - peak * Math.min(1, t / expected))); pc.push((c += Math.round(random() * 6e7))); pm.push(0); pi.push((io += Math.round(random() * 2e7)));
    energy.push((e += Math.round((14 + l * cores * 5.2) * 1e6)));
  }
  const column = (name, kind, unit, values, type = "integer") => ({ name, kind, unit, values: { [type]: values } });
  const host = { schema: "metier.series/1", run: run.id, name: "host", times: hostTimes, columns: [column("busy", "counter", "nanoseconds", busy), column("steal", "counter", "nanoseconds", steal), column("load1", "gauge", "count", load1, "float"), column("frequency", "gauge", "hertz", frequency, "float"), column("temperature", "gauge", "celsius", temperature, "float"), column("memory_available", "gauge", "bytes", available), column("cpu_pressure", "counter", "nanoseconds", pc), column("memory_pressure", "counter", "nanoseconds", pm), column("io_pressure", "counter", "nanoseconds", pi)] };
  const out = [use, host];
  if (run.device.id === DEVICES[0].id) out.push({ schema: "metier.series/1", run: run.id, name: "energy", times: hostTimes, columns: [column("package-0", "counter", "microjoules", energy)] });
  return out;
}

/** A series between two times with at most about `points` rows; always keeps real rows. */
export function thin(series, points, from, to) {
  const inside = [];
  for (let i = 0; i < series.times.length; i++) if (series.times[i] >= from && series.times[i] <= to) inside.push(i);
  const every = Math.max(1, Math.ceil(inside.length / points));
  const rows = inside.filter((_, i) => i % every === 0 || i === inside.length - 1);
  const place = new Map(rows.map((row, i) => [row, i]));
  const columns = series.columns.map((column) => {
    const type = Object.keys(column.values)[0];
    const absent = (column.absent ?? []).flatMap((row) => (place.has(row) ? [place.get(row)] : []));
    return { ...column, values: { [type]: rows.map((row) => column.values[type][row]) }, ...(absent.length > 0 ? { absent } : { absent: undefined }) };
  });
  return { ...series, times: rows.map((row) => series.times[row]), columns };
}

export function makeProcesses(run) {
  const random = generator(parseInt(run.id.slice(-6), 16) + 1);
  const n = run.manyProcesses ?? Math.max(1, Math.min(400, run.summary.processes ?? 4));
  const wall = run.summary.wall_seconds ?? 8;
  const cpu = run.summary.cpu_seconds ?? 4;
  const names = ["sh", "rustc", "cc1", "ld", "python3", "worker", "zcat", "sort"];
  const processes = [{ pid: 4000, parent: null, name: run.context.command[0].slice(0, 15), command: run.context.command.join(" "), started_seconds: 0, ended_seconds: run.state === "running" ? null : wall, cpu_seconds: cpu * 0.1, peak_resident_bytes: 12e6, read_bytes: 4096, written_bytes: 0, exit_code: run.state === "running" ? null : 0, signal: null }];
  for (let i = 1; i < n; i++) {
    const started = (wall * 0.95 * i) / n;
    const parent = random() < 0.45 || i < 4 ? 4000 : 4000 + Math.floor(random() * Math.min(i, 60));
    const name = names[Math.floor(random() * names.length)];
    processes.push({ pid: 4000 + i, parent, name, command: random() > 0.3 ? `/usr/bin/${name} --part ${i} --out target/deps/lib${i}.rlib` : null, started_seconds: started, ended_seconds: Math.min(wall, started + random() * wall * 0.3), cpu_seconds: (cpu * 0.9 * random() * 2) / n, peak_resident_bytes: Math.round(2e7 + random() * 3e8), read_bytes: Math.round(random() * 1e6), written_bytes: Math.round(random() * 1e6), exit_code: random() > 0.97 ? 1 : 0, signal: null });
  }
  return { schema: "metier.processes/1", run: run.id, source: "events", total: n, omitted: 0, processes };
}

const METRICS = [["wall_seconds", "seconds"], ["cpu_seconds", "seconds"], ["cpu_user_seconds", "seconds"], ["cpu_system_seconds", "seconds"], ["peak_memory_bytes", "bytes"], ["read_bytes", "bytes"], ["written_bytes", "bytes"], ["energy_joules", "joules"], ["processes", "count"]];

/** A rough comparison in the shape of metier.comparison/1; the real one lives in metier-stats. */
export function makeComparison(a, b) {
  const isFit = (run) => run.state === "finished" && run.exit?.cause === "exited" && run.exit.code === 0 && !run.context.warmup;
  const side = (runs) => ({ label: [...new Set(runs.map((r) => r.workload.name))].join(", "), runs: runs.filter(isFit).map((r) => r.id), n: runs.filter(isFit).length, left_out: runs.filter((r) => !isFit(r)).map((r) => ({ run: r.id, because: r.context.warmup ? "warm-up" : "failed" })) });
  const spread = (values) => {
    const s = values.slice().sort((x, y) => x - y);
    if (s.length === 0) return { n: 0, median: null, low: null, high: null, min: null, max: null };
    return { n: s.length, median: s[s.length >> 1], low: s[Math.floor(s.length * 0.1)], high: s[Math.ceil(s.length * 0.9) - 1], min: s[0], max: s[s.length - 1] };
  };
  const metrics = METRICS.map(([field, unit]) => {
    const values = (runs) => runs.filter(isFit).flatMap((r) => (typeof r.summary[field] === "number" ? [r.summary[field]] : []));
    const [sa, sb] = [spread(values(a)), spread(values(b))];
    if (sa.median === null || sb.median === null || sa.median === 0) return { field, unit, a: sa, b: sb, change_ratio: null, low: null, high: null, coverage: null, verdict: "not-comparable", p_value: null };
    const change = sb.median / sa.median - 1;
    if (sa.n < 3 || sb.n < 3) return { field, unit, a: sa, b: sb, change_ratio: change, low: null, high: null, coverage: null, verdict: "too-few-runs", p_value: null };
    const half = (sa.max - sa.min) / sa.median / Math.sqrt(sa.n) + (sb.max - sb.min) / sb.median / Math.sqrt(sb.n);
    const verdict = change - half > 0 ? "increase" : change + half < 0 ? "decrease" : "no-difference-shown";
    return { field, unit, a: sa, b: sb, change_ratio: change, low: change - half, high: change + half, coverage: 0.95, verdict, p_value: verdict === "no-difference-shown" ? 0.4 : 0.004 };
  });
  const warnings = [];
  const ids = (runs) => [...new Set(runs.map((r) => r.device.id))].join();
  if (ids(a) !== ids(b)) warnings.push({ code: "device", text: "The two sides ran on different devices." });
  return { schema: "metier.comparison/1", a: side(a), b: side(b), metrics, warnings };
}

export const CHECKS = [
  { name: "control groups", ok: true, text: "version 2, delegated to this user", fix: null },
  { name: "process events", ok: false, text: "the kernel gives process events only to root", fix: "sudo setcap cap_net_admin+ep $(command -v metier)" },
  { name: "energy", ok: true, text: "RAPL package-0 can be read", fix: null },
  { name: "GPU", ok: false, text: "no NVML library found", fix: null },
];
