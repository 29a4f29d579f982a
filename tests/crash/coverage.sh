#!/usr/bin/env bash
# Which lines of backing/journal the crash simulation reaches, by gcov.
# Usage: tests/crash/coverage.sh BUILD_DIR [CUTS]     (BUILD_DIR is made, and is for nothing else)
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:?a build directory}
cuts=${2:-20000}
mkdir -p "$build"
build=$(cd "$build" && pwd)
cmake --preset release -S "$source_dir" -B "$build" -DCMAKE_CXX_FLAGS="--coverage -fprofile-update=single" >/dev/null
cmake --build "$build" --target crash_driver test_crash -- -j "${JOBS:-2}" >/dev/null
find "$build" -name '*.gcda' -delete
status=0
"$build/bin/crash_driver" --cuts "$cuts" || status=$?
"$build/bin/test_crash" --gtest_brief=1 || status=$?
cd "$build/backing/journal/CMakeFiles/zvolt_journal.dir"
echo
echo "coverage of backing/journal (lines executed):"
# One line per source of ours: gcov names the file, then the share.
gcov -n ./*.gcda 2>/dev/null |
  awk -F"'" '/^File/ { file = $2 } /^Lines executed/ && file ~ /backing\/journal\/[a-z_]+\.(cc|h)$/ { sub(/.*backing\//, "", file); print file, $0; file = "" }' |
  sed 's/Lines executed://' | sort -u | awk '
    { split($2, share, "%"); lines = $NF; printf "  %-28s %7s of %s\n", $1, $2, lines; hit += share[1] * lines / 100; all += lines }
    END { printf "  %-28s %6.2f%% of %d\n", "all", hit * 100 / all, all }'
exit $status
