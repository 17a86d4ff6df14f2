#!/usr/bin/env bash
# Makes .venv with what running (or, with "dev", testing) needs, and .venv-kernel with what kernels have.
# Debian packages are added when root.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=${1:-run}

say() { printf '\033[1m%s\033[0m\n' "$*"; }

packages=()
need() { command -v "$1" >/dev/null 2>&1 || packages+=("$2"); }

python=${PYTHON:-}
if [ -z "$python" ]; then
  for candidate in python3 python3.11 python3.12 python3.13; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      python=$candidate
      break
    fi
  done
fi
[ -n "$python" ] || packages+=(python3 python3-venv)
if [ -n "$python" ] && ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  packages+=("python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv")
fi
need bash bash
# Ubuntu's Chromium is a snap, which cannot be driven; there, Playwright brings one (below).
has_chromium() {
  [ -n "${GLOVEBOX_CHROMIUM:-}" ] || command -v chromium || command -v google-chrome-stable ||
    ls "${PLAYWRIGHT_BROWSERS_PATH:-$HOME/.cache/ms-playwright}"/chromium-*
} >/dev/null 2>&1
has_chromium || { ! grep -qs '^ID=debian' /etc/os-release || packages+=(chromium fonts-liberation); }
if [ "$wanted" = dev ]; then
  need git git
  need curl curl
  need tmux tmux
  need npm npm
  need bwrap bubblewrap
  need zsh zsh
  need fish fish
  need openssl openssl
  # Container engines for the tests, which only root can start.
  if [ "$(id -u)" = 0 ]; then
    need dockerd docker.io
    need podman podman
    need runc runc
    need debootstrap debootstrap
    need ip iproute2
  fi
fi

if [ ${#packages[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "Installing Debian packages: ${packages[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  else
    echo "Missing: ${packages[*]}. Install these, or run this as root on Debian or Ubuntu." >&2
    [ -n "$python" ] || exit 1
  fi
fi
# gVisor is not in every release, and only its own tests need it.
if [ "$wanted" = dev ] && [ "$(id -u)" = 0 ] && ! command -v runsc >/dev/null 2>&1; then
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends runsc >/dev/null 2>&1 ||
    echo "There is no gVisor (runsc): tests of it are skipped." >&2
fi
python=${python:-python3}

[ -x .venv/bin/python ] || { say "Making .venv with $("$python" --version)"; "$python" -m venv .venv; }
extras=(box hub browser bundle)
[ "$wanted" = dev ] && extras=(dev)
say "Installing Python packages"
# Nothing is installed but files whose hashes constraints.txt has. First comes a pip that can look them up there.
pip() { .venv/bin/python -m pip --disable-pip-version-check install -q "$@"; }
sed -n '/^pip==/,/[^\\]$/p' constraints.txt >.venv/pip.txt
pip --require-hashes -r .venv/pip.txt
pip --require-hashes -c constraints.txt setuptools hatchling editables
.venv/bin/python scripts/requirements.py "${extras[@]}" >.venv/requirements.txt
pip --require-hashes -c constraints.txt --no-build-isolation -r .venv/requirements.txt
pip --no-deps --no-build-isolation -e .
# Kernels have packages of their own, as wheels: what cells install goes on top of them, and never into .venv.
.venv/bin/python scripts/requirements.py --alone kernel >.venv/kernel.txt
version=$(cat .venv/kernel.txt constraints.txt .venv/pyvenv.cfg | sha256sum)
if [ "$(cat .venv-kernel/version 2>/dev/null)" != "$version" ]; then
  say "Installing the packages of kernels"
  rm -rf .venv-kernel
  .venv/bin/python -m venv --without-pip .venv-kernel
  if PIP_PYTHON=.venv-kernel pip --require-hashes --only-binary :all: -c constraints.txt -r .venv/kernel.txt; then
    echo "$version" >.venv-kernel/version
  else
    rm -rf .venv-kernel
    echo "Kernels have no pandas, numpy and matplotlib: these could not be installed." >&2
  fi
fi
if ! has_chromium; then
  say "Getting Chromium"
  deps=()
  [ "$(id -u)" != 0 ] || deps=(--with-deps)
  .venv/bin/python -m playwright install "${deps[@]}" chromium ||
    echo "There is no Chromium: everything but the browser works. Install one, or set GLOVEBOX_CHROMIUM." >&2
fi
if [ "$wanted" = dev ] && command -v npm >/dev/null 2>&1; then
  say "Installing what tests use of npm"
  mkdir -p .venv/npm
  cp tests/support/npm/package.json .venv/npm/
  npm install --prefix .venv/npm --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error
  say "Installing what the VS Code extension is made with"
  npm install --prefix extension --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error
  say "Installing the VS Code server that tests use"
  .venv/bin/glovebox vscode install --to .venv/vscode
fi
# OpenHands itself, for the tests with it: an environment of its own, since its libraries are older than ours.
python312() {
  local candidate
  for candidate in python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python3.12; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}
if [ "$wanted" = dev ] && ! cmp -s tests/openhands/constraints.txt .venv-openhands/constraints.txt; then
  rm -rf .venv-openhands
  if ! openhands_python=$(python312); then
    echo "There is no Python 3.12: tests with OpenHands are skipped." >&2
  else
    say "Installing OpenHands, which tests use"
    if .venv/bin/uv --quiet venv --no-config --python "$openhands_python" .venv-openhands &&
      .venv/bin/uv --quiet pip install --no-config --no-deps --python .venv-openhands/bin/python \
        -r tests/openhands/constraints.txt; then
      cp tests/openhands/constraints.txt .venv-openhands/
    else
      rm -rf .venv-openhands
      echo "OpenHands could not be installed: tests with it are skipped." >&2
    fi
  fi
fi
.venv/bin/python -m compileall -q src
touch ".venv/.$wanted"
[ "$wanted" = dev ] && touch .venv/.run
say "Ready: .venv/bin/glovebox"
