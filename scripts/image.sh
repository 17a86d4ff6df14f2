#!/usr/bin/env bash
# Builds the image: IMAGE (a name), IMAGE_BASE (any Debian or Ubuntu), IMAGE_VARIANT (plain or browser),
# IMAGE_NETWORK (of the build: default, host), GLOVEBOX_BUNDLE (else one is made).
set -euo pipefail
cd "$(dirname "$0")/.."
variant=${IMAGE_VARIANT:-plain}
image=${IMAGE:-glovebox:latest}
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
  [ "$variant" = plain ] || extras+=("$variant")
  .venv/bin/glovebox bundle --extras "${extras[@]}" --output "$context/bundle.tar"
fi
cp images/Dockerfile images/micromamba "$context/"

DOCKER_BUILDKIT=0 "$engine" build --target "$variant" --tag "$image" --network "${IMAGE_NETWORK:-default}" \
  --build-arg "BASE=${IMAGE_BASE:-debian:bookworm-slim}" \
  --build-arg "VERSION=$(.venv/bin/python -c 'import glovebox; print(glovebox.__version__)')" "$context"
echo "$image: $("$engine" image inspect --format '{{.Size}}' "$image" | awk '{printf "%d MB", $1 / 1e6}')"
