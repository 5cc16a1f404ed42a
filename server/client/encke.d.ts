/** A position in a channel or a pattern. */
export interface Position {
  epoch: string;
  offset: number;
}

/** Start of a subscription: after a position, or with the newest `last` messages of the log. Default: with the next message. */
export interface From {
  since?: Position;
  last?: number;
}

export type Transport = "websocket" | "events" | "poll";

export interface Options {
  /**
   * A token, or a function that fetches one. The function is called for each connection, and again when its token has
   * expired. If it throws or its result is malformed, the client waits and calls it again, and prints the cause as a warning
   * unless it is the same as before. If its result is null, the client gives up (`no_token`). White space around a token is
   * removed. The rest must not be empty, or contain white space, `<`, `{` or `"`, so HTML and JSON are rejected. If the
   * server refuses a token, the client is closed, and prints a warning.
   */
  token?: string | null | (() => string | null | Promise<string | null>);
  /** Channels and patterns to subscribe to when the client connects, optionally from a position. `unsubscribed` reports a refused one. */
  channels?: (string | ({ channel: string } & From))[];
  /** Transports to use, in order of preference. Default: all; without a `WebSocket` constructor, all except WebSocket. */
  transports?: Transport[];
  /**
   * What happens to the session when the page is left. `"tab"` (default): the session is stored in `sessionStorage`, and the
   * next page of this tab that connects to the server within the reconnect window continues it. `"none"` or any other value: the session ends.
   * If no token names the user, use `"none"`, or call `close` when the user signs out.
   */
  persist?: "tab" | "none";
  /** How long to wait for the hello on a transport before trying the next transport, in milliseconds. Default: 10,000. */
  hello_ms?: number;
  /** WebSocket constructor to use instead of the platform's, or on platforms without one, such as the one from the package `ws`. */
  WebSocket?: new (url: string) => any;
}

/** A client, which stays connected until it is closed, and reconnects when the connection is lost. */
export interface Client {
  readonly state: State["state"];
  /** Calls the listener for each event of this type, in order. Returns a function that removes the listener. */
  on<K extends keyof Events>(type: K, listener: (body: Events[K]) => void): () => void;
  /**
   * Subscribes to a channel or pattern, from now on or from a position. A temporary refusal (`unavailable`, `overloaded`,
   * `timeout`, `rate_limited`) is retried, with a warning for each channel and code. A new session continues the
   * subscription after the last message.
   */
  subscribe(channel: string, options?: From): Promise<Subscribed & { recovered?: boolean }>;
  unsubscribe(channel: string): Promise<{}>;
  /**
   * Publishes data that can be serialised as JSON. An unanswered publish is repeated after a reconnect with the same key (random
   * unless given): the server executes it only once, provided that it still remembers the key. In a new session, for which the key
   * may be unknown, the publish fails with `outcome_unknown`.
   */
  publish(channel: string, data: unknown, options?: { key?: string }): Promise<Position>;
  presence(channel: string): Promise<Presence>;
  /** Reads a page of a channel's history. Needs the permission `history`, but no subscription. */
  history<T = any>(channel: string, options?: HistoryOptions): Promise<HistoryPage<T>>;
  /** Calls the backend. Fails with `outcome_unknown` if the connection is lost before the reply. */
  call<T = any>(method: string, data?: unknown): Promise<{ data: T }>;
  /** Ends the session. Unanswered commands fail with `closed`. Resolves when the server has been notified, if it is reachable. */
  close(): Promise<void>;
}

/**
 * Error of a command. `code` is an error code of the server (`forbidden`, `bad_channel`, `limit`, ...), or `closed`,
 * `outcome_unknown`, or `overloaded` if 1,024 commands are already unanswered.
 */
export interface EnckeError extends Error {
  code: string;
}

export interface Events {
  state: State;
  /** The client has switched transports, because the previous one does not work or a better one works again. */
  fallback: { from: Transport; to: Transport };
  hello: Hello;
  message: Message;
  gap: Gap;
  reply: Reply;
  /** A subscription has ended, for example because the token no longer allows it, or a channel given in the options was refused. */
  unsubscribed: { channel: string; reason: string };
  /** The server has subscribed this session to a channel. Emitted again when a page continues the previous page's session. */
  subscribed: Subscribed;
  goaway: { reason: string; retry_ms: number };
}

export type State =
  | { state: "connecting"; transport: Transport }
  | { state: "open"; transport: Transport }
  /** Reconnects after `delay_ms`, or when the page becomes visible or online. Reason `token`: the function failed, or returned no token. */
  | { state: "waiting"; reason: string; delay_ms?: number }
  /**
   * Final. Closed by the server (`kicked`, `replaced`, `unauthorized`, `token_expired` if `token` is a string, ...), by
   * `close` (`normal`), because the function `token` returned null (`no_token`), or because a fixed token is malformed (`token`).
   */
  | { state: "closed"; reason: string };

/** Over HTTP, a new session emits two of these: the first when the session is opened, the second (`recovered`) when its stream is opened. */
export interface Hello {
  version: number;
  session: string;
  resume: string;
  /** Whether the session was resumed. In a new session, the client continues each subscription after its last message. */
  recovered: boolean;
  seq: number;
  ping_interval_ms: number;
  pong_timeout_ms: number;
  reconnect_window_ms: number;
}

export interface Message<T = any> {
  seq: number;
  channel: string;
  offset: number;
  /** Undefined if `joined` or `left` is set. */
  data: T;
  /** Pattern by which the message was delivered. */
  pattern?: { name: string } & Position;
  /** Epoch of the channel. Set if `pattern` is, or if the channel's epoch has changed. */
  epoch?: string;
  user?: string;
  at_ms?: number;
  /** The session that subscribed or unsubscribed. Only in channels whose namespace has `join_leave`. */
  joined?: Follower;
  left?: Follower;
}

/** A session, identified by the id in its `hello`. */
export interface Follower {
  session: string;
  user?: string;
}

/** Messages that can no longer be delivered. Without `from` and `to`, their number is unknown. */
export interface Gap {
  /** Undefined if the client detected the gap, when the server subscribed a new session to the channel. */
  seq?: number;
  channel: string;
  epoch: string;
  from?: number;
  to?: number;
}

export type Reply = { id: number; ok: any } | { id: number; error: { code: string; message: string } };

export type Subscribed = { channel: string } & Position;

export interface Presence {
  channel: string;
  total: number;
  /** Session ids are included if the channel sends `joined` and `left`. */
  present: { session?: string; user: string | null; phase: string }[];
  /** Users of these sessions, each listed once, with the number of their sessions and of the sessions that have a connection. */
  users: { user: string; sessions: number; connections: number }[];
  /** Whether there are more sessions than `present` lists. */
  truncated?: boolean;
  incomplete?: string[];
}

/** Default: the newest messages. `before` and `since` exclude each other. */
export interface HistoryOptions {
  /** The newest messages with a smaller offset. */
  before?: number;
  /** The first messages with a greater offset. */
  since?: number;
  /** Epoch to which the offset belongs. If the channel has another one, the page is empty. */
  epoch?: string;
  /** Maximum number of messages, from 1 to 256. Default: 50. The server also limits the size of a page. */
  limit?: number;
}

export interface HistoryPage<T = any> {
  /** Oldest message first. */
  messages: HistoryMessage<T>[];
  /** Undefined if the channel does not exist. */
  epoch?: string;
  /** Whether there are older messages or, with `since`, newer ones. */
  more: boolean;
}

export interface HistoryMessage<T = any> {
  /** Offset in the channel or the pattern whose history this is. */
  offset: number;
  data: T;
  /** Where the message was published; only in the history of a pattern. */
  channel?: string;
  channel_epoch?: string;
  channel_offset?: number;
  user?: string;
  at_ms?: number;
}

/**
 * Connects to the server at this URL: `http://host:8000`, `https://...`, `ws://...`, or, in a page, a path on the page's own server.
 * The client appends paths such as `/ws`. Throws a `TypeError` if the URL already has one of them, a query or another
 * scheme, if `channels` or `transports` is not a list, or if `transports` is empty or has an unknown entry.
 */
export function connect(url: string | { readonly href: string }, options?: Options): Client;
