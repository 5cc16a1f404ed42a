// Starts Chromium for all tests of a process, because each start takes seconds of CPU time. Prints its address
// as `browser`.

import { chromium } from "playwright-core";
import { LAUNCH } from "./browser.mjs";
import { emit, untilTestEnds } from "./test.mjs";

const server = await chromium.launchServer(LAUNCH);
emit({ browser: server.wsEndpoint() });
await untilTestEnds();
await server.close();
