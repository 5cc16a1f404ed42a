// node dashboard.mjs URL
//
// The dashboard at URL in Chromium. A line on standard input is one thing to do, {"KIND":[ARGUMENT...]}; when it is done, {"done":VALUE} is
// printed, or {"failed":TEXT}. What no dashboard may do is printed as {"fault":TEXT}: errors, dialogs, requests to elsewhere, and what its
// Content-Security-Policy forbids.

import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import axe from "axe-core";
import { chromium } from "playwright-core";
import { withPalette } from "./png.mjs";
import { tell, untilTestEnds } from "./test.mjs";

const LONGEST_MS = 15_000;

const url = process.argv[2];
// Chromium's sandbox does not run as root.
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false });
untilTestEnds().then(() => browser.close());
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const page = await context.newPage();
page.setDefaultTimeout(LONGEST_MS);
page.on("pageerror", (error) => tell({ fault: String(error) }));
page.on("dialog", (dialog) => {
  tell({ fault: `dialog: ${dialog.message()}` });
  dialog.dismiss();
});
page.on("request", (request) => request.url().startsWith(url) || tell({ fault: `request: ${request.url()}` }));
page.on("websocket", (socket) => tell({ socket: socket.url() }));
await page.exposeFunction("tell", tell);
await page.addInitScript(() => {
  addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
    tell({ fault: `policy: ${violatedDirective} ${blockedURI}` });
  });
});

const does = {
  open: async (hash) => void (await page.goto(`${url}/${hash}`)),
  // Done when the page has changed.
  go: (hash) =>
    page.evaluate((hash) => {
      if (location.hash === hash) return;
      const changed = new Promise((resolve) => addEventListener("hashchange", () => resolve(), { once: true }));
      location.hash = hash;
      return changed;
    }, hash),
  back: async () => void (await page.goBack()),
  reload: async () => void (await page.reload()),
  view: async ({ width, height, ...media }) => {
    await page.setViewportSize({ width, height });
    await page.emulateMedia(media);
  },
  // What is there and can be seen.
  texts: (selector) => page.locator(selector).filter({ visible: true }).allTextContents(),
  count: (selector) => page.locator(selector).count(),
  attribute: (selector, name) => page.locator(selector).first().getAttribute(name),
  title: () => page.title(),
  click: (selector, options) => page.locator(selector).first().click(options),
  fill: (selector, text) => page.locator(selector).fill(text),
  choose: (selector, label) => page.locator(selector).selectOption({ label }),
  press: (key) => page.keyboard.press(key),
  type: (text) => page.keyboard.type(text),
  focused: () => page.evaluate(() => document.activeElement?.textContent || document.activeElement?.id),
  // Everything in which a text could be kept, but for what is being typed.
  kept: (text) =>
    page.evaluate((text) => {
      const stores = [localStorage, sessionStorage].map((store) => JSON.stringify(store));
      const values = Array.from(document.querySelectorAll("input, textarea"), ({ value }) => value);
      return [document.documentElement.outerHTML, location.href, document.cookie, ...stores, ...values].some((place) =>
        place.includes(text),
      );
    }, text),
  // From here on, this is answered for the server: no status is no answer.
  answer: (method, path, status, error) =>
    page.route(`${url}${path}`, (route) => {
      if (route.request().method() !== method) return route.fallback();
      return status === 0 ? route.abort() : route.fulfill({ status, json: { error } });
    }),
  // How wide the page is, and how wide its window.
  widths: () => page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]),
  axe: async () => {
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const bad = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    return bad.map(({ id, nodes }) => [id, ...nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`)]);
  },
  picture: async (path) => {
    await page.evaluate(() => scrollTo(0, 0));
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, withPalette(await page.screenshot()));
  },
};

tell({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  for (const [kind, args] of Object.entries(JSON.parse(line))) {
    try {
      tell({ done: (await does[kind](...args)) ?? null });
    } catch (error) {
      tell({ failed: `${kind}: ${error}` });
    }
  }
}
process.exit();
