// Human-readable numbers.

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const count = (number) => whole.format(number);

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

// Rounds to three significant digits.
export function short(number) {
  const size = Math.abs(number);
  if (size >= 100 || size === 0) return whole.format(number);
  return String(Number(number.toPrecision(size < 1 ? 2 : 3)));
}

export const rate = (number) => `${short(number)}/s`;

export const percent = (share) => `${short(100 * share)} %`;

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = number < 1024 ? 0 : Math.min(Math.floor(Math.log2(number) / 10), units.length - 1);
  return `${short(number / 1024 ** power)} ${units[power]}`;
}

export function duration(ms) {
  if (ms < 1000) return `${short(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const parts = [
    [31_557_600, "years"],
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const at = parts.findIndex(([size]) => seconds >= size);
  const [[size, unit], next] = [parts[at], parts[at + 1]];
  if (unit === "years") return `${compact.format(seconds / size)} years`;
  const rest = Math.floor((seconds % size) / next[0]);
  return `${Math.floor(seconds / size)} ${unit}${rest > 0 ? ` ${rest} ${next[1]}` : ""}`;
}

export const time = (at_ms) => clock.format(at_ms);

export const ago = (ms) => (ms < 1000 ? "just now" : `${duration(ms)} ago`);

// Converts names of the API, such as `poll_gap`, to words.
export const words = (label) => label.replaceAll("_", " ");
