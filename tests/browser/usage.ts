import { connect, type Message } from "encke";

declare const process: { argv: string[] };

const client = connect(process.argv[2] ?? "", { channels: ["news"] });
client.on("message", ({ data }: Message<{ text: string }>) => {
  console.log(JSON.stringify({ received: data.text }));
  void client.close();
});
await client.publish("news", { text: "hello" });
