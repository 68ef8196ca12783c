// Made-up power of a metered node, and a few predictors, in the shapes of metier.node-power/1 and metier.power-predictor-list/1.

const STEP = 5;

export function makePower(now, entries = 240) {
  const times = Array.from({ length: entries }, (_, i) => i * STEP);
  const round = (x) => Math.round(x * 1000) / 1000;
  const load = times.map((t) => 0.4 + 1.6 * Math.max(0, Math.sin(t / 90)) + 0.2 * Math.sin(t / 7));
  const measured = load.map((busy, i) => (i > 100 && i < 106 ? null : round(18 + 9 * busy + Math.sin(i) * 0.4)));
  const estimated = load.map((busy) => round(21 + 7.5 * busy));
  const idle = measured.map((watts, i) => round(Math.min(18, watts ?? estimated[i])));
  const rest = idle.map((watts, i) => (measured[i] ?? estimated[i]) - watts);
  const part = (share) => rest.map((watts) => round(watts * share));
  return {
    schema: "metier.node-power/1",
    interval_seconds: STEP,
    machine: { processor: "amd_epyc_7763", cores: 8, chips: 1, memory_bytes: 33285996544, frequency_hertz: 2.4e9 },
    covers: "platform",
    meters: ["hwmon:power_meter-power1"],
    predictor: { pipeline: "fallback", name: "amd_epyc_7", origin: "idle and full power a core, the medians of 11 published machines (amd_epyc_7), scaled to the cores of this one", in_range: true, core_ratio: 1, about: null },
    idle_from: "meter-fitted",
    compared: { entries: entries - 5, mae_watts: 2.1, mape_ratio: 0.074, bias_watts: 1.4, inside_ratio: 1 },
    since: new Date(now - entries * STEP * 1000).toISOString(),
    times,
    busy_cores: load.map(round),
    measured,
    estimated,
    low: estimated.map((watts) => round(watts * 0.6)),
    high: estimated.map((watts) => round(watts * 1.8)),
    idle,
    consumers: [
      { name: "python3", owner: { kind: "container", id: "4f1c".repeat(16) }, processes: 4, mean_watts: 5.1, watts: part(0.5) },
      { name: "rustc", owner: { kind: "unit", id: "session-3.scope" }, processes: 2, mean_watts: 3, watts: part(0.3) },
      { name: "<b>odd</b>", owner: null, processes: 1, mean_watts: 1, watts: part(0.1) },
    ],
    others: part(0.06),
    unseen: part(0.04),
    missing: { bpf_page_cache_hit: "hits of the page cache are counted only by a program inside of the kernel, which is not loaded" },
  };
}

export function makePredictors(query) {
  const machine = { processor: null, cores: 40, chips: null, memory_bytes: null, frequency_hertz: null };
  const one = (trainer, source, output_type, feature_group, errors) => ({ pipeline: "metier-defaults", name: `${trainer}_0`, trainer, source, output_type, feature_group, node_type: 0, machine, machines: 1, similarity: 0.11, errors, is_usable: true, is_in_use: false });
  const error = (component, mae_watts, mape_ratio) => ({ component, mae_watts, mape_ratio });
  const all = [
    one("AutoTrainer", "acpi", "AbsPower", "CounterOnly", [error("platform", 9.75, 0.0425)]),
    one("LinearRegressionTrainer", "acpi", "AbsPower", "CounterOnly", [error("platform", 15.27, 0.0609)]),
    one("AutoTrainer", "rapl-sysfs", "AbsPower", "CounterOnly", [error("package", 5.48, 0.0762), error("dram", 1.67, 0.0321), error("core", 0, null)]),
    { ...one("SVRRegressorTrainer", "rapl-sysfs", "DynPower", "BPFOnly", []), pipeline: "ec2", node_type: 3, machine: null, machines: null, similarity: null, is_usable: false },
  ];
  const fits = (p) => ["source", "output_type", "feature_group"].every((name) => !query.get(name) || p[name] === query.get(name)) && (query.get("usable") !== "true" || p.is_usable);
  const predictors = all.filter(fits);
  return {
    schema: "metier.power-predictor-list/1",
    machine,
    total: predictors.length,
    predictors: predictors.slice(0, Number(query.get("limit") ?? 200)),
    pipelines: [{ name: "metier-defaults", predictors: 3, node_types: 1, asked_for: ["acpi", "rapl-sysfs"], origin: "made up" }],
    fallback: { class: "amd_epyc_7", machines: 11, idle_watts: 1.613, full_watts: 3.677, idle_mape_ratio: 0.536, full_mape_ratio: 0.458, compared: 142 },
  };
}
