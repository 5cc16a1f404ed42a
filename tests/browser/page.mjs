// Opens pages in Chromium from the server at `address`. In these pages, `emit` prints an object.

import { chromium } from "playwright-core";
import { emit, untilTestEnds } from "./test.mjs";

export async function openPage(address) {
  const [page] = await openTabs(address, 1);
  return page;
}

// Opens tabs of one browser, which share its cookies.
export async function openTabs(address, count) {
  // Chromium's sandbox does not work as root.
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false });
  untilTestEnds().then(() => browser.close());
  const context = await browser.newContext();
  const openTab = async () => {
    const page = await context.newPage();
    page.on("pageerror", (error) => {
      throw error;
    });
    await page.exposeFunction("emit", emit);
    // The page loads even if the server responds to this path with 404.
    await page.goto(`http://${address}/`);
    return page;
  };
  return Promise.all(Array.from({ length: count }, openTab));
}
