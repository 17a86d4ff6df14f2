#!/usr/bin/env bash
# All tests, by JOBS processes at once (`make test` calls this). A few that fail beside others are run once more,
# one by one, and their names are told: what a busy machine has spoiled passes then, what is broken does not.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-1}
most=5
pytest=(.venv/bin/python -m pytest)

beside=()
if [ "$jobs" -gt 1 ]; then beside=(-n "$jobs"); fi
"${pytest[@]}" --cache-clear "${beside[@]}"
status=$?
if [ "$status" -ne 1 ] || [ "$jobs" -le 1 ]; then exit "$status"; fi # 1: everything was run, and some of it failed

failed=$(.venv/bin/python -c 'import json; print(*json.load(open(".pytest_cache/v/cache/lastfailed")), sep="\n")')
if [ "$(wc -l <<<"$failed")" -gt "$most" ]; then exit "$status"; fi
printf '\nThese failed beside others, and are run once more by themselves:\n%s\n\n' "$failed"
"${pytest[@]}" --last-failed --last-failed-no-failures none
