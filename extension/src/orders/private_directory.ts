import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A temporary directory that only the user can read; created when first needed. */
export class PrivateDirectory {
  private path = "";
  private count = 0;

  /** A new path in it, where nothing is yet. */
  newPath(): string {
    // The system may have removed it.
    if (this.path === "" || !existsSync(this.path)) {
      // A short name: the user sees it with each command.
      this.path = mkdtempSync(join(tmpdir(), "gb-"));
    }
    this.count += 1;
    return join(this.path, this.count.toString());
  }

  /** Create a new directory in it. */
  newDirectory(): string {
    const path = this.newPath();
    mkdirSync(path, { mode: 0o700 });
    return path;
  }

  /** Whether a text contains a path in it. */
  isNamedIn(text: string): boolean {
    return this.path !== "" && text.includes(join(this.path, "/"));
  }

  dispose(): void {
    if (this.path !== "") {
      rmSync(this.path, { recursive: true, force: true });
      this.path = "";
    }
  }
}
