// What was picked for comparison: two sides, each of runs and batches. Kept for this tab.

export interface Picked {
  id: string;
  label: string;
}

export type Side = "a" | "b";

const KEY = "metier.selection";
const MOST = 50;

function kept(): Record<Side, Picked[]> {
  try {
    const value = JSON.parse(sessionStorage.getItem(KEY) ?? "") as Record<Side, Picked[]>;
    if (Array.isArray(value.a) && Array.isArray(value.b)) return { a: value.a, b: value.b };
  } catch {
    // Nothing kept, or not by us.
  }
  return { a: [], b: [] };
}

class Selection {
  #sides = $state<Record<Side, Picked[]>>(kept());

  side(side: Side): Picked[] {
    return this.#sides[side];
  }

  has(side: Side, id: string): boolean {
    return this.#sides[side].some((picked) => picked.id === id);
  }

  get isEmpty(): boolean {
    return this.#sides.a.length + this.#sides.b.length === 0;
  }

  get isReady(): boolean {
    return this.#sides.a.length > 0 && this.#sides.b.length > 0;
  }

  /** Puts it on a side or takes it off; nothing can be on both. */
  toggle(side: Side, picked: Picked): void {
    const other: Side = side === "a" ? "b" : "a";
    const without = (list: Picked[]): Picked[] => list.filter((one) => one.id !== picked.id);
    const isOn = this.has(side, picked.id);
    this.#sides[other] = without(this.#sides[other]);
    this.#sides[side] = isOn ? without(this.#sides[side]) : [...this.#sides[side], picked].slice(-MOST);
    this.#keep();
  }

  clear(): void {
    this.#sides = { a: [], b: [] };
    this.#keep();
  }

  #keep(): void {
    try {
      sessionStorage.setItem(KEY, JSON.stringify(this.#sides));
    } catch {
      // Not kept then.
    }
  }
}

export const selection = new Selection();
