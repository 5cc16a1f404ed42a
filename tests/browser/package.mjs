// node package.mjs URL
//
// Packs server/client as npm does, or takes the package that ENCKE_NPM_PACKAGE names, and installs it in a new
// project. Compiles types.ts and usage.ts there with `tsc --strict`, and runs usage.js with the server at this URL.
// Prints the size of the module, the files of the package, the compiler's errors, and the output of usage.js.

import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { emit } from "./test.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const source = here("../../server/client/");
const project = mkdtempSync(join(tmpdir(), "encke-package-"));
try {
  const run = (program, ...args) => execFileSync(program, args, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const tarball = process.env.ENCKE_NPM_PACKAGE ?? JSON.parse(run("npm", "pack", source, "--json"))[0].filename;
  writeFileSync(join(project, "package.json"), '{ "type": "module" }');
  run("npm", "install", "--offline", "--no-audit", "--no-fund", tarball);

  const installed = join(project, "node_modules", "encke");
  emit({ gzipped: gzipSync(readFileSync(join(installed, "encke.js")), { level: 9 }).length });
  emit({ packed: readdirSync(installed).sort() });
  emit({ package: JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) });

  const programs = ["types.ts", "usage.ts"];
  for (const name of programs) copyFileSync(here(name), join(project, name));
  const options = ["--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", "--types", ""];
  const compiler = here("node_modules/typescript/bin/tsc");
  const { status, stdout, stderr } = spawnSync("node", [compiler, ...options, ...programs], { cwd: project, encoding: "utf8" });
  emit({ complaints: status === 0 ? [] : [stdout, stderr] });
  emit(JSON.parse(run("node", "usage.js", process.argv[2])));
} finally {
  rmSync(project, { recursive: true });
}
