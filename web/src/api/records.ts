// The records of the API, as the serde types of metier-types write them. Only the fields that the page reads;
// a newer server may send more. A value that the host could not measure is null or absent, never 0.

export type Quality = "exact" | "sampled" | "estimated";
export type RunState = "running" | "finished" | "interrupted";
export type Cause = "exited" | "signalled" | "timeout" | "oom" | "interrupted" | "lost" | "unstarted";
export type Maybe<T> = T | null | undefined;

export interface Named {
  id: string;
  name: string;
}

export interface Exit {
  code?: Maybe<number>;
  signal?: Maybe<number>;
  cause: Cause;
  planned?: boolean;
  ended_by?: Maybe<string>;
  detail?: Maybe<string>;
  left_behind?: number;
  settled_seconds?: Maybe<number>;
}

export interface Summary {
  wall_seconds?: Maybe<number>;
  cpu_seconds?: Maybe<number>;
  cpu_user_seconds?: Maybe<number>;
  cpu_system_seconds?: Maybe<number>;
  peak_memory_bytes?: Maybe<number>;
  read_bytes?: Maybe<number>;
  written_bytes?: Maybe<number>;
  energy_joules?: Maybe<number>;
  processes?: Maybe<number>;
  own_overhead_ratio?: Maybe<number>;
}

export interface Warning {
  code: string;
  text: string;
}

/** A run as the list shows it. */
export interface RunRow {
  id: string;
  batch: string;
  workload: Named;
  device: Named;
  state: RunState;
  started: string;
  ended?: Maybe<string>;
  exit?: Maybe<Exit>;
  tags: string[];
  summary: Summary;
  repetition: number;
  repetitions: number;
  warmup: boolean;
  /** Whether statistics of its batch include it. */
  counted: boolean;
  warnings: number;
  command: string;
}

export interface RunPage {
  runs: RunRow[];
  next: string | null;
  total: number;
}

export interface Context {
  command: string[];
  working_directory?: Maybe<string>;
  executable?: Maybe<string>;
  executable_digest?: Maybe<string>;
  environment_digest?: Maybe<string>;
  input?: Maybe<string>;
  input_digest?: Maybe<string>;
  kernel?: Maybe<string>;
  measured_by: string;
  method?: Maybe<string>;
  sampling?: Maybe<{ interval_seconds: number; samples: number; late: number }>;
  timeout_seconds?: Maybe<number>;
  grace_seconds?: Maybe<number>;
  repetition: number;
  repetitions: number;
  warmup?: boolean;
  neighbours?: string[];
  company?: { run: string; name: string; role: string; overlap_seconds?: Maybe<number> }[];
  image?: Maybe<{ reference: string; digest?: Maybe<string>; engine: string; container?: Maybe<string> }>;
  pod?: Maybe<{ namespace: string; name: string; node?: Maybe<string> }>;
  dataset?: Maybe<{ source: string; digest: string; size_bytes: number; was_cached: boolean; fetch_seconds?: Maybe<number>; page_cache: string }>;
  phases?: { name: string; from_seconds: number; to_seconds: number }[];
  limits?: Record<string, string>;
}

export interface HostReading {
  load1?: Maybe<number>;
  runnable?: Maybe<number>;
  memory_available_bytes?: Maybe<number>;
  frequency_hertz?: Maybe<number>;
  temperature_celsius?: Maybe<number>;
}

export interface HostState {
  before: HostReading;
  after: HostReading;
  governor?: Maybe<string>;
  steal_ratio?: Maybe<number>;
  others_ratio?: Maybe<number>;
  cpu_pressure_ratio?: Maybe<number>;
  memory_pressure_ratio?: Maybe<number>;
  io_pressure_ratio?: Maybe<number>;
}

/** One stage of an application; numbers are seconds where the kind is `duration`. */
export interface Stage {
  name: string;
  labels?: string;
  kind: string;
  source: string;
  count: number;
  rate_per_second?: Maybe<number>;
  p50?: Maybe<number>;
  p95?: Maybe<number>;
  p99?: Maybe<number>;
  cpu_seconds_per_item?: Maybe<number>;
  joules_per_item?: Maybe<number>;
}

/** How listening to the application went. */
export interface Intake {
  messages: number;
  dropped: number;
  malformed: number;
  examples?: string[];
  beyond_limit?: number;
  strangers?: number;
}

/** Recommended requests and limits. */
export interface Advice {
  firmness: string;
  basis: string;
  quotas: { key: string; value: string; reason: string }[];
  notes?: string[];
}

export interface Run {
  schema: string;
  id: string;
  batch: string;
  workload: Named;
  device: Named;
  state: RunState;
  started: string;
  ended?: Maybe<string>;
  exit?: Maybe<Exit>;
  /** One plain sentence about a run that is over. */
  verdict?: Maybe<string>;
  context: Context;
  tags?: string[];
  summary: Summary;
  cpu?: Record<string, Maybe<number>>;
  memory?: Record<string, Maybe<number>>;
  io?: Record<string, Maybe<number>>;
  network?: Maybe<Record<string, Maybe<number>>>;
  pressure?: { cpu_seconds?: Maybe<number>; memory_seconds?: Maybe<number>; io_seconds?: Maybe<number> };
  energy?: {
    meters?: { name: string; source: string; energy_joules: number; counted: boolean; error_joules?: Maybe<number> }[];
    mean_power_watts?: Maybe<number>;
  };
  gpus?: {
    name: string;
    mean_utilisation_ratio?: Maybe<number>;
    peak_memory_bytes?: Maybe<number>;
    energy_joules?: Maybe<number>;
  }[];
  stages?: Stage[];
  intake?: Maybe<Intake>;
  host?: HostState;
  overhead?: Record<string, Maybe<number>>;
  quality?: Record<string, Quality>;
  missing?: Record<string, string>;
  warnings?: Warning[];
  artefacts?: { name: string; media_type: string; digest: string; size_bytes: number }[];
}

export type Unit =
  | "nanoseconds"
  | "seconds"
  | "bytes"
  | "joules"
  | "microjoules"
  | "watts"
  | "ratio"
  | "hertz"
  | "celsius"
  | "count";

export interface Column {
  name: string;
  kind: "counter" | "gauge";
  unit: Unit;
  values: { integer: number[] } | { float: (number | null)[] };
  absent?: number[];
}

export interface Series {
  name: string;
  /** Nanoseconds since the run's start, ascending. */
  times: number[];
  columns: Column[];
}

export interface Process {
  pid: number;
  parent?: Maybe<number>;
  name: string;
  command?: Maybe<string>;
  started_seconds: number;
  ended_seconds?: Maybe<number>;
  cpu_seconds?: Maybe<number>;
  peak_resident_bytes?: Maybe<number>;
  read_bytes?: Maybe<number>;
  written_bytes?: Maybe<number>;
  exit_code?: Maybe<number>;
  signal?: Maybe<number>;
}

export interface ProcessTree {
  source: "events" | "sampled";
  total: number;
  omitted: number;
  processes: Process[];
}

export interface Device {
  id: string;
  name: string;
  class: string;
  product?: Maybe<string>;
  cpu: {
    model?: Maybe<string>;
    architecture: string;
    sockets?: Maybe<number>;
    cores?: Maybe<number>;
    threads: number;
    max_frequency_hertz?: Maybe<number>;
    caches?: { level: number; kind: string; size_bytes: number }[];
  };
  memory_bytes?: Maybe<number>;
  swap_bytes?: Maybe<number>;
  os?: Maybe<string>;
  kernel?: Maybe<string>;
  accelerators?: string[];
  sensors?: string[];
  seen: string;
  missing?: Record<string, string>;
}

export interface Workload extends Named {
  kind: string;
  command?: string[];
  first_seen: string;
}

export interface Spread {
  n: number;
  median: Maybe<number>;
  low?: Maybe<number>;
  high?: Maybe<number>;
  min?: Maybe<number>;
  max?: Maybe<number>;
}

export type ChangeVerdict = "increase" | "decrease" | "no-difference-shown" | "too-few-runs" | "not-comparable";

export interface ComparedMetric {
  field: string;
  unit: string;
  a: Maybe<Spread>;
  b: Maybe<Spread>;
  change_ratio?: Maybe<number>;
  low?: Maybe<number>;
  high?: Maybe<number>;
  coverage?: Maybe<number>;
  verdict: ChangeVerdict;
  p_value?: Maybe<number>;
  because?: Maybe<string>;
}

export interface ComparedSide {
  label: string;
  runs: string[];
  n: number;
  left_out?: { run: string; because: string }[];
}

export interface Comparison {
  a: ComparedSide;
  b: ComparedSide;
  metrics: ComparedMetric[];
  interval_statement?: Maybe<string>;
  warnings: Warning[];
}

export interface Check {
  name: string;
  ok: boolean;
  text: string;
  fix?: Maybe<string>;
}

/** A run file that somebody asked for, from its place in the queue to its end. */
export interface Session {
  id: string;
  number: number;
  state: "queued" | "running" | "finished" | "failed" | "cancelled" | "interrupted";
  position?: Maybe<number>;
  name: string;
  asker: { door: string; user?: Maybe<string> };
  job?: Maybe<string>;
  asked: string;
  runs: string[];
  reason?: Maybe<string>;
}

/** A predicted value; it never comes without its interval. */
export interface Prediction {
  value: number;
  unit: string;
  low: number;
  high: number;
  coverage: number;
  predictor: string;
  in_range: boolean;
  because: string;
}

export interface GraphValue {
  name: string;
  data_type?: Maybe<string>;
  shape?: Maybe<(number | null)[]>;
}

export interface GraphOperator {
  name: string;
  kind: string;
  inside?: string;
  outputs: GraphValue[];
  multiply_adds?: Maybe<number>;
  read_bytes?: Maybe<number>;
  written_bytes?: Maybe<number>;
  turns: number;
}

export interface DeviceTime {
  id: string;
  name: string;
  origin: "measured" | "specified";
  threads: number;
  prediction?: Maybe<Prediction>;
  missing?: Maybe<string>;
}

export interface OperatorTime {
  seconds: number;
  share: number;
  within?: Maybe<number>;
}

export interface MeasuredGraph {
  run: string;
  device: Named;
  started: string;
  runtime?: Maybe<string>;
  threads?: Maybe<number>;
  shapes?: Record<string, number[]>;
  seconds?: Maybe<number>;
  prediction?: Maybe<Prediction>;
  missing?: Maybe<string>;
}

/** What the server says of a graph that it was sent. */
export interface GraphTimes {
  digest: string;
  file_bytes: number;
  graph: {
    name: string;
    producer: string;
    opset: number;
    inputs: GraphValue[];
    outputs: GraphValue[];
    parameters: number;
    weight_bytes: number;
    multiply_adds: number;
    operators_without_cost: number;
    peak_activation_bytes?: Maybe<number>;
    notes: string[];
    operators: GraphOperator[];
  };
  runtime: string;
  memory?: Maybe<Prediction>;
  devices: DeviceTime[];
  device?: Maybe<string>;
  operators: OperatorTime[];
  measured: MeasuredGraph[];
}

/** A machine, as node types of power predictors tell them apart. */
export interface PowerMachine {
  processor?: Maybe<string>;
  cores?: Maybe<number>;
  chips?: Maybe<number>;
  memory_bytes?: Maybe<number>;
  frequency_hertz?: Maybe<number>;
}

export interface PowerError {
  component?: Maybe<string>;
  mae_watts?: Maybe<number>;
  mape_ratio?: Maybe<number>;
}

export interface PowerPredictor {
  pipeline: string;
  name: string;
  trainer: string;
  source: string;
  output_type: string;
  feature_group: string;
  node_type: number;
  machine?: Maybe<PowerMachine>;
  machines?: Maybe<number>;
  similarity?: Maybe<number>;
  /** The worst component first. */
  errors: PowerError[];
  is_usable: boolean;
  is_in_use: boolean;
}

export interface PowerPredictors {
  machine: PowerMachine;
  total: number;
  predictors: PowerPredictor[];
  pipelines: { name: string; predictors: number; node_types?: Maybe<number>; asked_for: string[]; origin?: Maybe<string> }[];
  fallback?: Maybe<{ class: string; machines: number; idle_watts: number; full_watts: number; idle_mape_ratio: number; full_mape_ratio: number; compared: number }>;
}

export type MaybeWatts = (number | null)[];

export interface PowerConsumer {
  name: string;
  owner?: Maybe<{ kind: string; id: string; name?: Maybe<string> }>;
  processes: number;
  mean_watts: number;
  watts: MaybeWatts;
}

/** The power of the server's node; every list has one place for each of `times`. */
export interface NodePower {
  interval_seconds: number;
  machine: PowerMachine;
  covers: "platform" | "package" | "package-and-memory";
  meters: string[];
  predictor?: Maybe<{ pipeline: string; name: string; origin: string; in_range: boolean; core_ratio: number; about?: Maybe<PowerPredictor> }>;
  idle_from: "meter-fitted" | "meter-least" | "predictor";
  compared?: Maybe<{ entries: number; mae_watts: number; mape_ratio?: Maybe<number>; bias_watts: number; inside_ratio?: Maybe<number> }>;
  since?: Maybe<string>;
  times: number[];
  busy_cores: MaybeWatts;
  measured: MaybeWatts;
  estimated: MaybeWatts;
  low: MaybeWatts;
  high: MaybeWatts;
  idle: MaybeWatts;
  consumers: PowerConsumer[];
  others: MaybeWatts;
  unseen: MaybeWatts;
  missing: Record<string, string>;
}
