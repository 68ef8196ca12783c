// Talks to the API of the same origin. Every request has a time limit; every failure becomes a Problem with a
// sentence for people. Whether the server answers at all is kept in `state/server.svelte.ts`.

import { server } from "../state/server.svelte";
import type { Advice, Check, Comparison, Device, GraphTimes, NodePower, PowerPredictors, ProcessTree, Run, RunPage, Series, Session, Workload } from "./records";

const TIME_LIMIT_MS = 20_000;
/** A graph may be large, and the way to the server slow. */
const UPLOAD_LIMIT_MS = 120_000;

/** An RFC 9457 problem, or the nearest that can be made of what came back. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly errors: { field: string; got: string; want: string }[] = [],
  ) {
    super(detail === "" ? title : detail);
  }

  /** Nothing came back at all. */
  get isGone(): boolean {
    return this.status === 0;
  }
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body: unknown = await response.json();
    const { title, detail, errors } = body as { title?: string; detail?: string; errors?: Problem["errors"] };
    return new Problem(response.status, title ?? response.statusText, detail ?? "", Array.isArray(errors) ? errors : []);
  } catch {
    return new Problem(response.status, `The server answered ${response.status}`, response.statusText);
  }
}

export const get = <T>(path: string, query?: URLSearchParams, abort?: AbortSignal): Promise<T> => ask("GET", path, query, abort);

async function ask<T>(method: "GET" | "DELETE" | "POST", path: string, query?: URLSearchParams, abort?: AbortSignal, body?: Blob): Promise<T> {
  const limit = new AbortController();
  const limitMs = body === undefined ? TIME_LIMIT_MS : UPLOAD_LIMIT_MS;
  const stop = (): void => limit.abort();
  const timer = setTimeout(stop, limitMs);
  abort?.addEventListener("abort", stop, { once: true });
  const search = query?.toString() ?? "";
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/octet-stream";
  if (server.token !== "") headers["Authorization"] = `Bearer ${server.token}`;
  try {
    const response = await fetch(`api/v1/${path}${search === "" ? "" : `?${search}`}`, { method, headers, signal: limit.signal, cache: "no-store", body: body ?? null });
    if (response.status === 502 || response.status === 504) throw new Problem(0, "The server does not answer", "");
    server.answered();
    if (response.status === 401) server.wantsToken();
    if (!response.ok) throw await problemOf(response);
    return (await response.json()) as T;
  } catch (error) {
    if (abort?.aborted) throw error;
    if (error instanceof Problem && !error.isGone) throw error;
    server.failed();
    throw new Problem(0, "The server does not answer", limit.signal.aborted ? `No answer within ${limitMs / 1000} s.` : "It may have been stopped.");
  } finally {
    clearTimeout(timer);
    abort?.removeEventListener("abort", stop);
  }
}

const part = encodeURIComponent;

export const runs = (query: URLSearchParams, abort?: AbortSignal): Promise<RunPage> => get("runs", query, abort);

export const run = (id: string, abort?: AbortSignal): Promise<Run> => get(`runs/${part(id)}`, undefined, abort);

/** At most `points` rows of each series, between two times in nanoseconds since the start. */
export async function series(
  id: string,
  points: number,
  range: { from: number; to: number } | null,
  abort?: AbortSignal,
): Promise<Series[]> {
  const query = new URLSearchParams({ points: String(points) });
  if (range !== null) {
    query.set("from", String(Math.max(0, Math.floor(range.from))));
    query.set("to", String(Math.ceil(range.to)));
  }
  return (await get<{ series: Series[] }>(`runs/${part(id)}/series`, query, abort)).series;
}

export const processes = (id: string, abort?: AbortSignal): Promise<ProcessTree> => get(`runs/${part(id)}/processes`, undefined, abort);

export const advice = async (id: string, abort?: AbortSignal): Promise<Advice> => (await get<{ advice: Advice }>(`runs/${part(id)}/advice`, undefined, abort)).advice;

export const artefactPath = (id: string, name: string): string => `api/v1/runs/${part(id)}/artefacts/${part(name)}`;

/** Fetches a file with the token and hands it to the browser; without a token a plain link does. */
export async function saveArtefact(id: string, name: string): Promise<void> {
  const response = await fetch(artefactPath(id, name), { headers: { Authorization: `Bearer ${server.token}` }, cache: "no-store" });
  if (!response.ok) throw await problemOf(response);
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name.split(/[/\\]/).pop() ?? "file";
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

export const compare = (a: string[], b: string[], abort?: AbortSignal): Promise<Comparison> =>
  get("compare", new URLSearchParams({ a: a.join(","), b: b.join(",") }), abort);

export const devices = async (abort?: AbortSignal): Promise<Device[]> => (await get<{ devices: Device[] }>("devices", undefined, abort)).devices;

export const device = (id: string, abort?: AbortSignal): Promise<Device> => get(`devices/${part(id)}`, undefined, abort);

export const workloads = async (abort?: AbortSignal): Promise<Workload[]> =>
  (await get<{ workloads: Workload[] }>("workloads", undefined, abort)).workloads;

export const doctor = async (abort?: AbortSignal): Promise<Check[]> => (await get<{ checks: Check[] }>("doctor", undefined, abort)).checks;

export const sessions = async (abort?: AbortSignal): Promise<Session[]> =>
  (await get<{ sessions: Session[] }>("sessions", new URLSearchParams({ limit: "100" }), abort)).sessions;

export const cancelSession = (id: string): Promise<Session> => ask("DELETE", `sessions/${part(id)}`);

export const nodePower = (abort?: AbortSignal): Promise<NodePower> => get("power", undefined, abort);

export const powerPredictors = (query: URLSearchParams, abort?: AbortSignal): Promise<PowerPredictors> => get("power/predictors", query, abort);

/** Sends a graph; the server looks at it and keeps nothing. */
export const graphTimes = (file: Blob, query: URLSearchParams, abort?: AbortSignal): Promise<GraphTimes> => ask("POST", "graphs", query, abort, file);
