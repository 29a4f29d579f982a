#!/usr/bin/env bash
# Everything that must be green: installs what is missing, builds dev (ASan, UBSan) and release, lint, all tests in both.
# Run from a clean clone by .ci/run and by hand; asks nothing. Slow suites run once: `conformance` in release only (its
# commands go through ASan in the unit and integration tests too).
#   tools/test.sh [dev|release]...   only these builds (default: dev release)
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

presets=("$@")
((${#presets[@]})) || presets=(dev release)
for preset in "${presets[@]}"; do
  case $preset in dev | release) ;; *) echo "usage: tools/test.sh [dev|release]..." >&2; exit 2 ;; esac
done

jobs=$(nproc)
failed=()
step() {  # NAME COMMAND...: runs it, tells how long it took, remembers a failure and goes on
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  if "$@"; then echo "== $name: ok ($((SECONDS - start)) s)"; else failed+=("$name"); echo "== $name: FAILED ($((SECONDS - start)) s)"; fi
}

build() {  # PRESET
  cmake --preset "$1" -Wno-dev >build/configure-"$1".log 2>&1 || { cat build/configure-"$1".log; return 1; }
  ninja -C "build/$1" -j "$jobs" --quiet
}

run_tests() {  # PRESET
  local options=(--preset "$1" --parallel "$jobs" --no-tests=error)
  [[ $1 == release || " ${presets[*]} " != *" release "* ]] || options+=(--label-exclude conformance)
  ctest "${options[@]}" >"build/ctest-$1.log" 2>&1 || { grep -vE '^ *[0-9]+/[0-9]+ Test .* Passed|^ +Start ' "build/ctest-$1.log"; return 1; }
  grep -A 100 -E '^[0-9]+% tests passed' "build/ctest-$1.log"
}

mkdir -p build
tools/deps.sh
for preset in "${presets[@]}"; do
  step "build $preset" build "$preset"
  [[ $preset != dev || " ${failed[*]-} " == *"build dev"* ]] || step lint tools/lint.sh
  [[ " ${failed[*]-} " == *"build $preset"* ]] || step "tests $preset" run_tests "$preset"
done

if ((${#failed[@]})); then
  printf 'test.sh: FAILED after %d s: ' "$SECONDS"
  (IFS=,; echo "${failed[*]}")
  exit 1
fi
echo "test.sh: all green after $SECONDS s"
