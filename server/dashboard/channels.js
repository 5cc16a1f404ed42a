// Channels: the busiest, the fullest, and those that most sessions follow.

import { get, poll, reasonOf } from "./api.js";
import { card, el, heading, named, setText, table } from "./dom.js";
import { bytes, count, rate } from "./format.js";
import { channelLink } from "./route.js";

const REFRESH_MS = 5000;
const MOST = 20;

const ORDERS = [
  { title: "Busiest", column: "Messages a second", sort: "rate", format: rate, valueOf: ({ rate }) => rate },
  { title: "Fullest", column: "Bytes", sort: "bytes", format: bytes, valueOf: ({ bytes }) => bytes },
  { title: "Most followed", column: "Followers", sort: "followers", format: count, valueOf: ({ subscribers }) => subscribers },
];

export function channels(root, { live, signal }) {
  const says = el("p", { class: "notice", role: "status", hidden: true });
  // Channels in Redis are known to whoever has to do with them.
  const nothing = live.server.engine === "redis" ? "This server has to do with no channel now; others may." : "There is no channel.";
  const lists = ORDERS.map((order) => ranking(order, nothing));
  root.append(
    heading("Channels"),
    says,
    find(),
    el(
      "div",
      { class: "columns three" },
      lists.map(({ element }) => element),
    ),
  );

  const look = () => Promise.all(lists.map(({ read }) => read(signal)));
  poll(REFRESH_MS, signal, look, (error) => {
    says.hidden = !error;
    setText(says, error ? `Not read: ${reasonOf(error)}` : "");
  });
}

function ranking({ title, column, sort, format, valueOf }, nothing) {
  let most = 1;
  const none = el("p", { class: "note", hidden: true }, nothing);
  const rows = table(
    title,
    [{ title: "Channel" }, { title: column, number: true }],
    ({ channel, pattern }) => {
      const fill = el("div", { class: "fill" });
      const value = el("span", { data: { channel, sort } });
      const link = el("a", { href: channelLink(channel) }, named(channel));
      const update = (item) => {
        setText(value, format(valueOf(item)));
        fill.style.width = `${(100 * valueOf(item)) / most}%`;
      };
      return {
        cells: [
          el("div", null, link, pattern ? el("small", null, " pattern") : null, el("div", { class: "bar", "aria-hidden": true }, fill)),
          value,
        ],
        update,
      };
    },
    { hidden: true },
  );
  return {
    element: card(title, null, none, rows.element),
    async read(signal) {
      const { channels } = await get(`/api/channels?sort=${sort}&limit=${MOST}`, signal);
      most = Math.max(Number.MIN_VALUE, ...channels.map(valueOf));
      rows.update(channels, ({ channel }) => channel);
      none.hidden = channels.length > 0;
      rows.element.hidden = channels.length === 0;
    },
  };
}

function find() {
  const name = el("input", { id: "channel", required: true, autocomplete: "off", spellcheck: "false", maxlength: 255 });
  const submit = (event) => {
    event.preventDefault();
    location.hash = channelLink(name.value);
  };
  return el(
    "form",
    { class: "filters", role: "search", "aria-label": "Channels", onsubmit: submit },
    el("p", null, el("label", { for: "channel" }, "Channel (whole name)"), name),
    el("button", { type: "submit" }, "Open"),
  );
}
