#!/usr/bin/env bash
# Builds the image: IMAGE (a name), IMAGE_BASE (any Debian or Ubuntu), IMAGE_VARIANT (plain, browser or vscode),
# IMAGE_NETWORK (of the build: default, host), GLOVEBOX_BUNDLE (else one is made).
set -euo pipefail
cd "$(dirname "$0")/.."
variant=${IMAGE_VARIANT:-plain}
image=${IMAGE:-glovebox:latest}
stage=$variant
[ "$variant" != vscode ] || stage=plain
engine=$(command -v docker || command -v podman) || {
  echo "There is no docker and no podman here to build an image with." >&2
  exit 1
}

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
if [ -n "${GLOVEBOX_BUNDLE:-}" ]; then
  ln "$GLOVEBOX_BUNDLE" "$context/bundle.tar" 2>/dev/null || cp "$GLOVEBOX_BUNDLE" "$context/bundle.tar"
else
  extras=(box)
  [ "$stage" = plain ] || extras+=("$stage")
  .venv/bin/glovebox bundle --extras "${extras[@]}" --output "$context/bundle.tar"
fi
cp images/Dockerfile images/micromamba "$context/"

DOCKER_BUILDKIT=0 "$engine" build --target "$stage" --tag "$image" --network "${IMAGE_NETWORK:-default}" \
  --build-arg "BASE=${IMAGE_BASE:-debian:bookworm-slim}" \
  --build-arg "VERSION=$(.venv/bin/python -c 'import glovebox; print(glovebox.__version__)')" "$context"
if [ "$variant" = vscode ]; then
  mkdir "$context/with-vscode"
  .venv/bin/glovebox vscode install --own-node --to "$context/with-vscode/vscode"
  cp images/Dockerfile.vscode "$context/with-vscode/Dockerfile"
  DOCKER_BUILDKIT=0 "$engine" build --tag "$image" --build-arg "BASE=$image" "$context/with-vscode"
fi
echo "$image: $("$engine" image inspect --format '{{.Size}}' "$image" | awk '{printf "%d MB", $1 / 1e6}')"
