// Client of Encke. A message is received once emitted; a command is resent until it is answered.

const NEVER_MS = 2 ** 31 - 1; // `retry_ms`: do not reconnect.
const MAX_PAUSE_MS = 30_000;
const RETRY_BETTER_MS = 300_000; // How soon better transports are retried.
const MAX_COMMANDS = 1024;
const MAX_SENT = 8;
const MAX_HELD = 1024;
const MAX_SEEN = 4096;
const MAX_WARNED = 1024;

const CLOSE = '{"close":{}}';
const REFUSALS = /unauthorized|forbidden|token_expired/;
const TOKEN = /^[^\s<{"]+$/; // Excludes error pages. A backend may issue tokens other than JWTs.
const JWT = /^[^.]+\.[^.]+\.[^.]+$/;
const OPTIONS = {
  connect: ["token", "channels", "transports", "persist", "hello_ms", "WebSocket"],
  transports: ["websocket", "events", "poll"],
  channels: ["channel", "since", "last"],
  subscribe: ["since", "last"],
  publish: ["key"],
  history: ["before", "since", "epoch", "limit"],
  on: ["state", "hello", "message", "gap", "subscribed", "unsubscribed", "fallback", "goaway", "reply"],
};

const clientCounts = {}; // Of this page, by server.

export function connect(url, options = {}) {
  checkOptions("connect", options);
  const { token, channels = [], persist = "tab", hello_ms = 10_000, WebSocket = globalThis.WebSocket } = options;
  const { transports = OPTIONS.transports.slice(WebSocket ? 0 : 1) } = options;
  for (const [name, value] of Object.entries({ channels, transports })) {
    if (!Array.isArray(value)) throw new TypeError(`encke: expected a list as the option ${name}, not a value of type ${typeof value}`);
  }
  if (!(hello_ms > 0)) throw new TypeError(`encke: expected a number of milliseconds as the option hello_ms, not ${hello_ms}`);
  if (!transports.length || transports.some((each) => !OPTIONS.transports.includes(each))) {
    throw new TypeError(`encke: expected some of ${OPTIONS.transports.join(", ")} as the option transports, not [${transports}]`);
  }
  if (!WebSocket && transports.includes("websocket")) throw new TypeError("encke: this platform has no WebSocket; pass a class as the option WebSocket");
  for (const each of channels) if (typeof each === "object") checkOptions("channels", each);
  const base = baseOf(url);
  const entry = `encke ${base} ${(clientCounts[base] = (clientCounts[base] ?? 0) + 1)}`;
  const keys = `${Math.random()}-${Date.now()}-`;
  const listeners = {};
  const page = new AbortController();
  const subscriptions = new Map(); // Name to session and pending command.
  const positions = new Map(); // Last message of each, for a new session.
  const seen = new Map(); // Last message of each channel, by any pattern.
  const commands = new Map();
  const warned = new Set(); // Channels and codes of retried subscriptions.
  const dropped = new Set(); // Channels of the previous page being unsubscribed: new subscriptions wait.
  let session = {}; // Its query: `seq` is the last one emitted.
  let isInherited, wasLeft;
  let inherited = []; // Of the tab's previous page.
  let state = "connecting";
  let link, timer, touchedAt, timeouts, auth, tokenError;
  let lastId = 0, failures = 0, factor = 1;
  let at = 0, opened, betterAt = 0; // Indices of the current and the last working transport.

  // A listener that throws must not affect others.
  const emit = (type, body) => listeners[type]?.forEach((listener) => Promise.resolve(body).then(listener));
  const setState = (now, more) => emit("state", { state: (state = now), ...more });

  const isFixed = typeof token !== "function";

  // Null if the function `token` returned null.
  async function tokenOf() {
    if (token === undefined || token === null) return;
    const value = isFixed ? token : await token();
    if (value === null) return null;
    const jwt = value?.trim?.();
    if (TOKEN.test(jwt ?? "")) return jwt;
    const what = jwt === undefined ? `a value of type ${typeof value}` : `a text that begins with "${jwt.slice(0, 16)}"`;
    throw new TypeError(`expected a token, not ${what}`);
  }

  async function open() {
    clearTimeout(timer);
    const transport = transports[at];
    const mine = (link = { transport, sent: 0, held: [] });
    setState("connecting", { transport });
    touch(mine);
    const jwt = await tokenOf().catch((error) => {
      if (mine !== link) return;
      if (tokenError !== String(error)) console.warn("encke: the option token failed:", error);
      tokenError = String(error);
      lost(mine, { reason: "token", answered: true, isFinal: isFixed });
    });
    if (mine !== link) return;
    if (jwt === null) return finish("no_token");
    tokenError = undefined;
    mine.query = auth = jwt ? { token: jwt } : {};
    touch(mine);
    try {
      await (transport === "websocket" ? openWebSocket : openHttp)(mine);
    } catch (error) {
      lost(mine, error);
    }
  }

  const urlOf = (path, query) => `${base}${path}?${new URLSearchParams({ ...session, ...auth, ...query })}`;

  function openWebSocket(mine) {
    // For the successor of a failed server.
    const reports = session.resume && timeouts.positions;
    const url = urlOf("ws", { heartbeat: "message", ...(reports && { positions: 1 }) });
    const socket = new WebSocket(url.replace("http", "ws"));
    if (reports)
      socket.onopen = () => {
        const known = [...positions].map(([channel, { epoch, offset }]) => [channel, [epoch, offset]]);
        mine.send({ text: JSON.stringify({ positions: Object.fromEntries(known) }) });
      };
    mine.send = ({ text }) => socket.send(text);
    mine.end = () => {
      socket.onmessage = socket.onclose = null; // The next link resumes it.
      socket.close();
    };
    socket.onmessage = ({ data }) => receive(mine, [JSON.parse(data)]);
    socket.onclose = ({ code, reason }) => {
      lost(mine, { reason, status: code, answered: code === 1011 || code === 1013 || code >= 4000, isFinal: code === 1000 || code >= 4100 });
    };
    socket.onerror = ({ message }) => (mine.cause = message); // Outside browsers, errors would throw.
  }

  async function openHttp(mine) {
    sendByPost(mine);
    if (mine.transport === "poll") {
      // Checks that the session exists: a held poll does not tell.
      if (session.resume) await request(mine, "poll", "[]");
      for (;;) {
        if (session.resume) confirm(mine);
        receive(mine, await request(mine, "poll"));
        if (!session.resume) throw { reason: "no_hello" };
        if (mine.held.length) await mine.posting; // A poll would return them again.
      }
    }
    // Without channels, only a poll opens a session.
    if (!session.resume) for (const object of await request(mine, "poll")) handle(mine, object);
    const reader = (await request(mine, "events")).pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) throw {};
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      receive(mine, lines.flatMap((line) => (line.startsWith("data: ") ? JSON.parse(line.slice(6)) : [])));
    }
  }

  // One request at a time, so that none overtakes another.
  function sendByPost(mine) {
    const queue = [];
    let limit = MAX_SENT;
    const send = async () => {
      await null; // More may follow.
      while (queue.length) {
        const batch = queue.splice(0, limit);
        try {
          const body = `[${batch.map(({ text }) => text)}]`;
          for (const object of await request(mine, "poll", body)) handle(mine, object);
        } catch (error) {
          if (error.status !== 413) return lost(mine, error);
          if (batch.length > 1) queue.unshift(...batch);
          else handle(mine, { reply: { id: batch[0].id, error } });
          limit = 1;
        }
      }
      mine.posting = undefined;
    };
    mine.send = (command) => {
      queue.push(command);
      mine.posting ??= send();
    };
  }

  async function request(mine, path, body) {
    if (mine !== link && body !== CLOSE) throw {};
    const signal = body ? AbortSignal.timeout(limit_ms(mine)) : (mine.ended = new AbortController()).signal;
    const headers = { "content-type": "application/json" };
    const post = body && { method: "POST", body, headers, keepalive: body === CLOSE };
    const response = await fetch(urlOf(path), { cache: "no-store", signal, ...post });
    if (response.ok) return path === "events" ? response.body : await response.json();
    const { status } = response;
    const { error = {} } = await response.json().catch(() => ({}));
    const reason = status === 401 ? error.message : error.code;
    throw { ...error, reason, status, answered: error.code, isFinal: /unauthorized|forbidden/.test(reason) };
  }

  const limit_ms = ({ isOpen }) => (isOpen ? factor * (timeouts.ping_interval_ms + timeouts.pong_timeout_ms) : hello_ms);

  function touch(mine) {
    if (mine !== link) return;
    touchedAt = Date.now();
    clearTimeout(timer);
    timer = setTimeout(() => {
      // A long message may take longer.
      if (mine.isOpen) factor = Math.min(2 * factor, 16);
      lost(mine, { reason: "timeout", answered: !mine.query }); // No query: `token` takes long.
    }, limit_ms(mine));
  }

  function reconnect() {
    if (!link && state !== "closed") open();
    else if (link?.isOpen && Date.now() - touchedAt > limit_ms(link)) lost(link, { reason: "timeout" });
  }

  function confirm(mine) {
    if (mine !== link || mine.isOpen) return;
    inherit();
    mine.isOpen = true;
    failures = 0;
    if (at && Date.now() >= betterAt) betterAt = Date.now() + RETRY_BETTER_MS;
    if (at !== (opened ?? 0)) emit("fallback", { from: transports[opened ?? 0], to: transports[at] });
    opened = at;
    setState("open", { transport: transports[at] });
    touch(mine);
    for (const command of commands.values()) {
      // A key belongs to a user or a session.
      const isKnown = mine.query.token && Date.now() - command.sentAt < timeouts.reconnect_window_ms;
      const isOther = command.session && command.session !== session;
      if (command.kind === "publish" && isOther && !isKnown) fail(command);
    }
    for (const [channel, subscription] of subscriptions) {
      if (subscription.session !== session && !subscription.command) submit("subscribe", { channel }, { isInternal: true });
    }
    flush();
  }

  function dropLink() {
    clearTimeout(timer);
    link?.ended?.abort();
    link?.end?.();
    link = undefined;
  }

  function lost(mine, { reason, status, answered, isFinal, cause = mine.cause }) {
    if (mine !== link) return;
    cause = reason || cause?.message || cause || (status ? `status ${status}` : "no response");
    reason ||= "connection_lost";
    dropLink();
    // The inherited session is another user's or a duplicate tab's.
    if (isInherited && /replaced|superseded|unauthorized|forbidden/.test(reason)) {
      isFinal = isInherited = false;
      mine.retry_ms = 0;
      session = {};
    }
    // An error in one word looks like a token.
    if (!isFixed && reason === "unauthorized" && !JWT.test(auth.token)) isFinal = false;
    if (!token && at && reason === "unauthorized") isFinal = at = status = 0;
    if (isFinal || (reason === "token_expired" && isFixed && token)) {
      if (REFUSALS.test(reason)) console.warn(`encke: closed for good: ${reason}; see the server's log`);
      return finish(reason);
    }
    for (const command of commands.values()) {
      // 1009: message too long.
      if (command.link === mine && (command.kind === "call" || status === 1009)) fail(command);
    }
    let delay_ms = mine.retry_ms ?? Math.random() * Math.min(MAX_PAUSE_MS, 500 * 2 ** failures);
    // A transport that has worked is not blocked.
    const isBlocked = !mine.isOpen && !answered && (opened !== at || failures > 2) && at + 1 < transports.length;
    const isNews = !isBlocked && opened === undefined && failures === 1 && reason !== "token";
    if (isNews) console.warn(`encke: cannot connect to ${base}: ${cause}; retrying`);
    failures += isBlocked ? 0 : 1;
    at = isBlocked ? at + 1 : Date.now() < betterAt ? opened : 0;
    if (status === 410 || status === 401) session = {};
    if (isBlocked || (status === 410 && mine.isOpen)) delay_ms = 0;
    setState("waiting", { reason, delay_ms });
    timer = setTimeout(open, delay_ms);
  }

  async function sendClose() {
    if (link?.isOpen && link.end) link.send({ text: CLOSE });
    else if (session.resume && (auth.token || transports[at] !== "websocket")) await request({}, "poll", CLOSE).catch(() => {});
    else if (session.resume) await closeByWebSocket();
  }

  // For sessions authenticated by a cookie: only WebSockets send cookies.
  const closeByWebSocket = () =>
    new Promise((resolve) => {
      const socket = new WebSocket(urlOf("ws").replace("http", "ws"));
      socket.onopen = () => socket.send(CLOSE);
      const limit = setTimeout(resolve, hello_ms);
      socket.onclose = socket.onerror = () => resolve(clearTimeout(limit));
    });

  function finish(reason) {
    dropLink();
    page.abort();
    setState("closed", { reason });
    for (const command of commands.values()) fail(command, "closed", reason);
  }

  // Stores the session for the tab's next page, if possible.
  function store() {
    if (persist !== "tab" || !session.resume) return;
    const all = [...subscriptions].map(([channel, { byServer }]) => [channel, positions.get(channel), byServer]);
    const until = Date.now() + timeouts.reconnect_window_ms;
    try {
      sessionStorage.setItem(entry, JSON.stringify({ keys, until, session, timeouts, all }));
      return true;
    } catch {} // Not available, or full.
  }

  // Takes over the session of the tab's previous page. Removes the entry, so that no duplicate of the tab finds it.
  function restore() {
    let stored;
    if (persist !== "tab") return;
    try {
      stored = JSON.parse(sessionStorage.getItem(entry));
      sessionStorage.removeItem(entry);
    } catch {}
    if (stored?.keys === keys) return;
    session = {};
    if (!(stored?.until > Date.now())) return;
    ({ session, timeouts, all: inherited } = stored);
    isInherited = true;
  }

  // Continues the previous page's subscriptions that this page or the server made, and ends the others.
  function inherit() {
    for (const [channel, since, byServer] of inherited.splice(0)) {
      const command = subscriptions.get(channel)?.command;
      if (since && command && !command.last && !positions.has(channel)) positions.set(channel, since);
      else if (!isInherited) continue;
      else if (byServer && !command) {
        subscriptions.set(channel, { session, byServer });
        if (since) positions.set(channel, since);
        emit("subscribed", { channel, ...since });
      } else {
        dropped.add(channel);
        submit("unsubscribe", { channel }, { isInternal: true });
      }
    }
  }

  const forget = (channel) => [subscriptions, positions].forEach((map) => map.delete(channel));

  function submit(kind, body, { isInternal, since, last } = {}) {
    const id = ++lastId;
    const { channel } = body;
    const command = { id, kind, isInternal, channel, last };
    const answer = new Promise((resolve, reject) => {
      Object.assign(command, { resolve, reject, text: JSON.stringify({ id, [kind]: body }) });
    });
    answer.catch(() => {}); // Not every caller awaits it.
    if (!command.text) return answer;
    if (state === "closed") fail(command, "closed");
    else if (commands.size >= MAX_COMMANDS && !isInternal) fail(command, "overloaded");
    else {
      commands.set(id, command);
      if (kind === "subscribe") {
        if (since && !subscriptions.has(channel)) {
          positions.set(channel, since);
          if (channel.endsWith("*")) seen.clear();
          else seen.delete(channel);
        }
        subscriptions.set(channel, { ...subscriptions.get(channel), command });
      }
      if (kind === "unsubscribe" && !isInternal) forget(channel);
      flush();
    }
    return answer;
  }

  function fail(command, code = "outcome_unknown", message = code) {
    commands.delete(command.id);
    command.reject(Object.assign(new Error(message), { code }));
  }

  function flush() {
    if (!link?.isOpen) return;
    const waiting = new Set(); // The commands of a channel keep their order.
    for (const command of commands.values()) {
      if (link.pausedOn || link.sent >= MAX_SENT) return;
      const { id, kind, channel, last } = command;
      if (command.pausedOn === link) waiting.add(channel);
      if (command.link === link || waiting.has(channel) || (kind === "subscribe" && dropped.has(channel))) continue;
      const since = positions.get(channel);
      if (kind === "subscribe") command.text = JSON.stringify({ id, subscribe: since ? { channel, since } : { channel, last } });
      command.sentAt ??= Date.now();
      Object.assign(command, { link, session });
      link.sent += 1;
      link.send(command);
    }
  }

  function settle(mine, { id, ok, error }) {
    const command = commands.get(id);
    if (command?.link !== mine) return;
    const { kind, channel, last = 0 } = command;
    mine.sent -= 1;
    // Not executed, or safe to repeat.
    if (error && /rate_limited|draining|subscribe,(unavail|overload|timeout|backend)|publish,outcome/.test([kind, error.code])) {
      command.link = undefined;
      if (kind === "subscribe") warnOfRetry(channel, error);
      const paused = /rate|drain/.test(error.code) ? mine : command;
      if (paused.pausedOn) return;
      paused.pausedOn = mine;
      setTimeout(() => {
        paused.pausedOn = undefined;
        flush();
      }, 1000 + 500 * Math.random());
      return flush();
    }
    commands.delete(id);
    if (command.isInternal && kind === "unsubscribe") dropped.delete(channel);
    if (subscriptions.get(channel)?.command === command) {
      subscriptions.set(channel, { session });
      if (error) forget(channel);
      else if (!positions.has(channel)) move(channel, ok.epoch, Math.max(ok.offset - last, 0));
      if (error && command.isInternal) {
        if (!listeners.unsubscribed?.size) console.warn(`encke: not subscribed to ${channel}: ${error.code}: ${error.message}`);
        emit("unsubscribed", { channel, reason: error.code });
      }
    }
    if (error) fail(command, error.code, error.message);
    else command.resolve(ok);
    for (const object of mine.held.splice(0)) handle(mine, object);
    flush();
  }

  function warnOfRetry(channel, { code, message }) {
    const cause = `${channel}: ${code}`;
    if (warned.has(cause)) return;
    if (warned.size >= MAX_WARNED) warned.clear();
    warned.add(cause);
    console.warn(`encke: cannot subscribe to ${cause}: ${message}; the client retries, see the server's log`);
  }

  function receive(mine, objects) {
    for (const object of objects) {
      handle(mine, object);
      if (object.hello) confirm(mine);
    }
    touch(mine);
  }

  function handle(mine, object) {
    if (mine !== link) return;
    const [[receivedKind, body]] = Object.entries(object);
    const { channel, epoch, offset, pattern, seq } = body;
    const kind = seq && dropped.has(pattern?.name ?? channel) ? "dropped" : receivedKind;
    // The reply may follow messages, which have no epoch.
    const isEarly = kind === "message" && !pattern && !positions.has(channel) && subscriptions.get(channel)?.command?.link === mine;
    if (isEarly || (mine.held.length && /message|gap|dropped|subscribed/.test(kind))) {
      if (mine.held.push({ [kind]: body }) > MAX_HELD) lost(mine, {});
      return;
    }
    if (kind !== "hello") factor = 1;
    else {
      if (!body.recovered) {
        session = {};
        isInherited = false;
      }
      Object.assign(session, { resume: body.resume, seq });
      timeouts = body;
      failures = 0;
    }
    if (/message|gap|dropped/.test(kind)) {
      if (seq <= session.seq) return; // Polls may overlap.
      session.seq = seq;
      if (kind === "dropped") return;
    }
    if (kind === "ping") return mine.send({ text: JSON.stringify({ pong: { seq: session.seq } }) });
    if (kind === "message" && isRepeated(body)) return;
    if (kind === "gap") move(channel, epoch, body.to ?? 0);
    if (kind === "unsubscribed") forget(channel);
    if (kind === "subscribed") {
      const last = positions.get(channel);
      if (last && last.epoch + last.offset !== epoch + offset) emit("gap", { channel, epoch });
      subscriptions.set(channel, { session, byServer: true });
      move(channel, epoch, offset);
    }
    if (kind === "goaway") mine.retry_ms = body.retry_ms;
    emit(kind, body);
    if (kind === "reply") settle(mine, body);
    if (kind === "hello" && mine.isOpen) lost(mine, {}); // Another session answered a poll.
    if (kind === "goaway" && !mine.end) lost(mine, { ...body, answered: true, isFinal: body.retry_ms >= NEVER_MS });
  }

  const move = (name, epoch, offset) => subscriptions.has(name) && positions.set(name, { epoch, offset });

  // A new session may repeat a message for another pattern.
  function isRepeated({ channel, pattern, offset, epoch = positions.get(channel)?.epoch }) {
    if (pattern) move(pattern.name, pattern.epoch, pattern.offset);
    const last = seen.get(channel);
    if (!epoch || (last?.epoch === epoch && offset <= last.offset)) return Boolean(epoch);
    if (seen.size > MAX_SEEN) seen.clear();
    seen.set(channel, { epoch, offset });
    if (positions.has(channel)) move(channel, epoch, offset);
    return false;
  }

  for (const each of channels) {
    submit("subscribe", { channel: each.channel ?? each }, { ...each, isInternal: true });
  }
  const listen = (type, listener, target = globalThis) => target.addEventListener?.(type, listener, page);
  listen("online", () => {
    betterAt = 0; // A new network may allow better ones.
    if (!link) at = 0;
    reconnect();
  });
  listen("pageshow", () => {
    if (wasLeft) restore();
    wasLeft = false;
    reconnect();
  });
  listen("visibilitychange", ({ target }) => target.hidden || reconnect(), globalThis.document);
  listen("pagehide", () => {
    wasLeft = true;
    const isStored = store();
    if (!isStored) sendClose();
    if (link) lost(link, { reason: "pagehide", answered: true });
    clearTimeout(timer);
    if (!isStored) session = {};
  });
  restore();
  queueMicrotask(reconnect);

  return {
    get state() {
      return state;
    },
    on(type, listener) {
      checkOptions("on", { [type]: listener });
      const all = (listeners[type] ??= new Set());
      all.add(listener);
      return () => all.delete(listener);
    },
    subscribe: (channel, options) => submit("subscribe", { channel }, checkOptions("subscribe", options)),
    unsubscribe: (channel) => submit("unsubscribe", { channel }),
    publish(channel, data, options) {
      const { key = keys + lastId } = checkOptions("publish", options);
      return submit("publish", { channel, data, key });
    },
    presence: (channel) => submit("presence", { channel }),
    history: (channel, options) => submit("history", { channel, ...checkOptions("history", options) }),
    call: (method, data) => submit("call", { method, data }),
    async close() {
      if (state === "closed") return;
      const closing = sendClose();
      finish("normal");
      await closing;
    },
  };
}

function baseOf(url) {
  const { href, protocol, pathname } = new URL(url, globalThis.location?.href ?? "no-scheme:/");
  const path = /\/(ws|events|poll|encke\.js)$/.exec(pathname)?.[0];
  const wrong = !/^(http|ws)s?:$/.test(protocol) ? `the scheme ${protocol}` : /[?#]/.test(href) ? "a query or fragment" : path && `the path ${path}`;
  if (!wrong) return href.replace(/^ws/, "http").replace(/\/?$/, "/");
  throw new TypeError(`encke: ${wrong} in the URL; expected the server's address, such as http://host:8000`);
}

function checkOptions(of, options) {
  options ??= {};
  if (typeof options !== "object") throw new TypeError(`encke: expected an object as the options of ${of}, not ${options}`);
  const known = OPTIONS[of];
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) console.warn(`encke: unknown option ${name} of ${of}; the options are ${known.join(", ")}`);
  }
  return options;
}
