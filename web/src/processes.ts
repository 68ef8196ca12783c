// The tree of a run's processes. The list is in starting order, so a parent always stands before its children;
// a pid can come back, so a parent is the latest process of that pid before the child.
// Bounded work: building is linear, and only the rows in view are rendered (parts/ProcessTree.svelte).

import type { Process } from "./api/records";

export interface Node {
  index: number;
  process: Process;
  parent: Node | null;
  children: Node[];
  depth: number;
  /** This process and all below it. */
  size: number;
  cpuTotal: number | null;
  memoryMost: number | null;
}

export type Order = "start" | "cpu" | "memory";

function plus(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : a + b;
}

function most(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.max(a, b);
}

export function buildTree(processes: Process[]): Node[] {
  const latest = new Map<number, Node>();
  const nodes: Node[] = [];
  const roots: Node[] = [];
  for (const [index, process] of processes.entries()) {
    const parent = typeof process.parent === "number" ? (latest.get(process.parent) ?? null) : null;
    const node: Node = {
      index,
      process,
      parent,
      children: [],
      depth: parent === null ? 0 : parent.depth + 1,
      size: 1,
      cpuTotal: process.cpu_seconds ?? null,
      memoryMost: process.peak_resident_bytes ?? null,
    };
    (parent === null ? roots : parent.children).push(node);
    nodes.push(node);
    latest.set(process.pid, node);
  }
  for (let i = nodes.length - 1; i >= 0; i--) {
    const node = nodes[i] as Node;
    if (node.parent === null) continue;
    node.parent.size += node.size;
    node.parent.cpuTotal = plus(node.parent.cpuTotal, node.cpuTotal);
    node.parent.memoryMost = most(node.parent.memoryMost, node.memoryMost);
  }
  return roots;
}

function sorted(nodes: Node[], order: Order): Node[] {
  if (order === "start") return nodes;
  const key = order === "cpu" ? (n: Node) => n.cpuTotal ?? -1 : (n: Node) => n.memoryMost ?? -1;
  return nodes.slice().sort((a, b) => key(b) - key(a) || a.index - b.index);
}

/** The rows that are open, from top to bottom. */
export function visibleRows(roots: Node[], order: Order, closed: ReadonlySet<number>): Node[] {
  const out: Node[] = [];
  const pending = sorted(roots, order).slice().reverse();
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    out.push(node);
    if (closed.has(node.index)) continue;
    const children = sorted(node.children, order);
    for (let i = children.length - 1; i >= 0; i--) pending.push(children[i] as Node);
  }
  return out;
}

/** Nodes to show closed at first: those with many children, so that a long tree opens as an overview. */
export function closedAtFirst(roots: Node[], rows = 300): Set<number> {
  const closed = new Set<number>();
  const total = roots.reduce((sum, root) => sum + root.size, 0);
  if (total <= rows) return closed;
  const pending = [...roots];
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (node.depth >= 1 && node.children.length > 0) closed.add(node.index);
    pending.push(...node.children.filter((child) => child.children.length > 0));
  }
  return closed;
}

/** How a process ended, in few words. */
export function ending(process: Process): string {
  if (typeof process.signal === "number") return `signal ${process.signal}`;
  if (typeof process.exit_code === "number") return process.exit_code === 0 ? "0" : `code ${process.exit_code}`;
  return "–";
}
