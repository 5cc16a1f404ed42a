// A page in Chromium, of the origin of the server at `address`. Within it, `tell` prints an object.

import { chromium } from "playwright-core";
import { tell, untilTestEnds } from "./test.mjs";

export async function openPage(address) {
  // Chromium's sandbox does not run as root.
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false });
  untilTestEnds().then(() => browser.close());
  const page = await browser.newPage();
  page.on("pageerror", (error) => {
    throw error;
  });
  await page.exposeFunction("tell", tell);
  // That there is nothing to see at this path makes it no less a page.
  await page.goto(`http://${address}/`);
  return page;
}
