#!/usr/bin/env bash
# zvoltd on real zvols, with the kernel's initiator and with libiscsi, in a virtual machine. From a clean clone it installs
# what is missing, builds the machine (build.sh, cached) and the release programs, and runs the scenarios. Asks nothing.
#   tests/vm/run.sh [-v] [--retry] [--minutes N] [SCENARIO]...     all, or these; --list prints them
# ZVOLT_BIN_DIR: use the programs of that folder instead of building build/release. ZVOLT_VM_CACHE: see build.sh.
# ZVOLT_VM_ACCEL=tcg|kvm: else KVM where it works. Exit status 0 only when all checks passed;
# 3 when the machine cannot be made because this one's package sources lack its parts.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null

for argument in "$@"; do
  [[ $argument != --list ]] || exec python3 tests/vm/suite.py --list
done

tools/deps.sh build vm
artefacts=$(tests/vm/build.sh)
bin_dir=${ZVOLT_BIN_DIR:-}
if [[ -z $bin_dir ]]; then
  mkdir -p build
  cmake --preset release -Wno-dev >build/configure-release.log 2>&1 || { cat build/configure-release.log; exit 2; }
  ninja -C build/release --quiet zvoltd zvoltctl zvolt-verify-loop
  bin_dir=$PWD/build/release/bin
fi
exec python3 tests/vm/suite.py --artefacts "$artefacts" --bin-dir "$bin_dir" --logs "$(dirname "$artefacts")/logs" "$@"
