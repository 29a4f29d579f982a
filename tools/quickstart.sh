#!/usr/bin/env bash
# From a clone to a served disk in one command: installs what is missing (Debian, Ubuntu), builds the release, serves a sparse
# file as an iSCSI LUN on this machine, proves with other people's initiators (libiscsi's tools, QEMU) that what is written
# comes back, prints how Linux, Windows and ESXi connect, and serves until Ctrl-C. Asks nothing.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tools/quickstart.sh [--once] [--size 1GiB] [--dir DIRECTORY] [--listen ADDRESS] [--port PORT]
  --once     end after the proof, exit status 0
  --size     size of the disk (default 1GiB; sparse: it takes what is written)
  --dir      where disk, configuration and log lie (default build/quickstart; the disk stays there)
  --listen   address to serve on (default 127.0.0.1: this machine only; 0.0.0.0 lets every host in)
  --port     first port to try (default 3260)
TEXT
}

say() { printf '%s\n' "$@"; }
fail() {
  printf 'quickstart: %s\n' "$*" >&2
  exit 1
}

top=$(cd "$(dirname "$0")/.." && pwd)
once=no size=1GiB directory=$top/build/quickstart listen=127.0.0.1 port=3260
while (($#)); do
  case $1 in
    --once) once=yes ;;
    --size | --dir | --listen | --port)
      (($# > 1)) || { usage >&2; exit 2; }
      case $1 in
        --size) size=$2 ;;
        --dir) mkdir -p "$2" && directory=$(cd "$2" && pwd) ;;
        --listen) listen=$2 ;;
        --port) port=$2 ;;
      esac
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
[[ $port =~ ^[1-9][0-9]{0,4}$ ]] || fail "--port $port is no TCP port"
exec </dev/null
cd "$top"

readonly target=iqn.2026-11.org.zvolt:quickstart
readonly proof_mib=64  # written and read back through QEMU's initiator

daemon=
scratch=$(mktemp -d)
# shellcheck disable=SC2317  # called by the trap
finish() {
  if [[ -n $daemon ]] && kill -0 "$daemon" 2>/dev/null; then
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
  fi
  rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { say "[$((SECONDS / 60))m$((SECONDS % 60))s] $*"; }

# --- 1. build ---------------------------------------------------------------------------------------------------------

step "packages"
tools/deps.sh build run
step "building the release (the first time takes some minutes)"
mkdir -p build "$directory"
if ! cmake --preset release >"$scratch/build.log" 2>&1 || ! ninja -C build/release zvoltd zvoltctl >>"$scratch/build.log" 2>&1; then
  tail -n 40 "$scratch/build.log" >&2
  fail "the build failed (above)"
fi
bin=$top/build/release/bin

# --- 2. serve ---------------------------------------------------------------------------------------------------------

listening() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

probe_address=$listen
[[ $listen == 0.0.0.0 ]] && probe_address=127.0.0.1
first_port=$port
while listening "$probe_address" "$port"; do
  port=$((port + 1))
  ((port < first_port + 100 && port < 65536)) || fail "ports $first_port to $port are all taken; choose one with --port"
done
((port == first_port)) || say "    port $first_port is taken, using $port"

disk=$directory/disk.img
allow=
[[ $listen == 127.* ]] || allow=$'\n    allow_any: true   # no password: for a trusted network, or for minutes'
yaml=$directory/zvolt.yaml
cat >"$yaml" <<YAML
# Written by tools/quickstart.sh; to serve the disk again by hand: zvoltd -c $yaml
listen: ["$listen:$port"]
state_dir: $directory/state
admin: { socket: $directory/admin.sock }
targets:
  - name: $target$allow
    luns:
      - { lun: 0, name: quickstart, file: $disk, provision: { size: $size } }
YAML
# The proof overwrites what it is made on: a disk that was there before keeps its data, and a LUN in memory is used instead.
proof_target=$target
if [[ -e $disk ]]; then
  say "    the disk of an earlier run is there and keeps its size and data: $disk"
  proof_target=$target-proof
  cat >>"$yaml" <<YAML
  - name: $proof_target$allow
    luns:
      - { lun: 0, name: proof, memory: ${proof_mib}MiB }
YAML
fi
"$bin/zvoltctl" check "$yaml" >"$scratch/check" 2>&1 || { cat "$scratch/check" >&2; fail "the configuration is not good (above)"; }

log=$directory/zvoltd.log
"$bin/zvoltd" -c "$yaml" >"$log" 2>&1 &
daemon=$!
for _ in $(seq 300); do
  listening "$probe_address" "$port" && break
  kill -0 "$daemon" 2>/dev/null || { tail -n 20 "$log" >&2; fail "zvoltd did not start (its log is above)"; }
  sleep 0.1
done
listening "$probe_address" "$port" || { tail -n 20 "$log" >&2; fail "zvoltd does not listen on $listen:$port (its log is above)"; }
portal=$probe_address:$port
url=iscsi://$portal/$target/0 proof_url=iscsi://$portal/$proof_target/0
step "serving $size as $url (pid $daemon)"

# --- 3. proof ---------------------------------------------------------------------------------------------------------

check() { # WHAT COMMAND...: its output in $scratch/out
  local what=$1
  shift
  if ! timeout 120 "$@" >"$scratch/out" 2>&1; then
    tail -n 20 "$scratch/out" >&2
    tail -n 20 "$log" >&2
    fail "$what failed (above: its output, then zvoltd's log)"
  fi
}

check "discovery with iscsi-ls" iscsi-ls -s "iscsi://$portal"
grep -q "$target" "$scratch/out" || fail "iscsi-ls does not see $target: $(cat "$scratch/out")"
sed 's/^/    /' "$scratch/out"
check "INQUIRY with iscsi-inq" iscsi-inq "$url"
grep -iE 'vendor|product|revision' "$scratch/out" | sed 's/^/    /'

check "asking for the size with qemu-img" qemu-img info --output=json "$proof_url"
disk_bytes=$(grep -oE '"virtual-size": [0-9]+' "$scratch/out" | head -n 1 | grep -oE '[0-9]+') || fail "qemu-img does not tell the disk's size"
proof_bytes=$((proof_mib << 20))
((proof_bytes <= disk_bytes)) || proof_bytes=$disk_bytes

# Random data into the LUN by QEMU's iSCSI initiator, out again through a new session, and compared.
head -c "$proof_bytes" /dev/urandom >"$scratch/written"
check "writing with qemu-img" qemu-img convert -n -f raw -O raw "$scratch/written" "$proof_url"
check "reading with qemu-img" qemu-img dd -f raw -O raw "if=$proof_url" "of=$scratch/read" bs=64k "count=$((proof_bytes / 65536))"
cmp -n "$((proof_bytes / 65536 * 65536))" "$scratch/written" "$scratch/read" || fail "what was read back differs from what was written"
if [[ $proof_target == "$target" ]]; then
  cmp -n "$proof_bytes" "$scratch/written" "$disk" || fail "the backing file does not hold what was written"
  check "giving the space back with qemu-io" qemu-io -f raw -c "discard 0 $proof_bytes" -c flush "$proof_url"
fi
sum=$(sha256sum <"$scratch/read")
step "verified $proof_bytes bytes: written and read back over iSCSI, sha256 ${sum%% *}"
rm -f "$scratch/written" "$scratch/read"
"$bin/zvoltctl" --socket "$directory/admin.sock" stats 2>&1 | sed 's/^/    /'

# --- 4. how others connect --------------------------------------------------------------------------------------------

address=$listen
if [[ $listen == 0.0.0.0 ]]; then
  address=$(hostname -I 2>/dev/null | awk '{print $1}')
  address=${address:-ADDRESS-OF-THIS-HOST}
fi
cat <<TEXT

The disk is served at
    iscsi://$address:$port/$target/0

Linux (open-iscsi):
    iscsiadm -m discovery -t sendtargets -p $address:$port
    iscsiadm -m node -T $target -p $address:$port --login
    lsblk -S                                            # the new disk: vendor ZVOLT

Windows (PowerShell as administrator):
    Start-Service MSiSCSI
    New-IscsiTargetPortal -TargetPortalAddress $address -TargetPortalPortNumber $port
    Connect-IscsiTarget -NodeAddress $target -IsPersistent \$true
    Get-Disk | Where-Object BusType -eq iSCSI

ESXi:
    esxcli iscsi software set --enabled=true
    HBA=\$(esxcli iscsi adapter list | awk '/iscsi_vmk/ {print \$1}')
    esxcli iscsi adapter discovery sendtarget add --adapter=\$HBA --address=$address:$port
    esxcli storage core adapter rescan --adapter=\$HBA

QEMU and Proxmox, without any login on the host:
    qemu-img info iscsi://$address:$port/$target/0

Look at it:
    $bin/zvoltctl --socket $directory/admin.sock status
    $bin/zvoltctl --socket $directory/admin.sock stats
TEXT
[[ $listen == 127.* ]] && say "" && say "It listens on this machine only; --listen 0.0.0.0 serves other hosts (without a password)."

if [[ $once == yes ]]; then
  kill "$daemon"
  status=0
  wait "$daemon" || status=$?
  daemon=
  ((status == 0)) || { tail -n 20 "$log" >&2; fail "zvoltd ended with status $status (its log is above)"; }
  step "done: the proof holds, zvoltd ended cleanly"
  exit 0
fi

say "" "Ctrl-C ends it; the disk stays in $disk."
trap 'say "" "quickstart: ending"; exit 0' INT TERM
status=0
wait "$daemon" || status=$?
daemon=
tail -n 20 "$log" >&2
fail "zvoltd ended by itself with status $status (its log is above)"
