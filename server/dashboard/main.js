// Shell of all pages: routing, the state of the stream, and signing in.

import { hasKey, onUnauthorized, setKey } from "./api.js";
import { channel } from "./channel.js";
import { channels } from "./channels.js";
import { el, setText } from "./dom.js";
import { duration, plural } from "./format.js";
import { limits } from "./limits.js";
import { Live } from "./live.js";
import { overview } from "./overview.js";
import { forgetPlayer, playground } from "./playground.js";
import { route } from "./route.js";
import { session } from "./session.js";
import { sessions } from "./sessions.js";
import { signIn } from "./sign_in.js";

const PAGES = [
  { path: "", title: "Overview", open: overview },
  { path: "sessions", title: "Sessions", open: sessions, one: session },
  { path: "channels", title: "Channels", open: channels, one: channel },
  { path: "limits", title: "Limits", open: limits },
  { path: "playground", title: "Playground", open: playground },
];

const live = new Live();
const main = document.getElementById("main");
const links = PAGES.map(({ path, title }) => el("a", { href: `#/${path}` }, title));
let shown = null; // AbortController of the current page.

document.getElementById("pages").append(...links.map((link) => el("li", null, link)));

function show({ byHand = false } = {}) {
  if (!live.server) return;
  const { name, item, query } = route(location.hash);
  const page = PAGES.find(({ path, one }) => path === name && (item === null || one));
  links.forEach((link, index) => {
    if (PAGES[index] === page) link.setAttribute("aria-current", item === null ? "page" : "true");
    else link.removeAttribute("aria-current");
  });
  const open = page ? (item === null ? page.open : page.one) : notFound;
  put(page ? (item ?? page.title) : "Not found", (root, signal) => open(root, { live, item, query, signal }));
  if (byHand) main.querySelector("h1")?.focus();
}

function put(title, open) {
  shown?.abort();
  shown = new AbortController();
  const root = el("div", { class: "page" });
  document.title = `${title} · Encke`;
  main.replaceChildren(root);
  open(root, shown.signal);
}

function notFound(root) {
  root.append(el("h1", { tabindex: -1 }, "Page not found"), el("p", null, el("a", { href: "#/" }, "Go to the overview")));
}

// Clears everything, so that the next user finds no data of the previous user.
function askForKey(error) {
  live.forget();
  forgetPlayer();
  setKey(null);
  document.getElementById("sign-out").hidden = true;
  setText(about, "Encke");
  put("Sign in", (root) => {
    signIn(root, error, (key) => {
      setKey(key);
      live.start();
    });
  });
}

// Moves the focus without following the link, because the URL fragment identifies a page.
function skip(event) {
  event.preventDefault();
  main.focus();
}

const stream = document.getElementById("stream");
const about = document.getElementById("about");

live.addEventListener("state", () => {
  stream.dataset.state = live.state;
  setText(stream.querySelector("b"), live.state === "locked" ? "signed out" : live.state);
  if (live.state === "locked") askForKey({ wasAsked: hasKey(), ...describe(live.error) });
});

const describe = ({ status, message }) => ({ status, message });

live.addEventListener("server", () => {
  document.getElementById("sign-out").hidden = !hasKey();
  // Forms and frames of a page survive a restart of the server.
  if (!main.querySelector(".page:not(.locked)")) show({ byHand: main.querySelector(".locked") !== null });
});

live.addEventListener("sample", () => {
  const { uptime_ms, sessions: held } = live.last;
  const all = plural(held.attached + held.suspended, "session");
  setText(about, `Encke ${live.server.version}, up ${duration(uptime_ms)}, ${all}`);
});

onUnauthorized(() => live.state !== "locked" && live.start());
document.getElementById("sign-out").addEventListener("click", () => askForKey(null));
document.querySelector(".skip").addEventListener("click", skip);
addEventListener("hashchange", () => show({ byHand: true }));
addEventListener("online", () => live.hurry());
document.addEventListener("visibilitychange", () => document.hidden || live.hurry());
live.start();
