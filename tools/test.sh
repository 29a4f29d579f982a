#!/usr/bin/env bash
# Everything that must be green: installs what is missing, builds dev (ASan, UBSan) and release, lint, all tests.
# Run from a clean clone by .ci/run and by hand; asks nothing. Unit tests run in dev, integration tests against the
# programs of both builds, `conformance` against release (its commands go through ASan in the other tests too).
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

# dev builds everything. release builds the programs only: the integration tests of dev are run once more against them.
build() {  # PRESET
  local targets=()
  [[ $1 == dev ]] || targets=(zvoltd zvoltctl zvolt-verify-loop)
  cmake --preset "$1" -Wno-dev >build/configure-"$1".log 2>&1 || { cat build/configure-"$1".log; return 1; }
  ninja -C "build/$1" -j "$jobs" --quiet "${targets[@]}"
}

run_ctest() {  # LOG CTEST-OPTION...
  local log=$1
  shift
  ctest "$@" --parallel "$jobs" --no-tests=error >"$log" 2>&1 || { grep -vE '^ *[0-9]+/[0-9]+ Test .* Passed|^ +Start ' "$log"; return 1; }
  grep -A 100 -E '^[0-9]+% tests passed' "$log"
}

run_tests() {  # PRESET
  if [[ $1 == dev ]]; then
    local excluded=()
    [[ " ${presets[*]} " != *" release "* ]] || excluded=(--label-exclude conformance)
    run_ctest build/ctest-dev.log --preset dev "${excluded[@]}"
    return
  fi
  if [[ " ${presets[*]} " == *" dev "* ]]; then
    ZVOLT_BIN_DIR=$PWD/build/release/bin run_ctest build/ctest-release.log --preset dev --label-regex integration || return
  fi
  run_ctest build/ctest-conformance.log --preset release --label-regex conformance
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
