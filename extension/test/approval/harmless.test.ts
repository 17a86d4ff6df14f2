import assert from "node:assert/strict";
import { test } from "node:test";
import { isHarmless } from "../../src/approval/harmless";
import { allowablePatterns, isAllowedLine } from "../../src/approval/policy";
import { parseCommandLine } from "../../src/approval/shell_syntax";

const isInside = (path: string): boolean => path === "/w" || path.startsWith("/w/");

function isHarmlessLine(line: string, allowed: string[] = []): boolean {
  return isAllowedLine(line, allowed, (command) => isHarmless(command, isInside));
}

const HARMLESS = [
  "ls",
  "ls -la",
  "  ls  -la src ; pwd ",
  "cd src && ls",
  "cd /w/src && git status",
  "cat a.txt | head -n 20",
  "cat 'a file' \"b file\" c\\ file",
  "cat < a.txt",
  "wc -l src/*.ts",
  "ls *",
  "cat /w/a.txt 2>/dev/null",
  "ls missing 2>&1",
  "ls &>/dev/null || echo none",
  "echo hello; echo \"exit $?\"",
  "echo 'anything $(rm -rf /) `x` !! > y'",
  "echo \"costs 5$\"",
  "ls\n\npwd\n",
  "grep -rn 'foo|bar' src",
  "grep -n '/api/users' -r src",
  "rg -n 'class \\w+' src",
  "rg --files",
  "rg 'foo$' -g '*.ts'",
  "find . -name '*.ts' -type f",
  "find src \\( -name a -o -name b \\) -not -path '*/x/*' -print",
  "find . \\! -name x",
  "git status",
  "git --no-pager log --oneline -n 5",
  "git log -5 --stat",
  "git diff HEAD~1 -- src/a.ts",
  "git diff --cached",
  "git show HEAD:src/a.ts",
  "git branch -a",
  "git rev-parse --abbrev-ref HEAD",
  "sed -n '1,20p' a.txt",
  "which python3 && command -v node",
  "sort a.txt | uniq -c | sort -rn | head",
  "tree -L 2",
  "file a.bin; stat a.bin; du -sh .",
  "date +%F",
  "sleep 1.5",
  "echo $PWD ${HOME}",
];

for (const line of HARMLESS) {
  test(`harmless: ${line.replaceAll("\n", "\\n")}`, () => assert.equal(isHarmlessLine(line), true));
}

const NOT_HARMLESS = [
  "",
  "   ",
  "rm a",
  "ls; rm -rf /",
  "ls && rm x",
  "ls | xargs rm",
  "ls | tee x",
  "ls\nrm x",
  "cat x > y",
  "cat x >> y",
  "cat x >y",
  "cat x 2> y",
  "cat x >| y",
  "cat x &> y",
  "echo x >/dev/nullx",
  "echo x > /dev/null/../sda",
  "echo x > $PWD",
  "cat <<EOF\nx\nEOF",
  "cat <<< x",
  "cat <(rm x)",
  "ls >(rm x)",
  "cat <> x",
  "echo $(rm x)",
  "echo `rm x`",
  "echo \"$(rm x)\"",
  "echo \"`rm x`\"",
  "echo \"${x:-$(rm x)}\"",
  "echo $((x=1))",
  "echo ${x@P}",
  "echo $'\\x24'",
  "echo !!",
  "echo \"!rm\"",
  "echo ${SECRET}",
  "echo $API_KEY",
  "cat $FILE",
  "ls $X",
  "$X",
  "l* x",
  "'ls",
  "ls \"x",
  "ls \\",
  "ls \\\n-la",
  "(ls)",
  "{ ls; }",
  "ls() { rm x; }; ls",
  "ls &",
  "ls & rm x",
  "ls |& cat",
  "ls ;; ls",
  "ls &&",
  "| ls",
  "ls # rm",
  "ls {a,b}",
  "for x in a; do rm $x; done",
  "if true; then rm x; fi",
  "time ls",
  "FOO=1 ls",
  "LD_PRELOAD=./x.so ls",
  "PAGER='rm x' git log",
  "GIT_EXTERNAL_DIFF=./x git diff",
  "x=1",
  "env FOO=1 ls",
  "env",
  "printenv",
  "export PATH=.",
  "alias ls=rm",
  "eval ls",
  "exec ls",
  "command rm x",
  "builtin cd /",
  "source x",
  ". x",
  "sudo ls",
  "bash -c ls",
  "./ls",
  "/bin/ls",
  "\\rm x",
  "r\\m x",
  "'r'm x",
  "less x",
  "more x",
  "man ls",
  "vi x",
  "awk '{system(\"rm x\")}' a",
  "sed -i s/a/b/ x",
  "sed -n '1w y' x",
  "sed -n '1,5p;w y' x",
  "sed -n 1p -i x",
  "sed s/a/b/e x",
  "find . -delete",
  "find . -exec rm {} \\;",
  "find . -exec rm '{}' ';'",
  "find . -execdir rm x",
  "find . -ok rm x",
  "find . -fprint x",
  "find . -fls x",
  "find *",
  "find / -name x",
  "rg --pre ./x foo",
  "rg --pre=./x foo",
  "rg --hostname-bin=./x foo",
  "rg -z foo",
  "rg *",
  "sort -o x y",
  "sort y -ox",
  "sort --output=x y",
  "sort --outp=x y",
  "sort --compress-program=./x y",
  "uniq a b",
  "tree -o x",
  "tree -R -H x",
  "file -C -m x",
  "date -s 2020-01-01",
  "hostname evil",
  "printf -v PATH x",
  "printf *",
  "tee x",
  "xargs rm",
  "git",
  "git commit -m x",
  "git push",
  "git checkout .",
  "git branch new",
  "git branch -D x",
  "git tag v1",
  "git stash",
  "git stash drop",
  "git remote add x y",
  "git config core.pager 'rm x'",
  "git -c core.pager='rm x' log",
  "git -c core.fsmonitor=./x status",
  "git --exec-path=. status",
  "git -C /x status",
  "git --git-dir=x status",
  "git diff --output=x",
  "git diff --outp=x",
  "git diff --ext-diff",
  "git log --textconv --output x",
  "git diff --no-index /etc/passwd x",
  "git diff /etc/passwd x",
  "git grep -O./x foo",
  "git log --show-signature",
  "git diff *",
  "cat /etc/passwd",
  "cat ~/.ssh/id_rsa",
  "cat ../x",
  "cat a/../../x",
  "cat .*/x",
  "cat .?/x",
  "grep -r x /",
  "grep -f /etc/shadow x",
  "grep --fil /etc/shadow x",
  "grep -f/etc/shadow x",
  "head --lines=5 /etc/passwd",
  "wc --files0-from=/etc/passwd",
  "cat < /etc/passwd",
  "cat < $X",
  "cd /",
  "cd",
  "cd -",
  "cd ..",
  "cd ~",
  "ls =rm",
  "ls\u0003rm x",
  "ls\rrm x",
  "ls \u001b[A",
  "ls\u0000x",
  "constructor",
  "__proto__",
  "toString x",
];

for (const line of NOT_HARMLESS) {
  test(`not harmless: ${JSON.stringify(line)}`, () => assert.equal(isHarmlessLine(line), false));
}

test("words are what the shell makes of them", () => {
  const [command, second] = parseCommandLine(`a 'b c'"d $X e"\\ f  g*|h <i 2>&1`) ?? [];
  assert.deepEqual(
    command?.words.map(({ text, glob, variables }) => [text, glob, variables]),
    [
      ["a", false, []],
      ["b cd $X e f", false, ["X"]],
      ["g*", true, []],
    ],
  );
  assert.deepEqual(second?.words.map(({ text }) => text), ["h"]);
  assert.deepEqual(second.inputs.map(({ text }) => text), ["i"]);
});

test("a command that the user always allows is allowed, alone and beside harmless ones", () => {
  const allowed = ["npm test", "make *", "for i in 1 2; do echo $i; done"];
  for (const line of ["npm test", " npm test ", "npm test && ls", "cd src && make", "make all -j4", "for i in 1 2; do echo $i; done"]) {
    assert.equal(isHarmlessLine(line, allowed), true, line);
  }
  const others = [
    "npm test; rm x",
    "npm test --prefix /x",
    "npm  run x",
    "npm test > x",
    "npm test < x",
    "X=1 npm test",
    "make $(rm x)",
    "make $X",
    "makex",
    "for i in 1 2; do echo $i; done; rm x",
  ];
  for (const line of others) {
    assert.equal(isHarmlessLine(line, allowed), false, line);
  }
  assert.equal(isHarmlessLine("rm x", ["*", "", " * "]), false);
});

test("patterns are offered for plain commands, and for programs that run others only the command itself", () => {
  assert.deepEqual(allowablePatterns("npm run build"), ["npm run build", "npm run *", "npm *"]);
  assert.deepEqual(allowablePatterns("make"), ["make", "make *"]);
  assert.deepEqual(allowablePatterns("pytest -x tests"), ["pytest -x tests", "pytest *"]);
  for (const line of ["npm test && make", "X=1 make", "make > x", "bash x", "python3 -m x", "sudo make", "env make", "xargs rm", "/bin/sh x"]) {
    assert.deepEqual(allowablePatterns(line), [line]);
  }
});
