// node pages.mjs dashboard.mjs URL
//
// Opens the dashboard at URL in Chromium. Each line on standard input is a command, {"KIND":[ARGUMENT...]};
// its result is printed as {"done":VALUE} or {"failed":TEXT}. Everything that the dashboard must not do is
// printed as {"fault":TEXT}: errors, dialogs, requests to other origins, and violations of its
// Content-Security-Policy.

import axe from "axe-core";

const TIMEOUT_MS = 60_000;

// Commands that only read the page, and can therefore be repeated.
const READS = ["attribute", "count", "focused", "texts", "title", "widths"];

// Repeats a command that a navigation has interrupted.
async function duringNavigations(act) {
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (!/context was destroyed/.test(error)) throw error;
    }
  }
}

export async function run([url], { newContext, emit, commands }) {
  const context = await newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  page.on("pageerror", (error) => emit({ fault: String(error) }));
  page.on("dialog", (dialog) => {
    emit({ fault: `dialog: ${dialog.message()}` });
    dialog.dismiss();
  });
  page.on("request", (request) => request.url().startsWith(url) || emit({ fault: `request: ${request.url()}` }));
  page.on("websocket", (socket) => emit({ socket: socket.url() }));
  await page.exposeFunction("emit", emit);
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
      emit({ fault: `policy: ${violatedDirective} ${blockedURI}` });
    });
  });

  const acts = {
    open: async (hash) => void (await page.goto(`${url}/${hash}`)),
    // Completes when the page has changed.
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
    // Returns the texts of the visible elements.
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
    // Returns whether the page keeps a text anywhere. Text being typed counts, too.
    kept: (text) =>
      page.evaluate((text) => {
        const stores = [localStorage, sessionStorage].map((store) => JSON.stringify(store));
        const values = Array.from(document.querySelectorAll("input, textarea"), ({ value }) => value);
        return [document.documentElement.outerHTML, location.href, document.cookie, ...stores, ...values].some((place) =>
          place.includes(text),
        );
      }, text),
    // From now on, responds to this request instead of the server; status 0 aborts it.
    answer: (method, path, status, error) =>
      page.route(`${url}${path}`, (route) => {
        if (route.request().method() !== method) return route.fallback();
        return status === 0 ? route.abort() : route.fulfill({ status, json: { error } });
      }),
    // Returns the widths of the page and of the window.
    widths: () => page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]),
    axe: async () => {
      if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe.source);
      const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
      const bad = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      return bad.map(({ id, nodes }) => [id, ...nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`)]);
    },
    picture: async (path) => {
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path });
    },
  };

  emit({ ready: true });
  for await (const command of commands) {
    for (const [kind, args] of Object.entries(command)) {
      try {
        const act = () => acts[kind](...args);
        emit({ done: (await (READS.includes(kind) ? duringNavigations(act) : act())) ?? null });
      } catch (error) {
        emit({ failed: `${kind}: ${error}` });
      }
    }
  }
}
