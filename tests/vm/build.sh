#!/usr/bin/env bash
# Makes what tests/vm boots: a Debian kernel, OpenZFS built for it, and an initial RAM disk with ZFS, the kernel's iSCSI
# initiator and a few tools. Called by run.sh; by hand to fill the cache early. Nothing is installed on this machine but
# what tools/deps.sh lists under `vm`: guest packages are downloaded and unpacked only.
#   tests/vm/build.sh            prints the folder that holds vmlinuz and initrd; seconds when it is there already
#   tests/vm/build.sh --update   looks for a newer kernel or ZFS first
# Exit status 3: this machine's package sources do not have (or do not give) what it is made of.
# Everything lives in ZVOLT_VM_CACHE (default ~/.cache/zvolt-vm), one folder per kernel ABI and ZFS version. A stage that
# was finished is not repeated, one that was interrupted goes on where make stopped. ZFS takes 10 to 15 CPU minutes, once.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
cache=${ZVOLT_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zvolt-vm}
jobs=${ZVOLT_VM_JOBS:-$(nproc)}

guest_packages=(
  busybox-static kmod udev dmsetup util-linux e2fsprogs  # a system
  open-iscsi sg3-utils                                   # the kernel's initiator, and SCSI commands by hand
)
guest_binaries=(  # the guest sees these and what they link; everything else is busybox
  /sbin/zpool /sbin/zfs /lib/udev/zvol_id
  /sbin/iscsid /sbin/iscsiadm
  /sbin/mke2fs /sbin/e2fsck /sbin/resize2fs /sbin/blockdev /sbin/fstrim /sbin/blkdiscard /sbin/dmsetup /bin/udevadm /usr/bin/flock
  /usr/bin/sg_inq /usr/bin/sg_vpd /usr/bin/sg_readcap /usr/bin/sg_unmap /usr/bin/sg_get_lba_status /usr/bin/sg_sync
  /usr/bin/sg_luns /usr/bin/sg_modes /usr/bin/sg_turs /usr/bin/sg_raw
)
guest_modules=(virtio_pci virtio_blk virtio_net virtio_console virtio_rng sd_mod sg iscsi_tcp ext4 loop dm_mod dm_flakey
  crc32c_intel crct10dif_pclmul)

say() { echo "vm build: $*" >&2; }

# The machine's own sources with `contrib` and the backports suite added, in a private apt state: the machine's apt is
# left as it is, and no host name stands here.
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
apt_state=$cache/apt
apt_options=(
  -o "Dir::Etc::SourceList=$apt_state/sources.list" -o "Dir::Etc::SourceParts=$apt_state/sources.d"
  -o "Dir::State::Lists=$apt_state/lists" -o "Dir::Cache=$apt_state/cache" -o "Dir::State::status=$apt_state/status"
  -o Debug::NoLocking=1 -o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none
)
write_sources() {
  rm -rf "$apt_state"
  mkdir -p "$apt_state"/{sources.d,lists/partial,cache/archives/partial}
  : >"$apt_state/status"
  local file
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -e $file ]] || continue
    awk -v codename="$codename" 'BEGIN { RS = ""; ORS = "\n\n" }
      match($0, /Suites:[^\n]*/) {
        suites = substr($0, RSTART, RLENGTH) " "
        if (suites !~ " " codename "(-updates|-security)? " || $0 !~ /Components:[^\n]* main/) next
        if (index(suites, " " codename " ")) sub(/Suites:[^\n]*/, "& " codename "-backports")
        sub(/Components:[^\n]*/, "Components: main contrib")
        print
      }' "$file" >"$apt_state/sources.d/${file##*/}"
  done
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | awk -v codename="$codename" '
    $1 == "deb" && match($0, " " codename "(-updates|-security)? .*main") {
      head = substr($0, 1, RSTART - 1); split(substr($0, RSTART + 1), word, " ")
      print head, word[1], "main contrib"
      if (word[1] == codename) print head, codename "-backports", "main contrib"
    }' >"$apt_state/sources.list" || true
}
apt() { # ARGUMENT...
  apt-get "${apt_options[@]}" "$@" </dev/null >>"$cache/apt.log" 2>&1 || { tail -n 20 "$cache/apt.log" >&2; say "apt-get $1 failed"; exit 3; }
}
field() { apt-cache "${apt_options[@]}" show --no-all-versions "$1" 2>/dev/null | sed -n "s/^$2: //p" | head -n 1; }
depends() { field "$1" Depends | tr ',' '\n' | sed 's/^ *//; s/ .*//'; }

newest() {  # what the mirror has: sets kernel, kernel_common, zfs_package (a version of zfs-dkms) and key
  say "asking apt for the kernel and for ZFS"
  write_sources
  apt update
  kernel=$(depends linux-image-cloud-amd64 | sed -n 's/^linux-image-//p' | head -n 1)
  zfs_package=$(apt-cache "${apt_options[@]}" madison zfs-dkms | awk '{ print $3 }' | sort -rV | head -n 1)
  [[ -n $kernel && -n $zfs_package ]] || { say "no linux-image-cloud-amd64 or no zfs-dkms (Debian's contrib) for '$codename'"; exit 3; }
  key=$kernel-zfs-${zfs_package%%-*}
}

fetch() {  # into $dir/debs
  [[ ! -e $dir/debs/complete ]] || return 0
  say "downloading packages"
  mkdir -p "$dir/debs/partial"
  local common=${kernel%-cloud-amd64}-common zfs=() package
  for package in zfs-dkms zfsutils-linux; do zfs+=("$package=$zfs_package"); done
  local libraries=()
  mapfile -t libraries < <(apt-cache "${apt_options[@]}" show "zfsutils-linux=$zfs_package" | sed -n 's/^Depends: //p' | head -n 1 |
    tr ',' '\n' | grep -oE 'lib[a-z]+[0-9]+linux')
  # With an empty status file apt resolves a whole system: the guest's libraries fit together whatever runs here.
  apt install -y --download-only --no-install-recommends -o "Dir::Cache::archives=$dir/debs" "${guest_packages[@]}" \
    "${libraries[@]/%/=$zfs_package}"
  local build=("linux-image-$kernel" "linux-headers-$kernel" "linux-headers-$common")
  mapfile -t -O 3 build < <(depends "linux-headers-$kernel" | grep -E '^linux-(kbuild|compiler)')
  (cd "$dir/debs" && apt download "${build[@]}" "${zfs[@]}")
  touch "$dir/debs/complete"
}

unpack() {
  local deb
  if [[ ! -e $dir/build/unpacked ]]; then
    say "unpacking kernel $kernel and ZFS $zfs_package"
    rm -rf "$dir/build" && mkdir -p "$dir/build"
    for deb in "$dir"/debs/linux-*.deb "$dir"/debs/zfs-dkms_*.deb; do dpkg -x "$deb" "$dir/build"; done
    # The only absolute path in the headers.
    sed -i "s#^include /usr/src#include $dir/build/usr/src#" "$dir/build/usr/src/linux-headers-$kernel/Makefile"
    touch "$dir/build/unpacked"
  fi
  if [[ ! -e $dir/userland/unpacked ]]; then
    rm -rf "$dir/userland" && mkdir -p "$dir/userland"
    for deb in "$dir"/debs/*.deb; do
      case ${deb##*/} in linux-* | zfs-dkms_*) ;; *) dpkg -x "$deb" "$dir/userland" ;; esac
    done
    rm -rf "$dir"/userland/usr/share/{doc,man,locale,info} "$dir"/userland/usr/lib/x86_64-linux-gnu/perl*
    touch "$dir/userland/unpacked"
  fi
}

build_zfs() {
  local headers=$dir/build/usr/src source compiler=gcc
  source=$(echo "$headers"/zfs-*)
  # The kernel's own compiler, where it is there: modules want the same.
  compiler=$(sed -n 's/^CONFIG_GCC_VERSION=\([0-9]*\)[0-9]\{4\}$/gcc-\1/p' "$headers/linux-headers-$kernel/.config")
  command -v "$compiler" >/dev/null || compiler=gcc
  cd "$source"
  if [[ ! -e configured ]]; then
    say "ZFS: configure (4 to 7 minutes; log in $dir/configure.log)"
    TEST_JOBS=$jobs ./configure --with-config=kernel --with-linux="$headers/linux-headers-${kernel%-cloud-amd64}-common" \
      --with-linux-obj="$headers/linux-headers-$kernel" KERNEL_CC="$compiler" >"$dir/configure.log" 2>&1 ||
      { tail -n 20 "$dir/configure.log" >&2; return 1; }
    touch configured
  fi
  say "ZFS: make (5 to 10 minutes; log in $dir/make.log)"
  # No debug information: half the time, a tenth of the size.
  KCFLAGS=-g0 make -j "$jobs" -C module >"$dir/make.log" 2>&1 || { grep -iE 'error|\*\*\*' "$dir/make.log" | tail -n 20 >&2; return 1; }
  cd "$here"
}

collect_modules() {  # of the kernel those that the guest loads and what they need; and ZFS
  local out=$dir/modules/lib/modules/$kernel module file
  rm -rf "$dir/modules" && mkdir -p "$out/extra"
  cp "$dir/build/lib/modules/$kernel"/modules.{builtin,builtin.modinfo,order} "$out/"
  depmod -b "$dir/build" "$kernel"
  for module in "${guest_modules[@]}"; do
    modprobe -d "$dir/build" -S "$kernel" --show-depends "$module" | awk '$1 == "insmod" { print $2 }'
  done | sort -u | while read -r file; do install -D -m 644 "$file" "$out/kernel/${file##*/kernel/}"; done
  for module in spl zfs; do strip -g -o "$out/extra/$module.ko" "$dir"/build/usr/src/zfs-*/module/$module.ko; done
  depmod -b "$dir/modules" "$kernel"
  cp "$dir/build/boot/vmlinuz-$kernel" "$dir/vmlinuz"
}

# put FILE: copies a program of the userland, and every library that it names, into the RAM disk.
put() {
  local from=$dir/userland$1 name library
  [[ -e $from ]] || from=$dir/userland/usr$1
  [[ -e $from ]] || from=$dir/userland${1#/usr}
  install -D -m 755 "$from" "$root$1"
  put_libraries "$from"
}
put_libraries() {
  local name library
  while read -r name; do
    [[ ! -e $root/lib/x86_64-linux-gnu/$name ]] || continue
    library=$(find "$dir/userland/lib" "$dir/userland/usr/lib" -name "$name" | head -n 1)
    [[ -n $library ]] || { say "$1 wants $name, which no guest package has"; return 1; }
    install -D -m 755 "$library" "$root/lib/x86_64-linux-gnu/$name"
    put_libraries "$library"
  done < <(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }')
}

make_initrd() {  # RESULT
  say "initial RAM disk"
  local binary
  root=$dir/initrd.d
  rm -rf "$root"
  mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,lib64,proc,sys,dev,run,tmp,root,mnt,etc/iscsi,etc/udev,var/lib/iscsi,lib/x86_64-linux-gnu,lib/systemd,lib/udev/rules.d}
  for binary in "${guest_binaries[@]}"; do put "$binary"; done
  put /bin/busybox
  put_libraries "$dir/userland/lib/x86_64-linux-gnu/libc.so.6"
  # Opened at run time, by pthread_exit.
  install -m 755 "$(find "$dir/userland" -name libgcc_s.so.1 | head -n 1)" "$root/lib/x86_64-linux-gnu/"
  ln -s ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$root/lib64/"
  ln -s busybox "$root/bin/sh"
  ln -s mke2fs "$root/sbin/mkfs.ext4"
  ln -s /bin/udevadm "$root/lib/systemd/systemd-udevd"
  cp "$dir/userland/lib/udev/rules.d/60-zvol.rules" "$root/lib/udev/rules.d/"
  cp "$dir/userland/etc/mke2fs.conf" "$root/etc/"
  sed 's/^node.startup.*/node.startup = manual/; s/^iscsid.startup/#&/' "$dir/userland/etc/iscsi/iscsid.conf" >"$root/etc/iscsi/iscsid.conf"
  cp -r "$dir/modules/lib/modules" "$root/lib/"
  install -m 755 guest/init "$root/init"
  cp -r guest/etc "$root/"
  (cd "$root" && find . -print0 | cpio --null -o -H newc --quiet | gzip -1) >"$1.part"
  mv "$1.part" "$1"
  rm -rf "$root"
}

mkdir -p "$cache"
exec 9>"$cache/lock"
flock -n 9 || { say "another build holds $cache/lock: waiting"; flock -w 3600 9; }

dir=$(readlink -f "$cache/current" || true)
if [[ ${1:-} == --update || ! -e $dir/finished ]]; then
  if [[ ${1:-} != --update && -e $cache/unfinished ]]; then
    # shellcheck source=/dev/null
    . "$cache/unfinished"  # an interrupted build: the same kernel and ZFS
    say "going on with $key"
    [[ -e $cache/$key/debs/complete ]] || newest
  else
    newest
  fi
  dir=$cache/$key
  if [[ ! -e $dir/finished ]]; then
    mkdir -p "$dir"
    printf 'kernel=%q zfs_package=%q key=%q\n' "$kernel" "$zfs_package" "$key" >"$cache/unfinished"
    fetch
    unpack
    build_zfs
    collect_modules
    touch "$dir/finished"
    rm -rf "$dir/build" "$dir/debs" "$apt_state" "$cache/unfinished"
  fi
  ln -sfn "$key" "$cache/current"
fi

# The RAM disk is cheap and follows this script and the files in guest/.
recipe=$(find build.sh guest -type f | sort | xargs sha256sum | sha256sum | cut -c 1-12)
initrd=$dir/initrd-$recipe.img
[[ -e $initrd ]] || make_initrd "$initrd"
ln -sfn "${initrd##*/}" "$dir/initrd.new"
mv -T "$dir/initrd.new" "$dir/initrd"  # in one step: another run may boot from it now
find "$dir" -maxdepth 1 -name 'initrd-*.img' ! -name "${initrd##*/}" -delete
echo "$dir"
