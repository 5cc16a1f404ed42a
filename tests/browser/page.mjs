// Opens pages in Chromium from the server at `address`. In these pages, `emit` prints an object.

import { openBrowser } from "./browser.mjs";
import { emit } from "./test.mjs";

export async function openPage(address) {
  const [page] = await openTabs(address, 1);
  return page;
}

// Opens tabs that share their cookies.
export async function openTabs(address, count) {
  const browser = await openBrowser();
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
