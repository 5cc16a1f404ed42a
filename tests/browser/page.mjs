// Pages in Chromium, of the origin of the server at `address`. Within them, `tell` prints an object.

import { chromium } from "playwright-core";
import { tell, untilTestEnds } from "./test.mjs";

export async function openPage(address) {
  const [page] = await openTabs(address, 1);
  return page;
}

// Tabs of one browser: they share its cookies.
export async function openTabs(address, count) {
  // Chromium's sandbox does not run as root.
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false });
  untilTestEnds().then(() => browser.close());
  const context = await browser.newContext();
  const openTab = async () => {
    const page = await context.newPage();
    page.on("pageerror", (error) => {
      throw error;
    });
    await page.exposeFunction("tell", tell);
    // That there is nothing to see at this path makes it no less a page.
    await page.goto(`http://${address}/`);
    return page;
  };
  return Promise.all(Array.from({ length: count }, openTab));
}
