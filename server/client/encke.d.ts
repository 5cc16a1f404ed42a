/** A position in a channel or a pattern. */
export interface Position {
  epoch: string;
  offset: number;
}

/** Where a subscription starts, instead of with the next message: after a position, or with the newest `last` messages of the log. */
export interface From {
  since?: Position;
  last?: number;
}

export type Transport = "websocket" | "events" | "poll";

export interface Options {
  /**
   * The JSON Web Token, or a function that fetches one. The function is called for each connection, and again when its token has
   * expired. If it fails, the client waits and calls it again.
   */
  token?: string | (() => string | Promise<string>);
  /** Channels and patterns to subscribe to, from the first connection or from a position on. A refused one emits `unsubscribed`. */
  channels?: (string | ({ channel: string } & From))[];
  /** Transports to use, in order of preference. Default: all, or all except WebSocket where there is no `WebSocket`. */
  transports?: Transport[];
  /** Time limit for the hello of a transport, after which the next transport is tried. Default: 10,000. */
  hello_ms?: number;
  /** The WebSocket constructor, for platforms without one, or to replace it: that of `ws`, for instance. */
  WebSocket?: new (url: string) => any;
}

/** A client, which stays connected until it is closed. */
export interface Client {
  readonly state: State["state"];
  /** Calls the listener for each event of this type, in order. Returns a function that removes the listener. */
  on<K extends keyof Events>(type: K, listener: (body: Events[K]) => void): () => void;
  /**
   * Subscribes to a channel or pattern, from now or from a position on. A temporary refusal (`unavailable`, `overloaded`,
   * `rate_limited`) is retried. A new session continues the subscription after the last message.
   */
  subscribe(channel: string, options?: From): Promise<Subscribed & { recovered?: boolean }>;
  unsubscribe(channel: string): Promise<{}>;
  /**
   * Publishes data that can be serialised as JSON. Without an answer, the publish is repeated after a reconnect with the same key
   * (random unless given): the server executes it once, as long as it remembers the key. In a new session, which may not know the
   * key, it fails with `outcome_unknown`.
   */
  publish(channel: string, data: unknown, options?: { key?: string }): Promise<Position>;
  presence(channel: string): Promise<Presence>;
  /** Calls the backend. Fails with `outcome_unknown` if the connection ends before the answer. */
  call<T = any>(method: string, data?: unknown): Promise<{ data: T }>;
  /** Ends the session. Unanswered commands fail with `closed`. Resolves when the server was notified, if it is reachable. */
  close(): Promise<void>;
}

/**
 * Error of a command. `code` is an error code of the server (`forbidden`, `bad_channel`, `limit`, ...), or `closed`,
 * `outcome_unknown`, or `overloaded` if 1,024 commands are unanswered already.
 */
export interface EnckeError extends Error {
  code: string;
}

export interface Events {
  state: State;
  /** The client has changed its transport, because the previous one does not work, or a better one works again. */
  fallback: { from: Transport; to: Transport };
  hello: Hello;
  message: Message;
  gap: Gap;
  reply: Reply;
  /** A subscription has ended, or was refused: the token does not allow it, or the server refused a channel of the options. */
  unsubscribed: { channel: string; reason: string };
  /** The server has subscribed this session to a channel. */
  subscribed: Subscribed;
  goaway: { reason: string; retry_ms: number };
}

export type State =
  | { state: "connecting"; transport: Transport }
  | { state: "open"; transport: Transport }
  /** Reconnects after `delay_ms`, or when the page becomes visible or online. */
  | { state: "waiting"; reason: string; delay_ms?: number }
  /** Final: by the server (`kicked`, `replaced`, `unauthorized`, `token_expired` if `token` is not a function, ...), or by `close` (`normal`). */
  | { state: "closed"; reason: string };

/** Over HTTP, a new session emits two: one when the session is opened, and one, `recovered`, when its stream is opened. */
export interface Hello {
  version: number;
  session: string;
  resume: string;
  /** Whether the session was resumed. A new session continues subscriptions after their last messages. */
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
  /** The pattern that delivered the message. `epoch` of the channel is set as well. */
  pattern?: { name: string } & Position;
  epoch?: string;
  user?: string;
  at_ms?: number;
  /** A session subscribed or unsubscribed, if the channel's namespace has `join_leave`. */
  joined?: Follower;
  left?: Follower;
}

/** A session, with the id from its `hello`. */
export interface Follower {
  session: string;
  user?: string;
}

/** Messages that can no longer be delivered. Without `from` and `to`, their number is unknown. */
export interface Gap {
  /** Undefined if the client detected the gap: the server subscribed a new session to the channel. */
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
  /** With session ids if `joined` and `left` are sent. */
  present: { session?: string; user: string | null; phase: string }[];
  /** The users of these sessions, each once, with the numbers of their sessions and of those that have a connection. */
  users: { user: string; sessions: number; connections: number }[];
  incomplete?: string[];
}

/** Connects to the server at this URL: `http://host:8000`, `https://...`, `ws://...`, or, in a page, a path on its own server. */
export function connect(url: string | { readonly href: string }, options?: Options): Client;
