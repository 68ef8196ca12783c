// Writes quantities as metier-types/src/quantity.rs does, so that the page and the terminal agree to the letter.

import type { Maybe, Unit } from "./api/records";

/** Fixed decimals with ties to even, as Rust's formatter rounds; `toFixed` alone rounds ties up. */
function fixed(x: number, decimals: number): string {
  const scale = 10 ** decimals;
  const scaled = x * scale;
  // Only binary fractions can be true ties; for others `scaled` is a rounded product and toFixed is right.
  const isTie = Math.abs(scaled % 1) === 0.5 && Number.isInteger(x * 32);
  if (!isTie) return x.toFixed(decimals);
  const down = Math.floor(scaled);
  return ((down % 2 === 0 ? down : down + 1) / scale).toFixed(decimals);
}

/** Half away from zero, as `f64::round`. */
function round(x: number): number {
  return Math.sign(x) * Math.round(Math.abs(x));
}

/** Three significant digits without an exponent; whole numbers stay whole above 100. */
export function threeDigits(x: number): string {
  const a = Math.abs(x);
  if (a >= 99.95) return fixed(x, 0);
  if (a >= 9.995) return fixed(x, 1);
  if (a >= 0.01 || a === 0) return fixed(x, 2);
  return fixed(x, 4);
}

const two = (n: number): string => String(n).padStart(2, "0");

export function seconds(s: number): string {
  const a = Math.abs(s);
  if (!Number.isFinite(s)) return "?";
  if (a >= 3600) {
    const minutes = round(s / 60);
    return `${Math.trunc(minutes / 60)} h ${two(minutes % 60)} min`;
  }
  if (a >= 119.5) {
    const whole = round(s);
    return `${Math.trunc(whole / 60)} min ${two(whole % 60)} s`;
  }
  if (a >= 0.9995) return `${threeDigits(s)} s`;
  if (a >= 0.0009995) return `${threeDigits(s * 1e3)} ms`;
  if (a >= 0.0000009995) return `${threeDigits(s * 1e6)} µs`;
  if (a > 0) return `${threeDigits(s * 1e9)} ns`;
  return "0 s";
}

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(n: number): string {
  let value = n;
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit + 1 < BINARY.length) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${Math.round(n)} B` : `${threeDigits(value)} ${BINARY[unit]}`;
}

export const ratio = (x: number): string => `${threeDigits(x * 100)} %`;
export const joules = (x: number): string => `${threeDigits(x)} J`;
export const watts = (x: number): string => `${threeDigits(x)} W`;
export const celsius = (x: number): string => `${fixed(x, 1)} °C`;
export const cores = (x: number): string => `${threeDigits(x)} ${x === 1 ? "core" : "cores"}`;

export function hertz(x: number): string {
  return x >= 1e9 ? `${threeDigits(x / 1e9)} GHz` : `${threeDigits(x / 1e6)} MHz`;
}

/** Whole numbers with thin spaces between thousands: `12 345`. */
export function count(n: number): string {
  if (!Number.isInteger(n)) return threeDigits(n);
  return String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** A change with its sign: `+3.10 %`, `−12.0 %`. */
export function change(x: number): string {
  return (x < 0 ? "−" : "+") + ratio(Math.abs(x));
}

/** What a record's field holds, told by the end of its name. */
export function unitOfField(field: string): Unit {
  if (field.endsWith("_seconds")) return "seconds";
  if (field.endsWith("_bytes")) return "bytes";
  if (field.endsWith("_joules")) return "joules";
  if (field.endsWith("_watts")) return "watts";
  if (field.endsWith("_ratio")) return "ratio";
  if (field.endsWith("_hertz")) return "hertz";
  if (field.endsWith("_celsius")) return "celsius";
  return "count";
}

export function quantity(value: number, unit: string): string {
  switch (unit) {
    case "seconds":
      return seconds(value);
    case "nanoseconds":
      return seconds(value / 1e9);
    case "bytes":
      return bytes(value);
    case "joules":
      return joules(value);
    case "microjoules":
      return joules(value / 1e6);
    case "watts":
      return watts(value);
    case "ratio":
      return ratio(value);
    case "hertz":
      return hertz(value);
    case "celsius":
      return celsius(value);
    default:
      return count(value);
  }
}

/** A field of a record, or a dash where it is absent. */
export function field(value: Maybe<number>, name: string): string {
  return value === null || value === undefined ? "–" : quantity(value, unitOfField(name));
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** Local date and time, ISO-like so that columns line up: `2026-03-01 14:05:09`. */
export function moment(text: string): string {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return text;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock.format(at)}`;
}

/** How long ago, in the coarsest unit that says it: `3 min ago`. */
export function ago(text: string, now: number): string {
  const s = (now - new Date(text).getTime()) / 1000;
  if (!Number.isFinite(s)) return "";
  if (s < 45) return "just now";
  if (s < 3600) return `${Math.max(1, Math.round(s / 60))} min ago`;
  if (s < 86_400) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86_400)} d ago`;
}

/** A sentence as it begins. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** The short form of a run's or batch's id that people type: its last 8 digits. */
export const shortId = (id: string): string => id.replaceAll("-", "").slice(-8);
