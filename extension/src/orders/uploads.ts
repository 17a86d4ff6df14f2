import { randomBytes } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { appendFile, chmod, mkdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";

import type { Done, Drop, Land, Put, Written } from "../protocol";
import type { Containment } from "./containment";
import { heedUnsaved } from "./open_documents";
import type { PrivateDirectory } from "./private_directory";
import { isMissing, Refusal } from "./refusal";
import type { Turns } from "./turns";
import { goOn } from "./waiting";

/** Files on their way into the workspace, in pieces, since they may be larger than memory. */
export class Uploads {
  private readonly paths = new Map<string, string>();

  constructor(
    private readonly containment: Containment,
    private readonly turns: Turns,
    private readonly files: PrivateDirectory,
  ) {}

  async put(order: Put): Promise<Done> {
    const path = this.paths.get(order.upload) ?? this.files.fresh();
    this.paths.set(order.upload, path);
    await this.turns.take(path, () => appendFile(path, order.data, { mode: 0o600 }));
    return { kind: "done" };
  }

  async land(order: Land, signal: AbortSignal): Promise<Written> {
    const source = this.paths.get(order.upload);
    if (source === undefined) {
      throw new Refusal("not_found", "There is no such upload in this window. Send the file again.");
    }
    const place = await this.containment.inside(order.path);
    return this.turns.take(place.real, async () => {
      goOn(signal);
      await heedUnsaved(place);
      const mode = await modeOf(place.real);
      // Where a link leads, so that it stays a link.
      await placed(source, place.real, mode);
      await this.forget(order.upload);
      return { kind: "written", created: mode === undefined };
    });
  }

  async drop(order: Drop): Promise<Done> {
    await this.forget(order.upload);
    return { kind: "done" };
  }

  private async forget(upload: string): Promise<void> {
    const path = this.paths.get(upload);
    this.paths.delete(upload);
    if (path !== undefined) {
      await rm(path, { force: true });
    }
  }
}

/** The permissions of the file that is there; undefined if none is. */
async function modeOf(path: string): Promise<number | undefined> {
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

/** Has a file appear at a path whole: it is copied beside it and renamed. */
async function placed(source: string, target: string, mode: number | undefined): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const beside = join(dirname(target), `.${basename(target).slice(0, 100)}.${randomBytes(6).toString("hex")}`);
  try {
    await pipeline(createReadStream(source), createWriteStream(beside, { flags: "wx" }));
    if (mode !== undefined) {
      await chmod(beside, mode);
    }
    await rename(beside, target);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
}
