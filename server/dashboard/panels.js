// Charts of the overview, with the functions that extract their values from samples.

import { bytes, count, duration, percent, rate, short } from "./format.js";
import { growth, lines, quantile } from "./series.js";

const byLabel = (list, nameOf, valueOf) => {
  const values = {};
  for (const item of list) values[nameOf(item)] = (values[nameOf(item)] ?? 0) + valueOf(item);
  return values;
};

const events =
  (...wanted) =>
  ({ events }) =>
    byLabel(
      events.filter(({ event }) => wanted.includes(event)),
      ({ reason }) => reason,
      ({ count }) => count,
    );

const gauges = (read) => (picked) => lines(picked, read);

const rates = (read) => (picked) => lines(picked, read, { perSecond: true });

const opened = (sample) => ({
  opened: sample.events.filter(({ event }) => event === "opened").reduce((sum, { count }) => sum + count, 0),
  ...byLabel(
    sample.resumes,
    ({ outcome }) => (outcome === "recovered" ? "resumed" : "not resumed"),
    ({ count }) => count,
  ),
});

const connected = ({ connections, parked }) => ({
  ...byLabel(
    connections.filter(({ open }) => open > 0),
    ({ transport, dialect }) => `${transport} ${dialect}`,
    ({ open }) => open,
  ),
  parked,
});

function roundTrips({ samples }) {
  const line = (name, share) => {
    const points = samples.slice(1).map((sample, index) => [sample.at_ms, quantile(samples[index].ping_rtt, sample.ping_rtt, share)]);
    return { name, points, now: points.findLast(([, value]) => value !== null)?.[1] ?? null };
  };
  return [line("p50, at most", 0.5), line("p99, at most", 0.99)];
}

function processor({ samples }) {
  const points = growth(samples.map(({ at_ms, process }) => [at_ms, process.cpu_ms / 1000]));
  return [{ name: "of one core", points, now: points.at(-1)?.[1] ?? 0 }];
}

export const PANELS = [
  { title: "Sessions by phase", format: count, least: 4, read: gauges(({ sessions }) => sessions) },
  { title: "Connections", format: count, least: 4, read: gauges(connected) },
  { title: "Opened and resumed", format: rate, read: rates(opened) },
  { title: "Suspended, by reason", format: rate, read: rates(events("suspended")) },
  { title: "Ended, by reason", format: rate, read: rates(events("closed", "expired")) },
  {
    title: "Refused, by reason",
    format: rate,
    read: rates(({ refusals }) =>
      byLabel(
        refusals,
        ({ reason }) => reason,
        ({ count }) => count,
      ),
    ),
  },
  { title: "Messages", format: rate, read: rates(({ messages }) => messages) },
  { title: "Ping round trips", format: duration, read: roundTrips },
  {
    title: "Timer lateness",
    format: duration,
    read: gauges(({ timers: { lateness } }) => ({ p50: lateness.p50_ms, p99: lateness.p99_ms, "p99.9": lateness.p999_ms })),
  },
  { title: "Timers", format: short, least: 4, read: gauges(({ timers }) => ({ timers: timers.entries })) },
  {
    title: "Memory",
    format: bytes,
    least: 1 << 20,
    base: 1024,
    read: gauges(({ process, log_bytes }) => ({ resident: process.resident_bytes, messages: log_bytes })),
  },
  { title: "CPU", format: percent, least: 0.01, read: processor },
];
