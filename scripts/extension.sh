#!/usr/bin/env bash
# The VS Code extension: "lint" checks its types and style, "test" runs the tests that need no VS Code,
# "package FILE" makes what VS Code installs.
set -euo pipefail
cd "$(dirname "$0")/.."
what=$1
target=$(realpath -m "${2:-dist/glovebox.vsix}")
if [ ! -d extension/node_modules/typescript ]; then
  echo "What the VS Code extension is made with is not installed (there was no npm)." >&2
  [ "$what" = lint ] && exit 0
  exit 1
fi
cd extension
export PATH=$PWD/node_modules/.bin:$PATH
case $what in
  lint)
    tsc --noEmit
    eslint --cache --cache-location node_modules/.cache/eslint .
    ;;
  test)
    shift
    node test/run.mjs "$@"
    ;;
  package)
    tsc --noEmit
    node bundle.mjs
    mkdir -p "$(dirname "$target")"
    stage=$(mktemp -d)
    trap 'rm -r "$stage"' EXIT
    # shellcheck disable=SC2046  # no file of the package has a blank in its name
    cp --parents $(vsce ls --no-dependencies) "$stage"
    mkdir "$stage/images"
    cp ../docs/images/vscode_{connected,edit}.png "$stage/images"
    cp ../LICENSE .vscodeignore "$stage"
    # The page of an installed extension shows only pictures that have a public address.
    sed '/^!\[/d' README.md >"$stage/README.md"
    cd "$stage"
    # There is no public repository yet, so links cannot be made to point into one.
    vsce package --no-dependencies --allow-missing-repository --no-rewrite-relative-links --out "$target"
    ;;
esac
