#!/usr/bin/env bash
# The one list of Debian packages that zvolt needs, and their installer. Called by tools/quickstart.sh and tools/test.sh;
# by hand: `tools/deps.sh` installs everything, `tools/deps.sh --list [GROUP...]` prints the names.
# Groups: build (compile and link, tests included), run (initiators for tests and quickstart), check (lint and test runners),
# all (these three, the default); vm (virtual machines of tests/vm, which asks for it itself).
# Quiet when nothing is missing. Never asks a question. On a system without apt it prints the list and goes on: CMake
# then says what it cannot find.
set -euo pipefail

build_packages=(
  build-essential   # g++ 12 or newer
  cmake             # 3.25 or newer
  ninja-build
  pkg-config
  ccache            # used when it is there; the second build takes seconds
  git
  libyaml-cpp-dev
  libspdlog-dev
  libfmt-dev
  liburing-dev      # 2.3 or newer
  libisal-dev       # CRC32C
  libssl-dev
  libcli11-dev
  nlohmann-json3-dev
  libgtest-dev
  libiscsi-dev      # tests only: the daemon does not link it
)
run_packages=(
  libiscsi-bin      # iscsi-ls, iscsi-inq, and the conformance suite iscsi-test-cu
  qemu-utils        # qemu-img, qemu-io
  qemu-block-extra  # their iscsi:// driver
)
check_packages=(
  clang-format
  clang-tidy
  shellcheck
  python3
  python3-jsonschema  # the examples against the schema of the configuration
  python3-yaml
  procps
  util-linux        # losetup
)
vm_packages=(
  qemu-system-x86
  cpio
  kmod              # depmod, modprobe: which modules the guest needs
  libelf1           # what kernel modules are built with links it
  python3
)

usage() {
  echo "usage: tools/deps.sh [--list] [build|run|check|all|vm]..."
}

# Boost 1.81 or newer: Debian 12 has it under its own name beside an older default.
boost_package() {
  if apt-cache show libboost1.81-dev 2>/dev/null | grep -q '^Package:' || installed libboost1.81-dev; then
    echo libboost1.81-dev
  else
    echo libboost-dev
  fi
}

installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

list=no
groups=()
for argument in "$@"; do
  case $argument in
    --list) list=yes ;;
    build | run | check | vm) groups+=("$argument") ;;
    all) groups+=(build run check) ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
((${#groups[@]})) || groups=(build run check)

have_apt=yes
command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || have_apt=no

# A machine that never ran `apt-get update` knows no package at all: Boost's name can then only be found afterwards.
wanted() {
  local group
  for group in "${groups[@]}"; do
    case $group in
      build)
        printf '%s\n' "${build_packages[@]}"
        if [[ $have_apt == yes ]]; then boost_package; else echo libboost-dev; fi
        ;;
      run) printf '%s\n' "${run_packages[@]}" ;;
      check) printf '%s\n' "${check_packages[@]}" ;;
      vm) printf '%s\n' "${vm_packages[@]}" ;;
    esac
  done | sort -u
}

if [[ $list == yes ]]; then
  wanted
  exit 0
fi
if [[ $have_apt == no ]]; then
  {
    echo "deps: no apt-get here. zvolt needs what these Debian packages hold (Boost 1.81 or newer):"
    wanted | paste -sd' ' | fold -s -w 100 | sed 's/^/  /'
  } >&2
  exit 0
fi

missing() {
  local package
  while read -r package; do installed "$package" || echo "$package"; done < <(wanted)
}
mapfile -t absent < <(missing)
((${#absent[@]})) || exit 0

as_root=()
if [[ $(id -u) != 0 ]]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  elif command -v sudo >/dev/null && [[ -t 0 ]]; then
    as_root=(sudo)
  else
    echo "deps: these packages are missing and I may not install them. As root, run:" >&2
    echo "  apt-get install -y --no-install-recommends ${absent[*]}" >&2
    exit 1
  fi
fi

echo "deps: installing ${#absent[@]} packages: ${absent[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null
}
if ! apt install -y --no-install-recommends "${absent[@]}"; then
  # The usual cause is a package index that is old or not there at all.
  if ! apt update; then
    tail -n 20 "$log" >&2
    echo "deps: apt-get update failed (above)" >&2
    exit 1
  fi
  mapfile -t absent < <(missing)
  if ! apt install -y --no-install-recommends "${absent[@]}"; then
    tail -n 20 "$log" >&2
    echo "deps: apt-get could not install: ${absent[*]}" >&2
    exit 1
  fi
fi
echo "deps: done"
