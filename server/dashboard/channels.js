// Page of channels: lists of the channels with the highest rate, the most data, and the most subscribers.

import { get, poll, reasonOf } from "./api.js";
import { card, el, heading, named, setText, table } from "./dom.js";
import { bytes, count, rate } from "./format.js";
import { channelLink } from "./route.js";

const REFRESH_MS = 5000;
const MOST = 20;

const ORDERS = [
  { title: "Busiest", column: "Messages a second", sort: "rate", format: rate, valueOf: ({ rate }) => rate },
  { title: "Largest", column: "Bytes", sort: "bytes", format: bytes, valueOf: ({ bytes }) => bytes },
  { title: "Most subscribers", column: "Subscribers", sort: "subscribers", format: count, valueOf: ({ subscribers }) => subscribers },
];

export function channels(root, { live, signal }) {
  const notice = el("p", { class: "notice", role: "status", hidden: true });
  // With channels in Redis, a server knows only the channels that it uses.
  const emptyText = live.server.engine === "redis" ? "This server uses no channels at the moment; other servers may." : "There are no channels.";
  const lists = ORDERS.map((order) => ranking(order, emptyText));
  root.append(
    heading("Channels"),
    notice,
    openForm(),
    el(
      "div",
      { class: "columns three" },
      lists.map(({ element }) => element),
    ),
  );

  const look = () => Promise.all(lists.map(({ read }) => read(signal)));
  poll(REFRESH_MS, signal, look, (error) => {
    notice.hidden = !error;
    setText(notice, error ? `Update failed: ${reasonOf(error)}` : "");
  });
}

function ranking({ title, column, sort, format, valueOf }, emptyText) {
  let most = 1;
  const none = el("p", { class: "note", hidden: true }, emptyText);
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

function openForm() {
  const name = el("input", { id: "channel", required: true, autocomplete: "off", spellcheck: "false", maxlength: 255 });
  const submit = (event) => {
    event.preventDefault();
    location.hash = channelLink(name.value);
  };
  return el(
    "form",
    { class: "filters", role: "search", "aria-label": "Channels", onsubmit: submit },
    el("p", null, el("label", { for: "channel" }, "Channel (full name)"), name),
    el("button", { type: "submit" }, "Open"),
  );
}
