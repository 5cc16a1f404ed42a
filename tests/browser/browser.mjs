// Opens Chromium: connects to the one that `browser_server.mjs` has started, if the test names it, else starts
// one. Contexts of one browser share nothing but its processes. The browser is closed when the test ends.

import { chromium } from "playwright-core";
import { untilTestEnds } from "./test.mjs";

// This build of Chromium has no user interface, and starts in a third of the time. Its sandbox does not work as root.
export const LAUNCH = { executablePath: "/usr/bin/chromium-headless-shell", chromiumSandbox: false };

export async function openBrowser() {
  const shared = process.env.ENCKE_TESTS_BROWSER;
  const browser = await (shared ? chromium.connect(shared) : chromium.launch(LAUNCH));
  untilTestEnds().then(() => browser.close());
  return browser;
}
