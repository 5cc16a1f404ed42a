// Communication with the test that runs a script. The test reads one JSON object per line from the script's
// standard output. The script exits when its standard input is closed.

import { createInterface } from "node:readline";

export function emit(object) {
  console.log(JSON.stringify(object));
}

// Parses the lines of a stream. They are not read before the first object is asked for, so none is missed.
export async function* objectsFrom(input) {
  for await (const line of createInterface({ input })) yield JSON.parse(line);
}

export function untilTestEnds() {
  process.stdin.resume();
  return new Promise((resolve) => process.stdin.once("close", resolve));
}
