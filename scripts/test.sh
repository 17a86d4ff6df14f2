#!/usr/bin/env bash
# All tests, by JOBS processes at once (`make test` calls this). A few that fail beside others are run once more,
# one by one: what a busy machine has spoiled passes then, what is broken does not. The end names and counts both.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-1}
most=5
pytest=(.venv/bin/python -m pytest)

failures() { # the tests that failed in the last run, one in a line
  .venv/bin/python -c 'import json; print(*json.load(open(".pytest_cache/v/cache/lastfailed")), sep="\n")' 2>/dev/null
}
count() { grep -c . <<<"$1"; }

beside=()
if [ "$jobs" -gt 1 ]; then beside=(-n "$jobs"); fi
"${pytest[@]}" --cache-clear "${beside[@]}"
status=$?
if [ "$status" -ne 1 ] || [ "$jobs" -le 1 ]; then exit "$status"; fi # 1: everything was run, and some of it failed

failed=$(failures)
if [ "$(count "$failed")" -gt "$most" ]; then
  printf '\n%d tests failed, which are too many to try again (at most %d are):\n%s\n' \
    "$(count "$failed")" "$most" "$failed"
  exit "$status"
fi
printf '\nThese %d failed beside others, and are run once more by themselves:\n%s\n\n' "$(count "$failed")" "$failed"
"${pytest[@]}" --last-failed --last-failed-no-failures none
status=$?

still=$(failures)
passed=$(grep -vxFf <(printf '%s' "$still") <<<"$failed")
printf '\n%d failed beside others and passed alone: each has a race, or too tight a limit.\n%s\n' \
  "$(count "$passed")" "$passed"
printf '%d failed twice.\n%s\n' "$(count "$still")" "$still"
exit "$status"
