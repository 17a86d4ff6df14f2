/** Lines of a text, counted from 0; with `count` 0 the place where lines were removed. */
export interface LineRange {
  start: number;
  count: number;
}

/** A part in which two texts differ: `removed` lines of the old one became `added` lines of the new one. */
export interface Hunk {
  oldStart: number;
  removed: number;
  newStart: number;
  added: number;
}

/** The most pairs of lines that are compared; a larger part is one hunk. */
const MAX_PAIRS = 1_000_000;

/** The first line in which two texts differ. */
export function firstDifference(before: string, after: string): number {
  let at = 0;
  let line = 0;
  while (at < before.length && before[at] === after[at]) {
    line += before[at] === "\n" ? 1 : 0;
    at += 1;
  }
  return line;
}

/** Where two texts differ. */
export function hunks(before: string, after: string): Hunk[] {
  const [old, now] = [split(before), split(after)];
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) {
    head += 1;
  }
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) {
    tail += 1;
  }
  const [oldEnd, newEnd] = [old.length - tail, now.length - tail];
  if (head === oldEnd && head === newEnd) {
    return [];
  }
  if ((oldEnd - head) * (newEnd - head) > MAX_PAIRS) {
    return [{ oldStart: head, removed: oldEnd - head, newStart: head, added: newEnd - head }];
  }
  return compare(old.slice(head, oldEnd), now.slice(head, newEnd)).map((hunk) => ({
    ...hunk,
    oldStart: hunk.oldStart + head,
    newStart: hunk.newStart + head,
  }));
}

function split(text: string): string[] {
  return text.split(/\r\n|\n|\r/);
}

/** The hunks of a longest common subsequence. */
function compare(old: string[], now: string[]): Hunk[] {
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      common[i * width + j] =
        old[i] === now[j]
          ? (common[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(common[(i + 1) * width + j] ?? 0, common[i * width + j + 1] ?? 0);
    }
  }
  const found: Hunk[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      [i, j] = [i + 1, j + 1];
      continue;
    }
    const hunk = { oldStart: i, removed: 0, newStart: j, added: 0 };
    while ((i < old.length || j < now.length) && !(i < old.length && j < now.length && old[i] === now[j])) {
      const removes = j >= now.length || (i < old.length && (common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0));
      [i, j] = removes ? [i + 1, j] : [i, j + 1];
      hunk[removes ? "removed" : "added"] += 1;
    }
    found.push(hunk);
  }
  return found;
}

/** Marked lines after the lines `start` to `start + removed` were replaced by `added` others, which are not marked. */
export function replaceLines(ranges: readonly LineRange[], start: number, removed: number, added: number): LineRange[] {
  const end = start + removed;
  return ranges.flatMap((range) => {
    const last = range.start + range.count;
    if (range.count === 0) {
      return range.start < start ? [range] : range.start >= end ? [{ start: range.start + added - removed, count: 0 }] : [];
    }
    const above = { start: range.start, count: Math.min(last, start) - range.start };
    const from = Math.max(range.start, end);
    const below = { start: from + added - removed, count: last - from };
    return [above, below].filter(({ count }) => count > 0);
  });
}

/** Marked lines after an edit whose lines are marked, too. */
export function markHunks(ranges: readonly LineRange[], edit: readonly Hunk[]): LineRange[] {
  let shifted = [...ranges];
  for (const { oldStart, removed, added } of [...edit].reverse()) {
    shifted = replaceLines(shifted, oldStart, removed, added);
  }
  return merge([...shifted, ...edit.map(({ newStart, added }) => ({ start: newStart, count: added }))]);
}

/** The same lines in order, with neighbours joined. */
function merge(ranges: LineRange[]): LineRange[] {
  const merged: LineRange[] = [];
  for (const range of ranges.sort((one, other) => one.start - other.start)) {
    const last = merged.at(-1);
    if (last && range.start <= last.start + last.count) {
      last.count = Math.max(last.count, range.start + range.count - last.start);
    } else {
      merged.push({ ...range });
    }
  }
  return merged;
}
