// A stand-in for `metier up` with made-up runs: serves dist/ and the API of the same shape. For work on the page only.
//
//   node dev/server.mjs [--listen 127.0.0.1:7091] [--token TEXT] [--empty] [--delay MS]
//
// Prints "ready URL" when it listens. Bounded by its fixtures; not a place for real data.

import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { CHECKS, DEVICES, makeComparison, makeProcesses, makeRuns, makeSeries, rowOf, thin } from "./fixtures.mjs";
import { makePower, makePredictors } from "./power.mjs";

const DIST = join(fileURLToPath(new URL("..", import.meta.url)), "dist");
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
// As metier-server sends it, so that what it forbids is found here.
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

class Refusal extends Error {
  constructor(status, title, detail, errors = []) {
    super(detail);
    Object.assign(this, { status, title, detail, errors });
  }
}

export function startServer({ listen = "127.0.0.1:0", token = "", isEmpty = false, delay = 0 } = {}) {
  const begun = Date.now();
  const runs = isEmpty ? [] : makeRuns(begun);
  const seriesKept = new Map();
  const sessions = [];

  /** A queue that nobody works: what is asked for waits until it is cancelled. */
  function queue(method, parts, body) {
    if (parts.length === 1 && method === "POST") {
      const number = sessions.length + 1;
      const session = { schema: "metier.session/1", id: `00000000-0000-7000-8000-${String(number).padStart(12, "0")}`, number, state: "queued", position: number, name: body.name ?? "session", asker: { door: "api", user: null }, device: null, measured_by: null, file: body, asked: new Date().toISOString(), started: null, ended: null, batch: "00000000-0000-7000-8000-000000000000", runs: [], exit_code: null, reason: null, turns: 0 };
      sessions.unshift(session);
      return [202, session];
    }
    if (parts.length === 1) return [200, { schema: "metier.sessions/1", sessions }];
    const session = sessions.find((s) => s.id === parts[1]);
    if (session === undefined) throw new Refusal(404, "Not Found", `there is no session ${parts[1]} in this store`);
    if (method === "DELETE") Object.assign(session, { state: "cancelled", position: null, reason: "cancelled before its turn came" });
    return [200, session];
  }

  const find = (id) => {
    const run = runs.find((r) => r.id === id || r.id.replaceAll("-", "").endsWith(id));
    if (run === undefined) throw new Refusal(404, "No such run", `No run has the id ${id}.`);
    return run;
  };
  const stripped = ({ shape, manyProcesses, ...run }) => run;

  function seriesOf(run) {
    if (run.state === "running") return makeSeries(run, 8 + (Date.now() - begun) / 1000);
    if (!seriesKept.has(run.id)) seriesKept.set(run.id, makeSeries(run));
    return seriesKept.get(run.id);
  }

  function list(q) {
    const wants = {
      text: (r, v) => `${r.id} ${r.workload.name} ${r.context.command.join(" ")}`.toLowerCase().includes(v.toLowerCase()),
      workload: (r, v) => r.workload.id === v,
      device: (r, v) => r.device.id === v,
      state: (r, v) => r.state === v,
      cause: (r, v) => r.exit?.cause === v,
      tag: (r, v) => r.tags.includes(v),
      batch: (r, v) => r.batch === v,
      warmup: () => true,
    };
    let found = q.get("warmup") === "true" ? runs : runs.filter((r) => !r.context.warmup);
    for (const [name, value] of q) {
      if (name === "limit" || name === "after") continue;
      const want = wants[name];
      if (want === undefined) throw new Refusal(400, "Unknown parameter", `${name} is not a parameter of this list.`, [{ field: name, got: value, want: Object.keys(wants).join(", ") }]);
      found = found.filter((r) => want(r, value));
    }
    const total = found.length;
    const after = q.get("after");
    if (after) found = found.filter((r) => r.id < after);
    const limit = Number(q.get("limit") ?? 50);
    const page = found.slice(0, limit);
    return { schema: "metier.runs/1", runs: page.map(rowOf), next: found.length > limit ? page.at(-1).id : null, total };
  }

  function answer(path, q) {
    const parts = path.split("/").map(decodeURIComponent);
    if (parts[0] === "runs") {
      if (parts.length === 1) return list(q);
      const run = find(parts[1]);
      if (parts.length === 2) return stripped(run);
      if (parts[2] === "series") {
        const from = Number(q.get("from") ?? 0);
        const to = Number(q.get("to") ?? Infinity);
        return { schema: "metier.series-list/1", series: seriesOf(run).map((s) => thin(s, Number(q.get("points") ?? 4000), from, to)) };
      }
      if (parts[2] === "advice") return { schema: "metier.advice/1", run: parts[1], advice: { firmness: "refused", basis: "Made-up runs get no advice.", quotas: [], notes: [] } };
      if (parts[2] === "processes") {
        if (run.state !== "running") return makeProcesses(run);
        throw new Refusal(404, "Not Found", `run ${run.id} has no process tree: it is written at the end, and the run is still under way`);
      }
    }
    if (path === "compare") {
      const side = (name) => (q.get(name) ?? "").split(",").filter(Boolean).flatMap((id) => {
        const batch = runs.filter((r) => r.batch === id);
        return batch.length > 0 ? batch : [find(id)];
      });
      return makeComparison(side("a"), side("b"));
    }
    if (path === "devices") return { schema: "metier.devices/1", devices: isEmpty ? [] : DEVICES };
    if (parts[0] === "devices") {
      const device = DEVICES.find((d) => d.id === parts[1]);
      if (device) return device;
      throw new Refusal(404, "No such device", `No device has the id ${parts[1]}.`);
    }
    if (path === "workloads") {
      const names = [...new Set(runs.map((r) => r.workload.id))];
      return { schema: "metier.workloads/1", workloads: names.map((id) => ({ schema: "metier.workload/1", id, name: id, kind: "command", command: [], digest: null, first_seen: "2026-01-01T00:00:00Z" })) };
    }
    if (path === "power") return makePower(Date.now());
    if (path === "power/predictors") return makePredictors(q);
    if (path === "doctor") return { schema: "metier.doctor/1", checks: CHECKS };
    throw new Refusal(404, "No such address", `There is nothing at /api/v1/${path}.`);
  }

  function file(path, response) {
    const full = normalize(join(DIST, path === "/" ? "index.html" : path));
    if (!full.startsWith(DIST) || !existsSync(full) || !statSync(full).isFile()) throw new Refusal(404, "Not found", path);
    response.writeHead(200, { "content-type": TYPES[extname(full)] ?? "application/octet-stream", "content-security-policy": POLICY, "x-content-type-options": "nosniff" });
    createReadStream(full).pipe(response);
  }

  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://local");
    const send = (status, body, type = "application/json") => {
      response.writeHead(status, { "content-type": type });
      response.end(JSON.stringify(body));
    };
    const handle = () => {
      try {
        if (url.pathname === "/healthz") return send(200, { status: "ok" });
        if (!url.pathname.startsWith("/api/v1/")) return file(url.pathname, response);
        if (token !== "" && request.headers.authorization !== `Bearer ${token}`) throw new Refusal(401, "A token is needed", "Send it as Authorization: Bearer TOKEN.");
        const path = url.pathname.slice("/api/v1/".length);
        if (path.split("/")[0] === "sessions") return send(...queue(request.method, path.split("/"), sent === "" ? {} : JSON.parse(sent)));
        return send(200, answer(path, url.searchParams));
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        return send(error.status, { type: "about:blank", title: error.title, status: error.status, detail: error.detail, errors: error.errors }, "application/problem+json");
      }
    };
    let sent = "";
    request.on("data", (part) => (sent += part));
    request.on("end", () => (delay > 0 ? setTimeout(handle, delay) : handle()));
  });
  const [host, port] = listen.split(":");
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.listen(Number(port), host, () => {
      resolve({ url: `http://${host}:${server.address().port}/`, runs, stop: () => new Promise((done) => { server.closeAllConnections?.(); server.close(done); }) });
    });
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const flag = (name) => {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? undefined : process.argv[at + 1];
  };
  const started = await startServer({ listen: flag("listen"), token: flag("token"), isEmpty: process.argv.includes("--empty"), delay: Number(flag("delay") ?? 0) });
  console.log(`ready ${started.url}`);
}
