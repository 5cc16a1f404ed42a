// node package.mjs
//
// Packs server/client as npm does, and imports the package. Prints the size of the module, the files in the
// package, and its exports.

import { execFileSync } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { emit } from "./test.mjs";

const source = fileURLToPath(new URL("../../server/client/", import.meta.url));
emit({ gzipped: gzipSync(readFileSync(join(source, "encke.js")), { level: 9 }).length });

const folder = mkdtempSync(join(tmpdir(), "encke-package-"));
try {
  const run = (program, ...args) => execFileSync(program, args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const [{ filename }] = JSON.parse(run("npm", "pack", source, "--json"));
  const installed = join(folder, "node_modules", "encke");
  mkdirSync(installed, { recursive: true });
  run("tar", "-xzf", filename, "--strip-components=1", "-C", installed);
  emit({ packed: readdirSync(installed).sort() });
  emit({ package: JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) });
  writeFileSync(join(folder, "main.mjs"), 'console.log(JSON.stringify(Object.keys(await import("encke"))));');
  emit({ exported: JSON.parse(run("node", "main.mjs")) });
} finally {
  rmSync(folder, { recursive: true });
}
