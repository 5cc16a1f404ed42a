/** A place in a channel, or in what a pattern matches. */
export interface Position {
  epoch: string;
  offset: number;
}

/** Where to begin, rather than with what comes next: after a position, or with the newest `last` messages that the log has. */
export interface From {
  since?: Position;
  last?: number;
}

export type Transport = "websocket" | "events" | "poll";

export interface Options {
  /**
   * The JSON Web Token, or what fetches one. It is asked for each connection, and again when its token has expired. If it fails, the
   * client waits and asks again.
   */
  token?: string | (() => string | Promise<string>);
  /** Channels and patterns to follow from the first connection on, or from a place. One that is refused is told as `unsubscribed`. */
  channels?: (string | ({ channel: string } & From))[];
  /** Those that may be used, the best first. All, unless there is no WebSocket. */
  transports?: Transport[];
  /** How long a transport may take to bring a hello before the next one is tried: 10,000 by default. */
  hello_ms?: number;
  /** A constructor, where there is none, or another one: that of `ws`, for instance. */
  WebSocket?: new (url: string) => any;
}

/** Follows channels and speaks for as long as it is not closed. */
export interface Client {
  readonly state: State["state"];
  /** Calls the listener with each object of this kind, in their order. Returns what takes it away again. */
  on<K extends keyof Events>(type: K, listener: (body: Events[K]) => void): () => void;
  /**
   * Follows a channel or pattern, from now on or from a place on. Refused for the moment (`unavailable`, `overloaded`, `rate_limited`),
   * it is asked again. In another session, it is followed from its last message on.
   */
  subscribe(channel: string, options?: From): Promise<Subscribed & { recovered?: boolean }>;
  unsubscribe(channel: string): Promise<{}>;
  /**
   * Publishes what can be written as JSON. Without an answer, it is repeated with its key (which is random unless it is given) when the client is
   * back: the server does it once, for as long as it knows the key. In another session, which may not know it, it fails with `outcome_unknown`.
   */
  publish(channel: string, data: unknown, options?: { key?: string }): Promise<Position>;
  presence(channel: string): Promise<Presence>;
  /** Asks the backend. It fails with `outcome_unknown` if the connection ends before the answer. */
  call<T = any>(method: string, data?: unknown): Promise<{ data: T }>;
  /** Ends the session. What has no answer yet fails with `closed`. Resolves when the server was told, as far as it can be. */
  close(): Promise<void>;
}

/**
 * How a command failed. `code` is that of the wire (`forbidden`, `bad_channel`, `limit`, ...), or `closed`, `outcome_unknown`, or `overloaded`, if 1,024
 * commands wait for answers already.
 */
export interface EnckeError extends Error {
  code: string;
}

export interface Events {
  state: State;
  /** The client has changed its transport, since the one before does not get through, or does again. */
  fallback: { from: Transport; to: Transport };
  hello: Hello;
  message: Message;
  gap: Gap;
  reply: Reply;
  /** A channel is not followed any more, or not at all: the token does not allow it, or `channels` of the options was refused. */
  unsubscribed: { channel: string; reason: string };
  /** The server follows a channel for this session. */
  subscribed: Subscribed;
  goaway: { reason: string; retry_ms: number };
}

export type State =
  | { state: "connecting"; transport: Transport }
  | { state: "open"; transport: Transport }
  /** For `delay_ms`, or until the page is visible or online again. */
  | { state: "waiting"; reason: string; delay_ms?: number }
  /** For good: the server has said so (`kicked`, `replaced`, `unauthorized`, `token_expired` without a function for another, ...), or `close` (`normal`). */
  | { state: "closed"; reason: string };

/** Over HTTP, a new session says two: one when it is opened, and one, `recovered`, when its stream is. */
export interface Hello {
  version: number;
  session: string;
  resume: string;
  /** Whether the session goes on. In another, channels are followed from their last messages on. */
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
  /** Nothing, where `joined` or `left` is. */
  data: T;
  /** The pattern by which it came, and `epoch` of the channel then. */
  pattern?: { name: string } & Position;
  epoch?: string;
  user?: string;
  at_ms?: number;
  /** The server says who follows the channel from now on, or no longer, if the channel's namespace has `join_leave`. */
  joined?: Follower;
  left?: Follower;
}

/** A session, by the id that its `hello` has. */
export interface Follower {
  session: string;
  user?: string;
}

/** Messages that should have come, and cannot any more. Without `from` and `to`, nobody knows how many. */
export interface Gap {
  /** Nothing, if it is the client that has found it: the server follows a channel for another session. */
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
  /** With ids where `joined` and `left` are told. */
  present: { session?: string; user: string | null; phase: string }[];
  /** The users of these, each once: how many sessions it has among them, and how many of those have a connection. */
  users: { user: string; sessions: number; connections: number }[];
  incomplete?: string[];
}

/** Connects to the server at this URL: `http://host:8000`, `https://...`, `ws://...`, or, in a page, a path of its own server. */
export function connect(url: string | { readonly href: string }, options?: Options): Client;
