#!/usr/bin/env bash
# The style gate: every rule of the tree that a program can check, one named check each. Exit 0 when all hold, 1 when one
# does not, 2 on wrong use. Run by tools/test.sh and by hand; needs nothing built except a configured build directory for
# clang-tidy and the headers check (LINT_BUILD, default build/dev).
#   tools/lint.sh            all checks, clang-tidy on what changed (against LINT_BASE, else origin/main, else 20 commits)
#   tools/lint.sh --all      clang-tidy on every file
#   tools/lint.sh --only NAME[,NAME...]   only these checks;  --list prints their names
# shellcheck disable=SC2317  # the checks are called by name
set -euo pipefail
cd "$(dirname "$0")/.."

readonly max_file_lines=600
readonly max_tidy_files=${LINT_TIDY_FILES:-6}  # most recently changed first: about 25 s each on one core
readonly commits_back=20
build=${LINT_BUILD:-build/dev}
jobs=${LINT_JOBS:-$(nproc)}
cache=${LINT_CACHE:-build/lint}
all=no
only=

while (($#)); do
  case $1 in
    --all) all=yes ;;
    --only) only=,${2:?--only needs a name},; shift ;;
    --list) sed -n 's/^check_\([a-z_]*\)() {.*/\1/p' "$0"; exit 0 ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "lint: unknown argument $1" >&2; exit 2 ;;
  esac
  shift
done

mapfile -t cxx < <(git ls-files '*.cc' '*.h' | while read -r f; do [[ -e $f ]] && echo "$f"; done)
mapfile -t headers < <(printf '%s\n' "${cxx[@]}" | grep '\.h$')
mapfile -t scripts < <(git ls-files | while read -r f; do
  [[ -f $f ]] && head -c 64 "$f" | head -n 1 | grep -qaE '^#!.*\b(ba)?sh\b' && echo "$f"; done)

# Each check prints what is wrong and nothing when all is well.

check_format() {
  # shellcheck disable=SC2016  # $1 belongs to the inner shell
  printf '%s\0' "${cxx[@]}" | xargs -0 -P "$jobs" -n 1 sh -c \
    'clang-format --dry-run -Werror "$1" >/dev/null 2>&1 || echo "$1: differs from clang-format -i"' sh | sort
}

# Files whose include lines break a layer rule. Usage: forbidden_includes 'FILES-REGEX' 'ALLOWED-FOLDERS-REGEX'
forbidden_includes() {
  local files
  mapfile -t files < <(printf '%s\n' "${cxx[@]}" | grep -E "$1")
  ((${#files[@]})) || return 0
  grep -HnE '^ *# *include +"' "${files[@]}" | grep -vE "\"($2)/" | sed "s#\$#   (allowed here: $2)#"
}

check_layers() {
  forbidden_includes '^backing/' 'backing'
  forbidden_includes '^scsi/' 'scsi|backing'
  forbidden_includes '^config/' 'config'
  forbidden_includes '^target/(daemon/|[^/]*main\.cc$)' 'target|scsi|backing|config'
  printf '%s\n' "${cxx[@]}" | grep -E '^target/' | grep -vE '^target/(daemon/|[^/]*main\.cc$)' >"$scratch/target" || true
  if [[ -s $scratch/target ]]; then
    forbidden_includes "^($(sed 's/\./\\./g' "$scratch/target" | paste -sd'|'))\$" 'target|scsi|backing'
  fi
}

# The initiator library is LGPL and GPL: it stays out of what is installed.
check_initiator_library_only_in_tests() {
  printf '%s\n' "${cxx[@]}" | grep -v '^tests/' | xargs -r grep -HnE '# *include *<iscsi/'
}

# g++ 12 lays such a coroutine's frame out wrongly and says nothing (the condition's temporary is placed before the resume
# pointer). Also catches forms that are safe: simple and strict.
check_no_co_await_in_condition() {
  printf '%s\0' "${cxx[@]}" | xargs -0 grep -HnE '\b(if|while|switch|for) *\(.*co_await'
}

check_file_length() {
  local file lines
  for file in "${cxx[@]}"; do
    lines=$(wc -l <"$file")
    ((lines <= max_file_lines)) || echo "$file: $lines lines, the limit is $max_file_lines"
  done
}

check_header_guards() {
  local file
  for file in "${headers[@]}"; do grep -q '^#pragma once' "$file" || echo "$file: no #pragma once"; done
}

# Line 1 of every source says what the file is.
check_opening_comment() {
  local file
  for file in "${cxx[@]}"; do head -n 1 "$file" | grep -q '^//' || echo "$file: no opening comment"; done
}

# Each header alone in a translation unit; one that its own .cc includes first is proven by the build already. Through
# ccache: the second run costs little.
check_headers_self_contained() {
  local header unit source launcher=()
  command -v ccache >/dev/null && launcher=(ccache)
  mkdir -p "$cache/headers"
  for header in "${headers[@]}"; do
    source=${header%.h}.cc
    [[ -e $source && $(grep -m 1 '^#include' "$source") == "#include \"$header\"" ]] && continue
    unit=$cache/headers/$(tr '/.' '__' <<<"$header").cc
    printf '#include "%s"\n' "$header" | cmp -s - "$unit" || printf '#include "%s"\n' "$header" >"$unit"
    echo "$unit"
  done >"$scratch/units"
  xargs -a "$scratch/units" -P "$jobs" -I{} "${launcher[@]}" "${CXX:-g++}" -std=c++20 -O0 -w -I. -c {} -o {}.o 2>&1 |
    grep -E 'error' | head -n 40
}

check_shell() {
  command -v shellcheck >/dev/null || { echo "shellcheck is missing: tools/deps.sh"; return 0; }
  ((${#scripts[@]})) || return 0
  shellcheck -x "${scripts[@]}" | head -n 80
}

check_scripts_executable() {
  local file
  for file in "${scripts[@]}"; do [[ -x $file ]] || echo "$file: has a #! line but no executable bit"; done
}

# Brackets keep these lines from finding themselves.
check_nothing_unfinished() {
  git grep -nwE 'TO[D]O|FIX[M]E|X[X]X|HA[C]K|DISABLE[D]_[A-Za-z]+' -- . ':!LICENSE'
}

check_no_machine_paths() {
  git grep -nE '(^|[^[:alnum:]_.])/(hom[e]|roo[t]|User[s]|wor[k]|far[m])/[A-Za-z]' -- . ':!LICENSE'
}

changed_sources() {
  local base=${LINT_BASE:-}
  if [[ -z $base ]]; then
    base=$(git merge-base HEAD origin/main 2>/dev/null || true)
    [[ -n $base && $base != $(git rev-parse HEAD) ]] || base=$(git rev-list --max-count=1 --skip="$commits_back" HEAD)
    [[ -n $base ]] || base=$(git rev-list --max-parents=0 HEAD | tail -n 1)
  fi
  {
    git diff --name-only HEAD -- '*.cc'
    git log --format= --name-only "$base..HEAD" -- '*.cc'
  } | awk '!seen[$0]++' | while read -r file; do [[ -e $file ]] && echo "$file"; done
}

check_tidy() {
  [[ -e $build/compile_commands.json ]] || { echo "no $build/compile_commands.json: run cmake --preset dev first"; return 0; }
  if [[ $all == yes ]]; then git ls-files '*.cc'; else changed_sources; fi >"$scratch/changed"
  # Only what the build compiles; a file of a part that is switched off has no flags.
  while read -r file; do grep -qF "$(pwd)/$file\"" "$build/compile_commands.json" && echo "$file"; done \
    <"$scratch/changed" >"$scratch/tidy" || true
  if [[ $all != yes && $(wc -l <"$scratch/tidy") -gt $max_tidy_files ]]; then
    echo "  (clang-tidy: the $max_tidy_files most recently changed of $(wc -l <"$scratch/tidy") files; --all checks every one)" >&2
    sed -i "$((max_tidy_files + 1)),\$d" "$scratch/tidy"
  fi
  [[ -s $scratch/tidy ]] || return 0
  xargs -a "$scratch/tidy" -P "$jobs" -n 1 clang-tidy --quiet -p "$build" 2>/dev/null | grep -E '(error|warning):' |
    sed "s|$(pwd)/||" | sort -u | head -n 60
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
mapfile -t names < <(sed -n 's/^check_\([a-z_]*\)() {.*/\1/p' "$0")
for name in "${names[@]}"; do
  [[ -z $only || $only == *,$name,* ]] || continue
  start=$SECONDS
  "check_$name" >"$scratch/out" || true  # the last command is a grep that found nothing
  if [[ -s $scratch/out ]]; then
    failed=1
    printf 'lint: %-38s FAILED (%d s)\n' "$name" $((SECONDS - start))
    sed 's/^/  /' "$scratch/out"
  else
    printf 'lint: %-38s ok (%d s)\n' "$name" $((SECONDS - start))
  fi
done
exit $failed
