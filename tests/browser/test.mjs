// The test that runs a script reads one JSON object per line from it. The script exits when its standard
// input is closed.

export function emit(object) {
  console.log(JSON.stringify(object));
}

export function untilTestEnds() {
  process.stdin.resume();
  return new Promise((resolve) => process.stdin.once("close", resolve));
}
