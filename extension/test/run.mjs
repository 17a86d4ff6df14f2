// Runs the tests that need no VS Code with node's own test runner: all, or those whose path contains one of the arguments.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const wanted = process.argv.slice(2);
const tests = readdirSync(here, { recursive: true })
  .filter((name) => name.endsWith(".test.ts"))
  .filter((name) => wanted.length === 0 || wanted.some((word) => name.includes(word)));
const made = mkdtempSync(join(tmpdir(), "glovebox-extension-tests-"));
try {
  await build({
    entryPoints: tests.map((name) => join(here, name)),
    outdir: made,
    outbase: here,
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node20",
    sourcemap: "inline",
    external: ["vscode", "bufferutil", "utf-8-validate"],
    logLevel: "warning",
  });
  const built = tests.map((name) => join(made, name.replace(/\.ts$/, ".js")));
  const ran = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...built], { stdio: "inherit" });
  process.exitCode = ran.status ?? 1;
} finally {
  rmSync(made, { recursive: true, force: true });
}
