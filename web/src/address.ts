// Addresses within the page: what stands after '#'. Pure, so that filters and zoom can be tested without a browser.
// Invariant: parse(format(address)) gives the same address; defaults are left out, so that links stay short.

export interface Filters {
  text: string;
  workload: string;
  device: string;
  state: string;
  cause: string;
  tag: string;
  batch: string;
  /** "true" lists warm-up runs too. */
  warmup: string;
  /** Cursor of the page, "" for the newest. */
  after: string;
}

export type Address =
  | { page: "runs"; filters: Filters }
  | { page: "run"; id: string; from: number | null; to: number | null }
  | { page: "compare"; a: string[]; b: string[] }
  | { page: "queue" }
  | { page: "graphs" }
  | { page: "power" }
  | { page: "devices" }
  | { page: "device"; id: string }
  | { page: "unknown"; text: string };

const FILTER_NAMES = ["text", "workload", "device", "state", "cause", "tag", "batch", "warmup", "after"] as const;

export const noFilters = (): Filters => ({
  text: "",
  workload: "",
  device: "",
  state: "",
  cause: "",
  tag: "",
  batch: "",
  warmup: "",
  after: "",
});

/** Whether anything narrows the list. */
export function isFiltered(filters: Filters): boolean {
  return FILTER_NAMES.some((name) => name !== "after" && name !== "warmup" && filters[name] !== "");
}

/** The filters as a query, for the page's address and for the API alike. */
export function filterQuery(filters: Filters): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of FILTER_NAMES) if (filters[name] !== "") query.set(name, filters[name]);
  return query;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function number(query: URLSearchParams, name: string): number | null {
  const text = query.get(name);
  const value = text === null || text === "" ? Number.NaN : Number(text);
  return Number.isFinite(value) ? value : null;
}

const list = (text: string | null): string[] => (text ?? "").split(",").filter((part) => part !== "");

export function parse(hash: string): Address {
  const text = hash.replace(/^#/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const query = new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1));
  const parts = path.split("/").filter((part) => part !== "").map(decode);
  const [first, second] = parts;
  if (parts.length > 2) return { page: "unknown", text };
  if (first === undefined || (first === "runs" && second === undefined)) {
    const filters = noFilters();
    for (const name of FILTER_NAMES) filters[name] = query.get(name) ?? "";
    return { page: "runs", filters };
  }
  if (first === "runs" && second !== undefined) {
    return { page: "run", id: second, from: number(query, "from"), to: number(query, "to") };
  }
  if (first === "compare" && second === undefined) {
    return { page: "compare", a: list(query.get("a")), b: list(query.get("b")) };
  }
  if (first === "graphs" && second === undefined) return { page: "graphs" };
  if (first === "power" && second === undefined) return { page: "power" };
  if (first === "queue" && second === undefined) return { page: "queue" };
  if (first === "devices") return second === undefined ? { page: "devices" } : { page: "device", id: second };
  return { page: "unknown", text };
}

export function format(address: Address): string {
  switch (address.page) {
    case "runs": {
      const query = filterQuery(address.filters).toString();
      return query === "" ? "#/runs" : `#/runs?${query}`;
    }
    case "run": {
      const path = `#/runs/${encodeURIComponent(address.id)}`;
      return address.from === null || address.to === null ? path : `${path}?from=${address.from}&to=${address.to}`;
    }
    case "compare":
      return `#/compare?a=${address.a.map(encodeURIComponent).join(",")}&b=${address.b.map(encodeURIComponent).join(",")}`;
    case "queue":
      return "#/queue";
    case "graphs":
      return "#/graphs";
    case "power":
      return "#/power";
    case "devices":
      return "#/devices";
    case "device":
      return `#/devices/${encodeURIComponent(address.id)}`;
    case "unknown":
      return `#${address.text}`;
  }
}

export const runLink = (id: string): string => format({ page: "run", id, from: null, to: null });
export const deviceLink = (id: string): string => format({ page: "device", id });
export const filterLink = (some: Partial<Filters>): string => format({ page: "runs", filters: { ...noFilters(), ...some } });
