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
    trap 'rm -f LICENSE' EXIT
    cp ../LICENSE .
    vsce package --no-dependencies --allow-missing-repository --out "$target"
    ;;
esac
