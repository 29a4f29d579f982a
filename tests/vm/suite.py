#!/usr/bin/env python3
"""Runs the scenarios of scenarios/*.py in virtual machines and prints, for each, checks, minutes and boots. Called by run.sh,
which has built everything. Scenarios share one machine while all goes well; after one that failed, hung, or taints the kernel
the next gets a new one. With --retry (CI) a scenario that failed runs once more in a new machine, and both outcomes are told.
Exit status 0: all checks passed; 1: one did not; 2: it could not run."""

import argparse
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from vmlib import machine  # noqa: E402
from vmlib.initiator import IscsiError  # noqa: E402
from vmlib.scenario import REGISTRY, Test  # noqa: E402

SUITE_LIMIT_MINUTES = 45  # no scenario is started after that
PROGRAMS = ("zvoltd", "zvoltctl")
MAKE_POOL = """zpool create -f -o ashift=12 -O compression=off -O atime=off tank /dev/vda1 log /dev/vdb1
echo 5 > /sys/module/zfs/parameters/zfs_txg_timeout"""
CLEAN = """kill -9 $(cat /run/zvoltd.pid 2>/dev/null) 2>/dev/null
umount /mnt 2>/dev/null
iscsiadm -m node --logoutall=all >/dev/null 2>&1; iscsiadm -m node -o delete >/dev/null 2>&1
rm -rf /var/lib/zvolt/* /etc/zvolt
n=0; while zpool list -H -o name tank >/dev/null 2>&1; do
  zpool destroy -f tank 2>/dev/null && break
  n=$((n+1)); [ $n -lt 20 ] || exit 1; sleep 0.5
done"""
START_UDEV = """pidof systemd-udevd >/dev/null || { /lib/systemd/systemd-udevd --daemon; udevadm trigger --action=add --subsystem-match=block; udevadm settle -t 30; }"""
STOP_UDEV = "! pidof systemd-udevd >/dev/null || udevadm control --exit; rm -rf /run/udev/control /dev/zvol"


def say(text):
    print(text, flush=True)


def libraries(program):
    output = subprocess.run(["ldd", program], stdout=subprocess.PIPE, check=True, text=True).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", output)))


def make_overlay(bin_dir, path):
    """The programs under test and their libraries, as a second RAM disk image: it goes over the first."""
    with tempfile.TemporaryDirectory() as root:
        for program in PROGRAMS:
            source = os.path.join(bin_dir, program)
            place(source, os.path.join(root, "usr/bin", program))
            subprocess.run(["strip", "-g", os.path.join(root, "usr/bin", program)], check=True)
            for library in libraries(source):
                place(os.path.realpath(library), os.path.join(root, "lib64" if "/ld-" in library else "lib/x86_64-linux-gnu",
                                                               os.path.basename(library)))
        with open(path, "wb") as out:
            subprocess.run("find . -mindepth 1 -print0 | cpio --null -o -H newc --quiet | gzip -1", shell=True, cwd=root, stdout=out,
                           check=True)


def place(source, destination):
    os.makedirs(os.path.dirname(destination), exist_ok=True)
    shutil.copy(source, destination)


class Suite:
    """The machine that scenarios share, and the results."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.accel = machine.accelerator()
        self.overlay = os.path.join(folder, "overlay.img")
        self.machine = None
        self.results = []
        make_overlay(options.bin_dir, self.overlay)

    def ready_machine(self, log):
        if self.machine is None or not self.machine.running():
            self.machine = machine.Machine(self.options.artefacts, self.overlay, os.path.join(self.folder, "vm"), self.accel, log)
            try:
                self.machine.boot()
            except machine.VmError as error:
                self.machine.power_cut()
                if self.accel != "kvm":
                    raise
                log(f"no start under KVM ({error}); from here on without it")
                self.accel = self.machine.accel = "tcg"
                self.machine.boot()
        self.machine.log = log
        return self.machine

    def run(self, name):
        entry, began, boots = REGISTRY[name], time.monotonic(), machine.Machine.boots
        lines = []

        def log(text):
            lines.append(text)
            if self.options.verbose or "FAILED" in text:
                say(f"   {text}")

        say(f"== {name}: {entry['text']}")
        test, broken = None, None
        try:
            vm = self.ready_machine(log)
            vm.sh(CLEAN)
            vm.sh(START_UDEV if entry["udev"] else STOP_UDEV)
            if entry["pool"]:
                vm.sh(MAKE_POOL)
            test = Test(vm, self.options.bin_dir, log)
            entry["run"](test)
        except (machine.VmError, IscsiError, AssertionError, OSError, subprocess.SubprocessError, KeyError, ValueError, IndexError,
                TypeError) as error:
            where = traceback.extract_tb(error.__traceback__)
            lines.append(traceback.format_exc())
            place_in = next((f for f in reversed(where) if "/scenarios/" in f.filename), where[-1])
            broken = f"{type(error).__name__} at {os.path.basename(place_in.filename)}:{place_in.lineno}: {error}"
            say(f"   BROKEN {broken[:1500]}")
        self.end(name, entry, test, broken, lines, time.monotonic() - began, machine.Machine.boots - boots)

    def end(self, name, entry, test, broken, lines, seconds, boots):
        passed, failures, notes = (test.passed, test.failures, test.notes) if test else (0, [], [])
        if broken:
            failures = failures + [broken]
        if failures:
            self.keep_logs(name, lines)
        for action in reversed(test.cleanups if test and not broken else []):
            try:
                action()
            except machine.VmError as error:
                lines.append(str(error))
                broken = broken or str(error)
        if self.machine and (broken or entry["taints"]):
            self.machine.power_cut()
        say(f"== {name}: {'FAILED' if failures else 'ok'}, {passed} checks passed"
            f"{f', {len(failures)} failed' if failures else ''}, {seconds / 60:.1f} min, {boots} boots")
        self.results.append({"name": name, "passed": passed, "failures": failures, "notes": notes, "seconds": seconds, "boots": boots})

    def run_again(self, name):
        """The second and last attempt of a scenario that failed, in a new machine. The first one stays in the summary."""
        first = self.results.pop()
        if self.machine:
            self.machine.power_cut()
        say(f"== {name}: once more, in a new machine")
        self.run(name)
        self.results[-1]["notes"] += [f"FIRST ATTEMPT FAILED: {failure.splitlines()[0][:300]}" for failure in first["failures"]]
        self.results[-1]["boots"] += first["boots"]

    def keep_logs(self, name, lines):
        """What is needed to understand a failure goes to the cache, and its place is told."""
        kept = os.path.join(self.options.logs, name)
        shutil.rmtree(kept, ignore_errors=True)
        os.makedirs(kept)
        with open(os.path.join(kept, "scenario.log"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        for log in ("console.log", "console.log.before", "qemu.log"):
            path = os.path.join(self.folder, "vm", log)
            if os.path.exists(path):
                shutil.copy(path, kept)
        if self.machine and self.machine.running():
            self.save(kept, "zvoltd.log", "cat /var/log/zvoltd.log")
            self.save(kept, "guest.log", "dmesg | tail -n 200; zpool status 2>&1; zfs list -t all 2>&1; ps; cat /etc/zvolt/zvolt.yaml")
        say(f"   logs: {kept}")

    def save(self, folder, name, script):
        try:
            text = self.machine.run(script, 20).output
        except machine.VmError as error:
            text = str(error)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def close(self):
        if self.machine:
            self.machine.power_cut()


def summary(results, seconds):
    passed = sum(r["passed"] for r in results)
    failed = sum(len(r["failures"]) for r in results)
    say("")
    for r in results:
        say(f"{'ok    ' if not r['failures'] else 'FAILED'} {r['name']:<22} {r['passed']:4} checks {r['seconds'] / 60:5.1f} min {r['boots']:2} boots")
        for note in r["notes"]:
            say(f"         {note}")
        for failure in r["failures"]:
            say(f"         FAILED {failure.splitlines()[0][:300]}")
    say(f"vm: {len(results)} scenarios, {machine.Machine.boots} boots, {seconds / 60:.1f} minutes")
    say(f"vm: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("--list", action="store_true", help="print the scenarios")
    parser.add_argument("--artefacts", help="the folder that build.sh printed")
    parser.add_argument("--bin-dir", help="where zvoltd, zvoltctl and zvolt-verify-loop are")
    parser.add_argument("--logs", help="where logs of failures are kept")
    parser.add_argument("--retry", action="store_true", help="a scenario that failed gets a second attempt")
    parser.add_argument("--minutes", type=int, default=SUITE_LIMIT_MINUTES, help="no scenario is started after that")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args()


def load_scenarios():
    for file in sorted(os.listdir(os.path.join(HERE, "scenarios"))):
        if file.endswith(".py"):
            importlib.import_module("scenarios." + file[:-3])


def main():
    options = arguments()
    load_scenarios()
    if options.list:
        for name, entry in REGISTRY.items():
            say(f"{name:<22} {entry['text']}{' (only when named)' if entry['optional'] else ''}")
        return 0
    unknown = [name for name in options.scenarios if name not in REGISTRY]
    if unknown:
        say(f"no such scenario: {' '.join(unknown)}; --list prints them")
        return 2
    wanted = options.scenarios or [name for name, entry in REGISTRY.items() if not entry["optional"]]
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # ends the machine and removes its disks
    with tempfile.TemporaryDirectory(prefix="zvolt-vm-") as folder:
        suite = Suite(options, folder)
        try:
            for name in wanted:
                if time.monotonic() - began > options.minutes * 60:
                    suite.results.append({"name": name, "passed": 0, "failures": ["not run: the suite's time was over"], "notes": [],
                                          "seconds": 0, "boots": 0})
                    continue
                suite.run(name)
                if options.retry and suite.results[-1]["failures"]:
                    suite.run_again(name)
        finally:
            suite.close()
    return summary(suite.results, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
