// The test that runs a script reads one JSON object a line from it, and ends with its standard input.

export function tell(object) {
  console.log(JSON.stringify(object));
}

export function untilTestEnds() {
  process.stdin.resume();
  return new Promise((resolve) => process.stdin.once("close", resolve));
}
