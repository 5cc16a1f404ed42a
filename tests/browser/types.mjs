// node types.mjs
//
// Compiles types.ts, which uses the client as declared in encke.d.ts, with TypeScript's compiler. Prints the
// compiler's errors.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { emit } from "./test.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", "--types", ""];
const { status, stdout, stderr } = spawnSync("node", [here("node_modules/typescript/bin/tsc"), ...options, here("types.ts")], { encoding: "utf8" });
emit({ complaints: status === 0 ? [] : [stdout, stderr] });
