import { connect, type EnckeError, type Gap, type Message } from "encke";

const client = connect(new URL("http://127.0.0.1:8000"), {
  token: async () => "a.b.c",
  channels: ["news", { channel: "/chat/*", since: { epoch: "e", offset: 7 } }],
  transports: ["websocket", "poll"],
  WebSocket,
});
const stop: () => void = client.on("message", ({ seq, channel, data }: Message<{ text: string }>) => console.log(seq + 1, channel, data.text));
client.on("gap", ({ from, to }: Gap) => console.log((from ?? 0) + (to ?? 0)));
client.on("state", (now) => {
  if (now.state === "open") console.log(now.transport);
  else if (now.state === "closed") console.log(now.reason);
});
client.on("fallback", ({ from, to }) => console.log(from, to));
connect("/", { token: async () => null });
// @ts-expect-error There is no such event.
client.on("mesage", () => {});
// @ts-expect-error The property is read-only.
client.state = "open";
// @ts-expect-error There is no such transport.
connect("/", { transports: ["carrier pigeon"] });

export async function all(): Promise<number> {
  const { epoch, offset } = await client.publish("news", { any: ["json", null] }, { key: "k" });
  const { recovered } = await client.subscribe("news", { since: { epoch, offset } });
  const { data } = await client.call<{ sum: number }>("add", [1, 2]);
  const { present } = await client.presence("news");
  await client.unsubscribe("news").catch(({ code }: EnckeError) => code.length);
  stop();
  await client.close();
  return recovered ? data.sum : present.length;
}
