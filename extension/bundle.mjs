// Makes dist/extension.js: the extension and what it needs, in one file.
import { build } from "esbuild";

await build({
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  minify: true,
  // VS Code brings the first; the others only make websockets quicker, and are compiled.
  external: ["vscode", "bufferutil", "utf-8-validate"],
  logLevel: "warning",
});
