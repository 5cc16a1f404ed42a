// node pages.mjs report.mjs FILE
//
// Opens a page written by loadgen in light and dark mode, wide and narrow. Prints its requests to other URLs
// and its console messages as faults, and for each view the results of legibility checks.

import { pathToFileURL } from "node:url";

export async function run([file], { emit, newContext }) {
  const url = pathToFileURL(file).href;
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 400]) {
      const context = await newContext({ colorScheme, viewport: { width, height: 900 } });
      const page = await context.newPage();
      page.on("request", (request) => request.url() === url || emit({ fault: request.url() }));
      page.on("console", (message) => emit({ fault: message.text() }));
      page.on("pageerror", (error) => emit({ fault: String(error) }));
      await page.goto(url);
      emit({ view: { colorScheme, width, ...(await page.evaluate(inspect)) } });
    }
  }
}

/** Runs in the page. */
function inspect() {
  const plots = [...document.querySelectorAll("svg")];
  const name = (plot) => plot.querySelector("text").textContent.trim();
  // Axes are polylines as well, in black.
  const marks = (plot) => [...plot.querySelectorAll("circle, polyline:not([stroke='#000000'])")];
  const isDrawn = (mark) => mark.getBoundingClientRect().width > 0;
  return {
    plots: plots.length,
    empty: plots.filter((plot) => !marks(plot).some(isDrawn)).map(name),
    overlapping: plots.flatMap((plot) => overlaps(plot).map((pair) => [name(plot), ...pair])),
    outside: plots.flatMap((plot) => outside(plot).map((text) => [name(plot), text])),
    isTooWide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    textContrast: Math.min(...plots.flatMap((plot) => [...plot.querySelectorAll("text")].map((text) => contrast(text, "fill")))),
    lineContrast: Math.min(...plots.flatMap((plot) => marks(plot).map((mark) => contrast(mark, "stroke")))),
  };

  /** Returns pairs of overlapping texts in a plot. */
  function overlaps(plot) {
    const boxes = [...plot.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    const touch = (one, other) =>
      one.left < other.right && other.left < one.right && one.top + 1 < other.bottom && other.top + 1 < one.bottom;
    return boxes.flatMap(([text, box], index) =>
      boxes.slice(index + 1).filter(([, other]) => touch(box, other)).map(([other]) => [text, other]));
  }

  /** Returns the texts of a plot that extend beyond it. */
  function outside(plot) {
    const edge = plot.getBoundingClientRect();
    const texts = [...plot.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    return texts.filter(([, box]) => box.left < edge.left || box.right > edge.right).map(([text]) => text);
  }

  /** Returns the WCAG contrast ratio between a colour and the page's background. */
  function contrast(element, property) {
    const luminances = [getComputedStyle(element)[property], getComputedStyle(document.body).backgroundColor]
      .map((colour) => colour.match(/[\d.]+/g).slice(0, 3).map((part) => linear(part / 255)))
      .map(([red, green, blue]) => 0.2126 * red + 0.7152 * green + 0.0722 * blue);
    return (Math.max(...luminances) + 0.05) / (Math.min(...luminances) + 0.05);
  }

  function linear(part) {
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }
}
