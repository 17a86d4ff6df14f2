import assert from "node:assert/strict";
import { test } from "node:test";

import { isTypable, shownCommand } from "../../src/orders/command_line";

/** Lines that bash and zsh start at once, and report. */
export const TYPED = [
  "ls",
  "ls -la src/*.py",
  "cd /tmp/x && make -j4 test 2>&1 | tail -n 20",
  "echo 'it''s; fine' \"and $HOME ${x} ${y:-none} too\"",
  "git commit -m \"a (fine) one; really & truly\"",
  "NAME=value ./configure --prefix=/usr",
  "name=value",
  "grep -rn 'def foo(' src >out.txt 2>/dev/null; echo $?",
  "cat <<<word | sort &>>all.log",
  "python3 -c 'print(1 if True else 2)'",
  "[ -f a.txt ] && rm a.txt;",
  "find . -name \\*.ts -exec wc -l {} +",
  "echo größer ✓ 漢字",
  "cp a{,.bak}",
  "exit 7",
  "set -e; echo before; false",
  "trailing   ",
];

/** Lines that must not be typed. */
const FROM_FILE = [
  "",
  "   ",
  " leading",
  "( echo in )",
  "(cd x; make) && ls",
  "foo; (bar",
  "{ echo a; }",
  "foo && { a",
  "f() { echo; }",
  "function f { echo; }",
  "if true; then echo; fi",
  "a; if b",
  "for i in 1 2; do echo $i; done",
  "while read x; do :; done <f",
  "case x in a) ;; esac",
  "[[ -f x ]] && y",
  "time make",
  "! grep x y",
  "exec bash",
  "history 5",
  "cat <<END",
  "cat <<-'END'",
  "echo 'open",
  'echo "open',
  'echo "a \\"',
  "echo `date`",
  "echo $(date)",
  'echo "$(date)"',
  "echo $((1 + 1))",
  "echo ${x",
  "echo ${x:-${y}}",
  'echo "${x"',
  "echo $'a\\n'",
  "diff <(a) <(b)",
  "a=(1 2)",
  "echo hello!",
  'echo "hello!"',
  "echo 'a\\' !$",
  "^old^new",
  "# a comment",
  "ls # a comment",
  "ends with \\",
  "sleep 1 &",
  "sleep 1 & echo x",
  "a |",
  "a &&",
  "a || | b",
  "a ;; b",
  "; a",
  "| a",
  "a >",
  "a > > b",
  "a 2>",
  ">file",
  "a; >file",
  "echo )",
  "echo }",
  "a\nb",
  "a\tb",
  "a\rb",
  "a\x03b",
  "a\x1b[A",
  "a\u2028b",
  "a\u202eb",
  "x".repeat(2000),
  "export KEY=value;",
  "export A='x y'; export B=\"z\\\"\";",
];

for (const shell of ["bash", "zsh"]) {
  test(`simple lines are typed in ${shell}, and nothing else`, () => {
    assert.deepEqual(TYPED.filter((command) => !isTypable(command, shell)), []);
    assert.deepEqual(FROM_FILE.filter((command) => isTypable(command, shell)), []);
  });
}

test("only short lines are typed in zsh, and none in other shells", () => {
  const command = `echo ${"x".repeat(200)}`;
  assert.deepEqual(["bash", "zsh", "dash", "fish"].map((shell) => isTypable(command, shell)), [true, false, false, false]);
});

test("every line that is typed is complete and correct for bash", { skip: process.platform === "win32" }, async () => {
  const { spawnSync } = await import("node:child_process");
  for (const command of TYPED) {
    assert.equal(spawnSync("bash", ["-n", "-c", command]).status, 0, command);
  }
});

test("a long line is checked in time", () => {
  for (const part of ["a ", "a;", ">a ", "${a:", "'a'", '"a$', "a>", "\\a", "$a"]) {
    isTypable(part.repeat(1000).slice(0, 1000), "bash");
  }
});

test("the terminal shows all lines of a command", () => {
  assert.equal(shownCommand("cat <<END\r\n\ta\nEND\n"), "cat <<END\n>     a\n> END");
  assert.equal(shownCommand("echo größer ✓ 漢字"), "echo größer ✓ 漢字");
  assert.equal(shownCommand("a\x03b\x1b[31mc\x7fd\x9be\u202ef\ud800g"), "a?b?[31mc?d?e?f?g");
  assert.match(shownCommand("x\n".repeat(200)), /^x(\n> x){49}\n\.\.\. \(\+150 lines\)$/u);
  assert.equal(shownCommand("x".repeat(9000)), `${"x".repeat(4000)}...`);
  assert.equal(shownCommand(" \n "), "");
});

test("the terminal does not show the values of variables that a program sets", () => {
  assert.equal(shownCommand("export A='s3cret; x'; export B=\"t0ken\";"), "export A=...; export B=...;");
  assert.equal(shownCommand("export A=1"), "export A=1");
});
