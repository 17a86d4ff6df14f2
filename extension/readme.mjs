// Prints README.md with its pictures in it: the page of an installed extension shows no pictures of files.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const text = readFileSync(join(here, "README.md"), "utf8");
process.stdout.write(
  text.replaceAll(/(!\[[^\]]*\])\(([^)]+\.png)\)/g, (_, alternative, file) => {
    const data = readFileSync(join(here, file)).toString("base64");
    return `${alternative}(data:image/png;base64,${data})`;
  }),
);
