#!/usr/bin/env bash
# Runs a command on a machine that is kept busy: LOAD processes (2) spin beside it, and end with it whatever happens.
#   LOAD=4 scripts/busy.sh .venv/bin/pytest tests/hub
set -u
spin='
import os, sys
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
'
spinning=()
trap 'kill "${spinning[@]}" 2>/dev/null' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for _ in $(seq "${LOAD:-2}"); do
  python3 -c "$spin" $$ &
  spinning+=($!)
done
"$@"
