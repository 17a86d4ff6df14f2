import { stat } from "node:fs/promises";

import type { Containment } from "./containment";
import { Refusal, refusalOf } from "./refusal";

/** Where a command starts: the directory that was asked for, or the first folder. */
export async function startingDirectory(asked: string, containment: Containment): Promise<string> {
  if (asked === "") {
    return containment.home();
  }
  let isDirectory: boolean;
  try {
    isDirectory = (await stat(asked)).isDirectory();
  } catch (error) {
    throw refusalOf(error, asked);
  }
  if (!isDirectory) {
    throw new Refusal("not_directory", `${asked} is not a directory.`);
  }
  return asked;
}
