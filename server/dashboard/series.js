// Converts the samples of the last 15 minutes to lines of charts.

const POINTS = 180;
const WINDOWS_S = [60, 120, 300, 900];

// Thins out the samples evenly, keeping the newest. Also returns the time that they span, rounded up to one
// of `WINDOWS_S`. Times are computed from the server's uptime, because the time of day may jump. They do not
// advance while the server's machine is suspended.
export function pick(timed) {
  const last = timed.at(-1);
  const samples = timed.map((sample) => ({ ...sample, at_ms: last.at_ms - (last.uptime_ms - sample.uptime_ms) }));
  const span_s = (last.at_ms - samples[0].at_ms) / 1000;
  const window_s = WINDOWS_S.find((window) => window >= span_s - 1) ?? WINDOWS_S.at(-1);
  const step_ms = (1000 * window_s) / POINTS;
  const from_ms = last.at_ms - 1000 * window_s;
  const picked = [];
  let taken;
  for (const sample of samples) {
    const step = Math.floor(sample.at_ms / step_ms);
    if (sample.at_ms < from_ms || step === taken) continue;
    taken = step;
    picked.push(sample);
  }
  if (picked.at(-1) !== samples.at(-1)) picked.push(samples.at(-1));
  return { samples: picked, window_s, to_ms: last.at_ms };
}

// Returns lines { name, points: [[at_ms, value]], now } of the values that `read(sample)` returns by name.
// `perSecond`: converts totals to their growth per second.
export function lines({ samples }, read, { perSecond = false, most = 5 } = {}) {
  const read_all = samples.map((sample) => [sample.at_ms, read(sample)]);
  const names = [...new Set(read_all.flatMap(([, values]) => Object.keys(values)))];
  const all = names.map((name) => {
    const points = read_all.map(([at_ms, values]) => [at_ms, values[name] ?? 0]);
    return { name, points: perSecond ? growth(points) : points };
  });
  return bounded(all, most).map((line) => ({ ...line, now: line.points.at(-1)?.[1] ?? 0 }));
}

export function growth(points) {
  return points.slice(1).map(([at_ms, total], index) => {
    const [before_ms, before] = points[index];
    return [at_ms, Math.max(0, (1000 * (total - before)) / Math.max(1, at_ms - before_ms))];
  });
}

// Limits the number of lines: the largest, and one for the sum of all others.
function bounded(all, most) {
  if (all.length <= most) return all;
  const sum = ({ points }) => points.reduce((sum, [, value]) => sum + value, 0);
  const sorted = [...all].sort((one, other) => sum(other) - sum(one));
  const rest = sorted.slice(most - 1);
  const points = rest[0].points.map(([at_ms], index) => [at_ms, rest.reduce((sum, line) => sum + line.points[index][1], 0)]);
  return [...sorted.slice(0, most - 1), { name: "other", points }];
}

// Returns an upper bound, in ms, on the time within which this share of the pings between two samples was
// answered, or null if no ping was answered.
export function quantile(before, after, share) {
  const counts = after.map(([, total], index) => total - (before[index]?.[1] ?? 0));
  const all = counts.at(-1);
  if (!(all > 0)) return null;
  const at = counts.findIndex((count) => count >= share * all);
  return after[at]?.[0] ?? after.at(-2)?.[0] ?? null;
}
