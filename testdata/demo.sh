#!/usr/bin/env bash
# The main job on real processes: a background job dies silently and is ended
# exactly once; then one job that succeeds and one that fails. Each command is
# shown before it runs. Fails if an answer is not the right one.
set -euo pipefail
bin=$(realpath "${1:-bin/jobprobe}")
JOBPROBE_DIR=$(mktemp -d)/jobs
export JOBPROBE_DIR
trap 'rm -rf "$(dirname "$JOBPROBE_DIR")"' EXIT

jobprobe() { "$bin" "$@"; }
say() { printf '\n\033[1m# %s\033[0m\n' "$*" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }
show() { printf '$ %s\n' "$*"; "$@"; }
# expect STATUS COMMAND...: show it, and insist on its exit status.
expect() {
  local want=$1 got=0
  shift
  show "$@" || got=$?
  printf '(exit status %s)\n' "$got"
  [ "$got" = "$want" ] || { echo "demo: wanted exit status $want" >&2; exit 1; }
}
# insist WORD FILE: the file must hold the word.
insist() { grep -qF "$1" "$2" || { echo "demo: $2 does not hold $1" >&2; exit 1; }; }

say "Start a job in the background. Its identity is on disk before its work begins."
handle=$(jobprobe run --json --label demo -- sleep 300)
printf '$ jobprobe run --json --label demo -- sleep 300\n%s\n' "$handle"
id=$(sed 's/.*"run_id":"\([^"]*\)".*/\1/' <<<"$handle")
child=$(sed 's/.*"pid":\([0-9]*\),.*/\1/' <<<"$handle")
supervisor=$(sed 's/.*"supervisor":{[^}]*"pid":"\([0-9]*\)".*/\1/' <<<"$handle")
expect 0 jobprobe status "$id"

say "Kill its supervisor and then the job, so that nobody is left to report the end."
show kill -9 "$supervisor" "$child"

say "Whoever waits is told at once: gone, and how it came out cannot be known."
expect 3 jobprobe wait "$id"

say "The end is on disk, with its evidence, and the same for every reader."
record=$JOBPROBE_DIR/$id/job.json
show sed -n '/"finished_at"/p; /"status"/p; /"outcome"/,$p' "$record"
echo
insist '"outcome": "indeterminate"' "$record"
insist '"reason_code": "process_gone_without_outcome"' "$record"
insist '"terminal_source": "mcp_orphan_reaper"' "$record"
expect 0 jobprobe status "$id"

say "A job that succeeds, and one that exits 3: their supervisors saw the real exit status."
good=$(jobprobe run --label good -- sh -c 'echo hello')
expect 0 jobprobe wait "$good"
expect 0 jobprobe output "$good"
bad=$(jobprobe run --label bad -- sh -c 'exit 3')
expect 3 jobprobe wait "$bad"
insist '"terminal_source": "supervisor_exit"' "$JOBPROBE_DIR/$bad/job.json"
expect 0 jobprobe list
