// node event_source_page.mjs ADDRESS CHANNELS
//
// Runs Chromium's EventSource. Prints the objects received, and `readyState` at each error.

import { openPage } from "./page.mjs";

const [address, channels] = process.argv.slice(2);
const page = await openPage(address);
await page.evaluate((channels) => {
  const source = new EventSource(`/events?channels=${channels}`);
  source.onmessage = ({ data }) => emit(JSON.parse(data));
  source.onerror = () => emit({ error: source.readyState });
}, channels);
