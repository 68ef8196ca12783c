// Text of axis ticks.

const two = (n: number): string => String(n).padStart(2, "0");

/** A tick of the time axis, with as many digits as the step between ticks needs. */
export function axisTime(time: number, step: number): string {
  if (step < 1e-3) return `${trimZeros((time * 1e3).toFixed(Math.max(0, Math.ceil(-Math.log10(step * 1e3) - 1e-9))))} ms`;
  if (step < 1 && Math.abs(time) < 1) return `${Math.round(time * 1e3)} ms`;
  if (step < 1) return `${time.toFixed(Math.ceil(-Math.log10(step) - 1e-9))} s`;
  const whole = Math.round(time);
  if (whole < 60 && step < 60) return `${whole} s`;
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

const trimZeros = (text: string): string => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

/** A written quantity, shortened for an axis: `1.50 cores` is `1.5`, `2.00 GiB` is `2 GiB`. */
export function trimmed(text: string): string {
  return text.replace(/ cores?$/, "").replace(/^(-?\d+)\.(\d*?)0+(?=\D|$)/, (_, whole: string, part: string) => (part === "" ? whole : `${whole}.${part}`));
}
