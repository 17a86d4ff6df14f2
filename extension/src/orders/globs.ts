import { Refusal } from "./refusal";

/** Whether a path below the searched directory, with `/` between its names, matches. */
export type Matcher = (path: string) => boolean;

/**
 * A glob of VS Code as a function: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of directories.
 *
 * Wildcards match names that begin with a dot only if `hidden` is set.
 */
export function matcher(pattern: string, hidden: boolean): Matcher {
  const expression = new RegExp(`^${new Translation(pattern, hidden).text()}$`, "su");
  return (path) => expression.test(path);
}

/** A glob that chooses files by name if it has no slash, as in VS Code's search. */
export function includeMatcher(pattern: string): Matcher {
  const anywhere = pattern.includes("/") ? pattern.replace(/^\.?\//, "") : `**/${pattern}`;
  return matcher(anywhere, true);
}

/** Whether a pattern asks for names that begin with a dot. */
export function namesHidden(pattern: string): boolean {
  return /(^|[/{,])\.[^/]/.test(pattern);
}

/** Whether a path has a name that begins with a dot. */
export function isHidden(path: string): boolean {
  return /(^|\/)\./.test(path);
}

class Translation {
  private at = 0;
  /** Whether a name begins here. */
  private first = true;
  /** What that was at each open brace. */
  private readonly braces: boolean[] = [];

  constructor(
    private readonly pattern: string,
    private readonly hidden: boolean,
  ) {}

  text(): string {
    let text = "";
    while (this.at < this.pattern.length) {
      text += this.next();
    }
    if (this.braces.length > 0) {
      throw this.bad("a { is not closed");
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
        return escaped(sign);
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
    // A bracket that comes first stands for itself.
    const end = this.pattern.indexOf("]", start + 1);
    if (end < 0) {
      throw this.bad("a [ is not closed");
    }
    const members = this.pattern.slice(start, end).replaceAll(/[\\[\]^&~|]/g, "\\$&");
    this.at = end + 1;
    return negated ? `[^/${members}]` : `(?!/)[${members}]`;
  }

  private bad(why: string): Refusal {
    return new Refusal("bad_pattern", `The glob ${this.pattern} is wrong: ${why}.`);
  }
}

function escaped(sign: string): string {
  return /[\\^$.*+?()[\]{}|/]/.test(sign) ? `\\${sign}` : sign;
}
