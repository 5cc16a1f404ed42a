// node pages.mjs event_source_page.mjs ADDRESS CHANNELS
//
// Runs Chromium's EventSource. Prints the objects received, and `readyState` at each error.

import { openPage } from "./page.mjs";

export async function run([address, channels], test) {
  const page = await openPage(test, address);
  await page.evaluate((channels) => {
    const source = new EventSource(`/events?channels=${channels}`);
    source.onmessage = ({ data }) => emit(JSON.parse(data));
    source.onerror = () => emit({ error: source.readyState });
  }, channels);
}
