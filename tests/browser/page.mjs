// Opens pages of the server at `address`. In these pages, `emit` prints an object.

export async function openPage(test, address) {
  const [page] = await openTabs(test, address, 1);
  return page;
}

// Opens tabs that share their cookies.
export async function openTabs({ newContext, emit, fail }, address, count) {
  const context = await newContext();
  const openTab = async () => {
    const page = await context.newPage();
    page.on("pageerror", fail);
    await page.exposeFunction("emit", emit);
    // The page loads even if the server responds to this path with 404.
    await page.goto(`http://${address}/`);
    return page;
  };
  return Promise.all(Array.from({ length: count }, openTab));
}
