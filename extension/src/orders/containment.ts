import { lstat, readlink, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, normalize, parse, relative, sep } from "node:path";

import { codeOf, isMissing, Refusal } from "./refusal";

/** A path that an order may touch: as it was given, without `..`, and where it really is. */
export interface Place {
  path: string;
  real: string;
}

/** As many as the system follows. */
const MOST_LINKS = 40;

/** Keeps orders in the folders of the workspace. */
export class Containment {
  constructor(private readonly folders: () => readonly string[]) {}

  /** The first folder. */
  home(): string {
    return this.known()[0] ?? "";
  }

  /** The place of a path, links followed. */
  async inside(path: string): Promise<Place> {
    const normal = this.normalised(path);
    return this.checked(normal, await realPlace(normal));
  }

  /** The place of an entry of a directory: if that is a link, of the link itself. */
  async entry(path: string): Promise<Place> {
    const normal = this.normalised(path);
    if (dirname(normal) === normal) {
      throw this.outside(path);
    }
    return this.checked(normal, join(await realPlace(dirname(normal)), basename(normal)));
  }

  /** Whether a place is one of the folders themselves, or holds one. */
  async holdsFolder(place: Place): Promise<boolean> {
    const reals = await Promise.all(this.known().map((folder) => realPlace(folder)));
    return reals.some((real) => isWithin(place.real, real));
  }

  private normalised(path: string): string {
    if (path.includes("\0") || !isAbsolute(path)) {
      throw this.outside(path);
    }
    const normal = normalize(path);
    return normal.length > parse(normal).root.length && normal.endsWith(sep) ? normal.slice(0, -1) : normal;
  }

  private async checked(path: string, real: string): Promise<Place> {
    for (const folder of this.known()) {
      if (isWithin(await realPlace(folder), real)) {
        return { path, real };
      }
    }
    throw this.outside(path);
  }

  private known(): readonly string[] {
    const folders = this.folders();
    if (folders.length === 0) {
      throw new Refusal("no_folder", "No folder is open in this window. Ask its user to open one.");
    }
    return folders;
  }

  private outside(path: string): Refusal {
    const shown = path.replaceAll("\0", "\\0");
    return new Refusal(
      "outside_workspace",
      `${shown} is outside of what is open in this window: ${this.known().join(", ")}. Give an absolute path in there.`,
    );
  }
}

/** Whether `path` is `folder` or below it; both are real paths. */
export function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way));
}

/** Where a path leads, links followed; the end of it need not exist. */
export async function realPlace(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (!isMissing(error)) {
      throw codeOf(error) === "ELOOP" ? tooManyLinks(path) : error;
    }
    return walked(path);
  }
}

/** Follows a path one name at a time, as the system would, and beyond what exists. */
async function walked(path: string): Promise<string> {
  const { root } = parse(path);
  let at = root;
  let links = 0;
  const ahead = names(path.slice(root.length)).reverse();
  for (let name = ahead.pop(); name !== undefined; name = ahead.pop()) {
    if (name === "..") {
      at = dirname(at);
      continue;
    }
    const next = join(at, name);
    const target = await linkTarget(next);
    if (target === undefined) {
      at = next;
      continue;
    }
    links += 1;
    if (links > MOST_LINKS) {
      throw tooManyLinks(path);
    }
    at = isAbsolute(target) ? parse(target).root : at;
    ahead.push(...names(isAbsolute(target) ? target.slice(parse(target).root.length) : target).reverse());
  }
  return at;
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

function tooManyLinks(path: string): Refusal {
  return new Refusal("failed", `${path}: too many links lead to one another.`);
}
