// The main numbers at a glance.

import { el, number, setText } from "./dom.js";
import { bytes, count, duration, percent, plural, rate } from "./format.js";

export function tiles(live) {
  const list = el("dl", { class: "tiles" });
  const tile = (title, name) => {
    const value = number(name);
    const note = el("small", { data: { name: `${name}.note` } });
    list.append(el("div", null, el("dt", null, title), el("dd", null, value, note)));
    return (text, more = "") => {
      setText(value, text);
      setText(note, more);
    };
  };
  const sessions = tile("Sessions", "sessions");
  const connections = tile("Connections", "connections");
  const channels = tile("Channels", "channels");
  const messages = tile("Published", "published");
  const delivered = tile("Delivered", "delivered");
  const reminders = tile("Reminders", "reminders");
  const memory = tile("Memory", "resident");
  const up = tile("Uptime", "uptime");
  return { element: list, update };

  function update() {
    const { last, server } = live;
    const before = live.samples.at(-6) ?? live.samples[0];
    const seconds = Math.max(1, (last.at_ms - before.at_ms) / 1000);
    const perSecond = (key) => rate((last.messages[key] - before.messages[key]) / seconds);
    const { attached, suspended } = last.sessions;
    const open = last.connections.reduce((sum, { open }) => sum + open, 0);
    sessions(count(attached + suspended), `${count(attached)} attached, ${count(suspended)} suspended`);
    connections(count(open), `${count(last.parked)} parked`);
    channels(count(last.channels), `${bytes(last.log_bytes)} of messages`);
    messages(perSecond("published"), `${count(last.messages.published)} total`);
    delivered(perSecond("delivered"), `${count(last.messages.delivered)} total, ${plural(last.messages.gaps, "gap")}`);
    reminders(count(last.reminders), `engine: ${engine(last.engine, server.engine)}`);
    memory(bytes(last.process.resident_bytes), `${percent((last.process.cpu_ms - before.process.cpu_ms) / 1000 / seconds)} of a core`);
    list.dataset.uptimeMs = last.uptime_ms;
    up(duration(last.uptime_ms), `version ${server.version}`);
  }
}

function engine(state, kind) {
  if (!state) return kind;
  return `${kind}, ${state.up ? plural(state.servers, "server") : "unreachable"}`;
}
