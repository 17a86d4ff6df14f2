import { posix } from "node:path";

import type { SimpleCommand, Word } from "./shell_syntax";

/** Whether the paths that a command reads are those of the workspace. */
export type IsInside = (path: string) => boolean;

/** Which arguments of a program are harmless. */
type Rule = (words: Word[], isInside: IsInside) => boolean;

/** Variables that may be printed. */
const VARIABLES = new Set(["?", "PWD", "OLDPWD", "HOME", "USER", "SHELL", "PATH", "LANG", "HOSTNAME"]);

const WITHOUT_PATHS: Rule = () => true;
/** Any options: none of them writes or runs something. */
const READS: Rule = (words, isInside) => words.every((word) => readsInside(word, isInside));

/**
 * The programs that an agent may run without a question, with the rule for their arguments.
 *
 * They only read, and only in the workspace. A program with options that write or run something has a list of the options
 * that do not.
 */
const HARMLESS: Readonly<Record<string, Rule>> = {
  ...rules("cat cmp comm cut df diff du fold head join ls md5sum nl paste readlink realpath rev", READS),
  ...rules("sha1sum sha256sum sha512sum stat tac tail wc", READS),
  ...rules("basename cal dirname echo false free groups id nproc pwd seq tr true tty", WITHOUT_PATHS),
  ...rules("type uname uptime which whoami", WITHOUT_PATHS),
  cd: (words, isInside) => words.length === 1 && !words[0]?.text.startsWith("-") && READS(words, isInside),
  command: (words) => ["-v", "-V"].includes(words[0]?.text ?? ""),
  date: (words) => words.every(({ text }) => /^(\+|-u$|-R$|-I|--utc$|--iso-8601)/.test(text)),
  file: withOptions(/^(-[bhikLN]+|--brief|--mime(-type|-encoding)?|--dereference|--no-dereference)$/),
  find: withOptions(
    // `-files0-from`, `-fprint`, `-fls`, `-delete`, `-exec`, `-ok` and their kin are missing on purpose.
    /^-([HLP]|a(nd)?|o(r)?|not|i?name|i?path|i?wholename|i?regex|regextype|i?lname|type|xtype|(max|min)depth|size|empty|perm|user|group|[acm](time|min)|newer|newer[aBcm][aBcmt]|print0?|ls|prune|xdev|mount|depth|follow|links|readable|writable|executable|true|false|quit)$/,
    /^[()!,]$/,
  ),
  ...rules("egrep fgrep grep", searchesInside),
  hostname: (words) => words.length === 0,
  printf: (words) => words[0]?.glob === false && !words[0].text.startsWith("-"),
  rg: (words, isInside) => !words.some(startsWithGlob) && options(words, RIPGREP) && searchesInside(words, isInside),
  sed: (words, isInside) =>
    words[0]?.text === "-n" && /^(\d+|\$)(,(\d+|\$))?p$/.test(words[1]?.text ?? "") && words.slice(2).every(isOperand) && READS(words.slice(2), isInside),
  sleep: (words) => words.every(({ text }) => /^[\d.]+[smhd]?$/.test(text)),
  sort: withOptions(/^(-[bdfghinMRrsuVcC]+|-[kt].*|--(reverse|unique|numeric-sort|human-numeric-sort|version-sort|ignore-case))$/),
  tree: withOptions(/^(-[adfhilpsugDFrtvCLIP]+|--(dirsfirst|noreport|gitignore|prune|du|si|inodes|charset=.*))$/),
  uniq: (words, isInside) => words.every((word) => !isOperand(word) && readsInside(word, isInside)),
  git,
};

const RIPGREP =
  /^(-[inclsSwvFoPUNHhILqpu0-9.ABCmMtTgeE]+\d*|--(ignore-case|smart-case|line-number|no-line-number|count|count-matches|files|files-with-matches|files-without-match|word-regexp|line-regexp|invert-match|fixed-strings|only-matching|pcre2|multiline|heading|no-heading|hidden|no-ignore|no-ignore-vcs|no-messages|json|stats|trim|null|type-list|color|max-count|max-depth|context|after-context|before-context|type|type-not|glob|iglob|sort|sortr|regexp)(=.*)?)$/;

const GIT_SHOWING =
  /^(-[pusqwbRzmi]+|-[UMCSGLO].*|-n\d*|-\d+|--(oneline|stat|shortstat|numstat|dirstat|summary|name-only|name-status|graph|all|branches|tags|remotes|decorate|cached|staged|no-color|color|patch|no-patch|unified|max-count|skip|since|until|after|before|author|committer|grep|follow|pretty|format|abbrev|abbrev-commit|date|word-diff|reverse|merges|no-merges|first-parent|ignore-all-space|ignore-space-change|ignore-blank-lines|no-ext-diff|no-textconv|minimal|patience|histogram|find-renames|no-renames|diff-filter|raw|check|exit-code|quiet|left-right|cherry-pick|topo-order|date-order|no-prefix|merge-base))(=.*)?$/;

/** The subcommands of git that only read, with their options. */
const GIT: Readonly<Record<string, Rule>> = {
  ...rules("diff log show", withOptions(GIT_SHOWING)),
  blame: withOptions(/^(-[wsenlfMC]+|-L.*|--(date=.*|porcelain|line-porcelain))$/),
  branch: (words) => words.every(({ text }) => /^(-[arv]+|--(list|all|remotes|verbose|show-current|no-color))$/.test(text)),
  describe: withOptions(/^--(tags|all|always|long|abbrev=\d+|dirty)$/),
  "ls-files": withOptions(/^(-[cdmostkuzv]+|--(cached|deleted|modified|others|stage|exclude-standard|full-name))$/),
  remote: (words) => words.every(({ text }) => text === "-v"),
  "rev-parse": withOptions(/^--(show-toplevel|abbrev-ref|short|verify|is-inside-work-tree|show-prefix|git-dir|symbolic-full-name)(=.*)?$/),
  shortlog: (words, isInside) => words.some(isOperand) && withOptions(/^-[sne]+$/)(words, isInside),
  stash: (words) => words.length === 1 && words[0]?.text === "list",
  status: withOptions(/^(-[sbvz]+|-u(no|normal|all)?|--(short|branch|long|verbose|porcelain|untracked-files|ignored|no-renames|show-stash)(=.*)?)$/),
  tag: (words) => words.every(({ text }) => /^(-l|--list|-n\d*)$/.test(text)),
};

/** Whether a command only reads, and only what is in the workspace. Whatever is not known is not harmless. */
export function isHarmless(command: SimpleCommand, isInside: IsInside): boolean {
  const [program, ...words] = command.words;
  if (!program || program.glob || program.variables.length > 0 || !Object.hasOwn(HARMLESS, program.text)) {
    return false;
  }
  const printsOnly = program.text === "echo" || program.text === "printf";
  if (words.some(({ variables }) => variables.some((name) => !printsOnly || !VARIABLES.has(name)))) {
    return false;
  }
  const inputs = command.inputs.every((word) => word.variables.length === 0 && isReadable(word.text, word.glob, isInside));
  return inputs && HARMLESS[program.text]?.(words, isInside) === true;
}

function rules(names: string, rule: Rule): Record<string, Rule> {
  return Object.fromEntries(names.split(" ").map((name) => [name, rule]));
}

/** Options that match, and operands that are paths inside. */
function withOptions(allowed: RegExp, operand?: RegExp): Rule {
  return (words, isInside) =>
    // The shell may put the name of a file that begins with `-` in the place of a glob.
    !words.some(startsWithGlob) &&
    options(words, allowed) &&
    words.every((word) => operand?.test(word.text) === true || readsInside(word, isInside));
}

function options(words: Word[], allowed: RegExp): boolean {
  const end = words.findIndex(({ text }) => text === "--");
  const before = end < 0 ? words : words.slice(0, end);
  return before.every((word) => isOperand(word) || allowed.test(word.text));
}

function isOperand(word: Word | undefined): boolean {
  return word !== undefined && (!word.text.startsWith("-") || word.text === "-");
}

function startsWithGlob(word: Word): boolean {
  return word.glob && /^[*?[]/.test(word.text);
}

/** The first operand of a search is its pattern, unless an option gives that. */
function searchesInside(words: Word[], isInside: IsInside): boolean {
  const given = words.some(({ text }) => /^(-[A-Za-z0-9]*[ef]|--(reg|f))/.test(text));
  const pattern = given ? undefined : words.find((word) => isOperand(word) && !startsWithGlob(word));
  return words.every((word) => word === pattern || readsInside(word, isInside));
}

/** Whether a word names nothing outside of the workspace: an operand, or the value of an option. */
function readsInside(word: Word, isInside: IsInside): boolean {
  const value = isOperand(word) ? word.text : word.text.replace(/^--?[\w-]*=?/, "");
  return isReadable(value, word.glob, isInside);
}

function isReadable(path: string, glob: boolean, isInside: IsInside): boolean {
  const names = path.split("/");
  // Where the shell is is not known; it is in the workspace as long as nothing leads out of it.
  if (names.includes("..") || path.startsWith("~") || (glob && names.some((name) => /^\.[*?[]/.test(name)))) {
    return false;
  }
  return !path.startsWith("/") || path === "/dev/null" || isInside(posix.normalize(path));
}

function git(words: Word[], isInside: IsInside): boolean {
  const rest = ["--no-pager", "-P"].includes(words[0]?.text ?? "") ? words.slice(1) : words;
  const [subcommand, ...given] = rest;
  if (!subcommand || !Object.hasOwn(GIT, subcommand.text)) {
    return false;
  }
  return GIT[subcommand.text]?.(given, isInside) === true;
}
