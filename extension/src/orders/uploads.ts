import { randomBytes } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { appendFile, chmod, mkdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";

import type { ChangeRecorder } from "../changes/recorder";
import type { Done, Drop, Land, Put, Written } from "../protocol";
import { type KeyedLock, throwIfCancelled } from "./concurrency";
import type { Containment } from "./containment";
import { handleUnsaved } from "./open_documents";
import type { PrivateDirectory } from "./private_directory";
import { isMissing, Refusal } from "./refusal";

/** Receives files for the workspace in pieces, since they may be larger than memory. */
export class Uploads {
  private readonly paths = new Map<string, string>();

  constructor(
    private readonly containment: Containment,
    private readonly lock: KeyedLock,
    private readonly scratch: PrivateDirectory,
    private readonly changes: ChangeRecorder,
  ) {}

  async put(order: Put): Promise<Done> {
    const path = this.paths.get(order.upload) ?? this.scratch.newPath();
    this.paths.set(order.upload, path);
    await this.lock.run(path, () => appendFile(path, order.data, { mode: 0o600 }));
    return { kind: "done" };
  }

  async land(order: Land, signal: AbortSignal): Promise<Written> {
    const source = this.paths.get(order.upload);
    if (source === undefined) {
      throw new Refusal("not_found", "There is no such upload in this window. Send the file again.");
    }
    const place = await this.containment.resolve(order.path);
    return this.lock.run(place.real, async () => {
      throwIfCancelled(signal);
      await handleUnsaved(place);
      const mode = await fileMode(place.real);
      // To the target of a link, so that it stays a link.
      await this.changes.write(place.path, () => copyAtomically(source, place.real, mode));
      await this.remove(order.upload);
      return { kind: "written", created: mode === undefined };
    });
  }

  async drop(order: Drop): Promise<Done> {
    await this.remove(order.upload);
    return { kind: "done" };
  }

  private async remove(upload: string): Promise<void> {
    const path = this.paths.get(upload);
    this.paths.delete(upload);
    if (path !== undefined) {
      await rm(path, { force: true });
    }
  }
}

/** The permissions of a file; undefined if there is none. */
async function fileMode(path: string): Promise<number | undefined> {
  try {
    const status = await stat(path);
    if (status.isDirectory()) {
      throw new Refusal("is_directory", `${path} is a directory.`);
    }
    return status.mode & 0o7777;
  } catch (error) {
    if (isMissing(error)) {
      return undefined;
    }
    throw error;
  }
}

/** Copy a file to a path atomically: to a temporary name beside it, then rename. */
async function copyAtomically(source: string, target: string, mode: number | undefined): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const temporary = join(dirname(target), `.${basename(target).slice(0, 100)}.${randomBytes(6).toString("hex")}`);
  try {
    await pipeline(createReadStream(source), createWriteStream(temporary, { flags: "wx" }));
    if (mode !== undefined) {
      await chmod(temporary, mode);
    }
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
