import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A directory that nobody else can read, for what has to pass through files; made when first needed. */
export class PrivateDirectory {
  private made = "";
  private count = 0;

  /** A path in it that was not given before. */
  fresh(): string {
    // Systems clean their directory of temporary files.
    if (this.made === "" || !existsSync(this.made)) {
      // Users see the name whenever a command is run.
      this.made = mkdtempSync(join(tmpdir(), "gb-"));
    }
    this.count += 1;
    return join(this.made, this.count.toString());
  }

  /** A directory in it that was not there before. */
  freshDirectory(): string {
    const path = this.fresh();
    mkdirSync(path, { mode: 0o700 });
    return path;
  }

  /** Whether a text names something in it. */
  isNamedIn(text: string): boolean {
    return this.made !== "" && text.includes(join(this.made, "/"));
  }

  dispose(): void {
    if (this.made !== "") {
      rmSync(this.made, { recursive: true, force: true });
      this.made = "";
    }
  }
}
