// Communication with the test that runs a script. The test reads one JSON object per line from the script's
// standard output. The script exits when its standard input is closed.

export function emit(object) {
  console.log(JSON.stringify(object));
}

export function untilTestEnds() {
  process.stdin.resume();
  return new Promise((resolve) => process.stdin.once("close", resolve));
}
