import { Refusal } from "./refusal";

/** Whether a path below the searched directory, with `/` between its names, matches. */
export type Matcher = (path: string) => boolean;

/**
 * Compile a glob of VS Code: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of directories.
 *
 * Wildcards match names that start with a dot only if `hidden` is set.
 */
export function matcher(pattern: string, hidden: boolean): Matcher {
  const expression = new RegExp(`^${new GlobTranslator(pattern, hidden).translate()}$`, "su");
  return (path) => expression.test(path);
}

/** Compile a glob that matches file names if it has no slash, as in VS Code's search. */
export function includeMatcher(pattern: string): Matcher {
  const anywhere = pattern.includes("/") ? pattern.replace(/^\.?\//, "") : `**/${pattern}`;
  return matcher(anywhere, true);
}

/**
 * Compile the globs of settings such as `search.exclude`, which match a path or a directory that it is in.
 *
 * Paths are relative to a directory that is at `prefix` in the folder of the workspace, and is searched in any case.
 */
export function excluder(patterns: readonly string[], prefix: string): Matcher {
  const matchers = patterns.flatMap(compile);
  const known = new Map<string, boolean>();
  const isExcluded = (path: string): boolean => {
    const end = path.lastIndexOf("/");
    const whole = prefix === "" ? path : `${prefix}/${path}`;
    return (end > 0 && isDirectoryExcluded(path.slice(0, end))) || matchers.some((matches) => matches(whole));
  };
  const isDirectoryExcluded = (path: string): boolean => {
    const excluded = known.get(path) ?? isExcluded(path);
    known.set(path, excluded);
    return excluded;
  };
  return matchers.length === 0 ? () => false : isExcluded;
}

/** A matcher; none for a glob that is wrong, which VS Code ignores. */
function compile(pattern: string): Matcher[] {
  try {
    return [matcher(pattern.replace(/\/$/, ""), true)];
  } catch {
    return [];
  }
}

/** Whether a pattern has names that start with a dot. */
export function namesHidden(pattern: string): boolean {
  return /(^|[/{,])\.[^/]/.test(pattern);
}

/** Whether a path has a name that starts with a dot. */
export function isHidden(path: string): boolean {
  return /(^|\/)\./.test(path);
}

/** Translates a glob to a regular expression. */
class GlobTranslator {
  private at = 0;
  /** Whether a name starts here. */
  private first = true;
  /** The value of `first` at each open brace. */
  private readonly braces: boolean[] = [];

  constructor(
    private readonly pattern: string,
    private readonly hidden: boolean,
  ) {}

  translate(): string {
    let text = "";
    while (this.at < this.pattern.length) {
      text += this.next();
    }
    if (this.braces.length > 0) {
      throw this.refusal("a { is not closed");
    }
    return text;
  }

  private next(): string {
    const sign = this.pattern.charAt(this.at);
    const { first } = this;
    if (first && this.pattern.startsWith("**", this.at)) {
      return this.anyDepth();
    }
    this.at += 1;
    this.first = sign === "/" || (sign === "{" && first) || (sign === "," && this.braces.at(-1) === true);
    const guard = first && !this.hidden ? "(?!\\.)" : "";
    switch (sign) {
      case "*":
        return `${guard}[^/]*`;
      case "?":
        return `${guard}[^/]`;
      case "[":
        return guard + this.set();
      case "{":
        this.braces.push(first);
        return "(?:";
      case "}":
        return this.braces.pop() === undefined ? "\\}" : ")";
      case ",":
        return this.braces.length > 0 ? "|" : ",";
      default:
        return escape(sign);
    }
  }

  private anyDepth(): string {
    const name = this.hidden ? "[^/]+" : "(?!\\.)[^/]+";
    while (this.pattern.charAt(this.at) === "*") {
      this.at += 1;
    }
    if (this.pattern.charAt(this.at) === "/") {
      this.at += 1;
      return `(?:${name}/)*`;
    }
    this.first = false;
    return `(?:${name}/)*${name}`;
  }

  private set(): string {
    const negated = "!^".includes(this.pattern.charAt(this.at) || "x");
    const start = this.at + (negated ? 1 : 0);
    // A bracket in the first position is a member.
    const end = this.pattern.indexOf("]", start + 1);
    if (end < 0) {
      throw this.refusal("a [ is not closed");
    }
    const members = this.pattern.slice(start, end).replaceAll(/[\\[\]^&~|]/g, "\\$&");
    this.at = end + 1;
    return negated ? `[^/${members}]` : `(?!/)[${members}]`;
  }

  private refusal(why: string): Refusal {
    return new Refusal("bad_pattern", `The glob ${this.pattern} is wrong: ${why}.`);
  }
}

function escape(sign: string): string {
  return /[\\^$.*+?()[\]{}|/]/.test(sign) ? `\\${sign}` : sign;
}
