#!/usr/bin/env bash
# Writes constraints.txt: the version of every package, and the hashes of all files that are published of it.
# Versions stay as they are, unless asked otherwise: scripts/lock.sh [--upgrade | --upgrade-package NAME]
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install -q --disable-pip-version-check uv
# What installs and builds packages is needed besides what pyproject.toml asks for.
printf '%s\n' pip setuptools hatchling editables |
  "$tools/bin/uv" pip compile -q --universal --python-version 3.11 --extra dev --extra kernel --generate-hashes \
    --no-header --no-annotate --no-config "$@" -o constraints.txt pyproject.toml - >/dev/null
