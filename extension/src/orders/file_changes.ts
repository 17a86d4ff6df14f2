import type { ChangedPath } from "../protocol";

/** More changed paths than this at once are an overflow. */
export const MAX_CHANGES = 1000;

type Change = ChangedPath["change"];

/** Changes of paths, each once, until they are reported. */
export class ChangeCollector {
  private readonly changes = new Map<string, Change>();
  private overflow = false;

  get isEmpty(): boolean {
    return this.changes.size === 0 && !this.overflow;
  }

  add(path: string, change: Change): void {
    const before = this.changes.get(path);
    if (before === "created" && change === "deleted") {
      this.changes.delete(path);
    } else if (before === undefined && this.changes.size >= MAX_CHANGES) {
      this.overflow = true;
    } else {
      this.changes.set(path, merged(before, change));
    }
  }

  /** What happened since the last time; undefined if that was too much. */
  take(): ChangedPath[] | undefined {
    const all = [...this.changes].map(([path, change]) => ({ path, change }));
    const result = this.overflow ? undefined : all;
    this.changes.clear();
    this.overflow = false;
    return result;
  }
}

function merged(before: Change | undefined, change: Change): Change {
  if (before === "created") {
    return "created";
  }
  return before === "deleted" && change === "created" ? "modified" : change;
}
