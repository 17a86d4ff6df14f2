import { lstat, readlink, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, normalize, parse, relative, sep } from "node:path";

import { errorCode, isMissing, Refusal } from "./refusal";

/** A path inside the workspace: as given, without `..`, and with links resolved. */
export interface Place {
  path: string;
  real: string;
}

/** As many as Linux follows. */
const MAX_LINKS = 40;

/** Confines orders to the folders of the workspace. */
export class Containment {
  constructor(private readonly folders: () => readonly string[]) {}

  /** The first folder. */
  home(): string {
    return this.openFolders()[0] ?? "";
  }

  /** Resolve a path, with links followed; refuse if it is outside. */
  async resolve(path: string): Promise<Place> {
    const normal = this.normalize(path);
    return this.check(normal, await resolveLinks(normal));
  }

  /** Resolve a directory entry; if it is a link, the link itself and not its target. */
  async resolveEntry(path: string): Promise<Place> {
    const normal = this.normalize(path);
    if (dirname(normal) === normal) {
      throw this.outsideRefusal(path);
    }
    return this.check(normal, join(await resolveLinks(dirname(normal)), basename(normal)));
  }

  /** Whether a place is a folder of the workspace, or contains one. */
  async containsFolder(place: Place): Promise<boolean> {
    const reals = await Promise.all(this.openFolders().map((folder) => resolveLinks(folder)));
    return reals.some((real) => isWithin(place.real, real));
  }

  private normalize(path: string): string {
    if (path.includes("\0") || !isAbsolute(path)) {
      throw this.outsideRefusal(path);
    }
    const normal = normalize(path);
    return normal.length > parse(normal).root.length && normal.endsWith(sep) ? normal.slice(0, -1) : normal;
  }

  private async check(path: string, real: string): Promise<Place> {
    for (const folder of this.openFolders()) {
      if (isWithin(await resolveLinks(folder), real)) {
        return { path, real };
      }
    }
    throw this.outsideRefusal(path);
  }

  private openFolders(): readonly string[] {
    const folders = this.folders();
    if (folders.length === 0) {
      throw new Refusal("no_folder", "No folder is open in this window. Ask its user to open one.");
    }
    return folders;
  }

  private outsideRefusal(path: string): Refusal {
    const shown = path.replaceAll("\0", "\\0");
    return new Refusal(
      "outside_workspace",
      `${shown} is outside of what is open in this window: ${this.openFolders().join(", ")}. Give an absolute path in there.`,
    );
  }
}

/** Whether `path` is `folder` or below it; both are real paths. */
export function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way));
}

/** Resolve the links in a path, whose last names need not exist. */
export async function resolveLinks(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (!isMissing(error)) {
      throw errorCode(error) === "ELOOP" ? tooManyLinksRefusal(path) : error;
    }
    return followLinks(path);
  }
}

/** Follow a path one name at a time, as the system would, also beyond what exists. */
async function followLinks(path: string): Promise<string> {
  const { root } = parse(path);
  let current = root;
  let links = 0;
  const ahead = names(path.slice(root.length)).reverse();
  for (let name = ahead.pop(); name !== undefined; name = ahead.pop()) {
    if (name === "..") {
      current = dirname(current);
      continue;
    }
    const next = join(current, name);
    const target = await linkTarget(next);
    if (target === undefined) {
      current = next;
      continue;
    }
    links += 1;
    if (links > MAX_LINKS) {
      throw tooManyLinksRefusal(path);
    }
    current = isAbsolute(target) ? parse(target).root : current;
    ahead.push(...names(isAbsolute(target) ? target.slice(parse(target).root.length) : target).reverse());
  }
  return current;
}

function names(path: string): string[] {
  return path.split(sep).filter((name) => name !== "" && name !== ".");
}

async function linkTarget(path: string): Promise<string | undefined> {
  try {
    return (await lstat(path)).isSymbolicLink() ? await readlink(path) : undefined;
  } catch (error) {
    if (isMissing(error)) {
      return undefined;
    }
    throw error;
  }
}

function tooManyLinksRefusal(path: string): Refusal {
  return new Refusal("failed", `${path}: too many links lead to one another.`);
}
