#!/usr/bin/env python3
"""Runs libiscsi's conformance suite (iscsi-test-cu of Debian's libiscsi-bin) against zvoltd and compares each test's outcome
with expected.txt. CUnit counts a skipped test as passed; here a skip is a skip, and stands only where expected.txt gives the
reason. Families run in their own suite process against a fresh daemon, with a time limit: a hang costs one test, not the run.

  tests/conformance/run.py --bin-dir build/release/bin            everything that is expected to run
  tests/conformance/run.py --bin-dir ... --families 'Read|Write'  only families that match
  tests/conformance/run.py --bin-dir ... --later                  also families whose commands come later (for information)

Exit status 0: every outcome is the expected one; 1: something else came; 2: it could not run.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = "iscsi-test-cu"
TARGET = "iqn.2026-11.org.example:conformance"

# One block less than 2^21 at 512 bytes would do; with 2^21 blocks Read6.BeyondEol skips itself silently.
LUN_SIZE = "1023MiB"
FAMILY_LIMIT_S = 90
TEST_LIMIT_S = 40
START_LIMIT_S = 30
STOP_LIMIT_S = 30
PORTS = range(20000, 32000)  # below the range of outgoing connections

# Their tests drop the session that the family shares: in one process the later ones would say "not an iSCSI device".
ISOLATED = {"iSCSITMF"}
# Their tests send PDUs of their own making, so that no "Send ..." line tells that a command was sent.
SILENT_SENDERS = re.compile(r"^(iSCSI|MultipathIO)")

print_lock = threading.Lock()


def say(text):
    with print_lock:
        print(text, flush=True)


@dataclasses.dataclass
class Expectation:
    lun: int
    outcome: str  # PASS, SKIP, LATER
    reason: str


@dataclasses.dataclass
class Outcome:
    status: str  # PASS, SKIP, FAIL, HANG, DIED
    reason: str = ""


def read_expectations(path):
    """Lines `FAMILY.TEST LUN PASS`, `FAMILY.TEST LUN SKIP reason`, `FAMILY.* - LATER reason`; # starts a comment."""
    result = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = line.split("#")[0].split(None, 3)
            if not fields:
                continue
            if len(fields) < 3 or (fields[2] != "PASS" and len(fields) < 4):
                sys.exit(f"{path}:{number}: expected `FAMILY.TEST LUN PASS|SKIP|LATER reason`")
            name, lun, outcome = fields[:3]
            if outcome not in ("PASS", "SKIP", "LATER") or name in result:
                sys.exit(f"{path}:{number}: unknown outcome or a test that was there already")
            result[name] = Expectation(0 if lun == "-" else int(lun), outcome, fields[3].strip() if len(fields) > 3 else "")
    return result


def inventory():
    """{family: (group, [tests])} of the suite, in its own order."""
    text = subprocess.run([SUITE, "--list"], capture_output=True, text=True, check=False).stdout
    families = {}
    for line in text.split():
        parts = line.split(".")
        if len(parts) == 2 and parts[1] not in families:
            families[parts[1]] = (parts[0], [])
        elif len(parts) == 3 and families[parts[1]][0] == parts[0]:
            families[parts[1]][1].append(parts[2])
    return families


class Daemon:
    """A zvoltd of its own, with LUN 0 (a sparse file) and LUN 1 (a read-only file)."""

    def __init__(self, bin_dir, directory):
        self.directory = directory
        self.log_path = os.path.join(directory, "zvoltd.log")
        self.bin = os.path.join(bin_dir, "zvoltd")
        self.port = 0
        self.process = None

    def start(self):
        for _ in range(5):
            self.port = self._free_port()
            error = self._start_once()
            if error is None:
                return
            if "in use" not in error:
                break
        raise RuntimeError(f"zvoltd does not start:\n{error}")

    def url(self, lun):
        return f"iscsi://127.0.0.1:{self.port}/{TARGET}/{lun}"

    def stop(self):
        """None when it ended as it should, else what was wrong."""
        status = self.process.poll()
        if status is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                status = self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                return "zvoltd did not end after SIGTERM"
        return None if status == 0 else f"zvoltd ended with status {status}"

    def alive(self):
        return self.process.poll() is None

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    @staticmethod
    def _free_port():
        while True:
            port = random.choice(PORTS)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                    return port
                except OSError:
                    pass

    def _start_once(self):
        path = os.path.join(self.directory, "zvolt.yaml")
        read_only = os.path.join(self.directory, "read-only.img")
        with open(read_only, "wb") as file:
            file.truncate(64 << 20)
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                f'listen: ["127.0.0.1:{self.port}"]\n'
                f"state_dir: {self.directory}/state\n"
                "threads: 2\n"
                f"admin: {{ socket: {self.directory}/admin.sock }}\n"
                "targets:\n"
                f"  - name: {TARGET}\n"
                "    luns:\n"
                f"      - {{ lun: 0, name: main, file: {self.directory}/main.img, provision: {{ size: {LUN_SIZE} }} }}\n"
                f"      - {{ lun: 1, name: read-only, file: {read_only}, read_only: true }}\n"
                f"      - {{ lun: 2, name: plain, file: {self.directory}/plain.img, provision: {{ size: {LUN_SIZE} }}, "
                "physical_block_size: 512 }\n"
            )
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            name = os.path.join(self.directory, "notify")
            if os.path.exists(name):
                os.unlink(name)
            notify.bind(name)
            notify.settimeout(0.2)
            with open(self.log_path, "w", encoding="utf-8") as log:
                self.process = subprocess.Popen(
                    [self.bin, "-c", path],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "NOTIFY_SOCKET": name})
            return self._wait_until_ready(notify)

    def _wait_until_ready(self, notify):
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            try:
                if b"READY=1" in notify.recv(4096):
                    return None
            except socket.timeout:
                pass
            if not self.alive():
                return self.log()
        self.process.kill()
        return "not ready in time\n" + self.log()


def run_suite(spec, urls, limit, log_path):
    """Exit status of the suite binary; None when it was stopped at the limit."""
    with open(log_path, "w", encoding="utf-8") as log:
        try:
            return subprocess.run(
                [SUITE, "--dataloss", "--allow-sanitize", "-V", "-t", spec, *urls],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, timeout=limit, check=False).returncode
        except subprocess.TimeoutExpired:
            return None


def judge(family, lines, verdict):
    """One test's outcome from its log lines and CUnit's verdict (passed, FAILED or none)."""
    shown = [line.strip() for line in lines if line.strip()]
    if verdict is None:
        return Outcome("OPEN", shown[-1] if shown else "")
    if verdict == "FAILED":
        failures = [line for line in shown if "[FAILED]" in line or re.match(r"\d+\. ", line)]
        return Outcome("FAIL", failures[0] if failures else "an assertion failed")
    for line in shown:
        if re.search(r"\[SKIPP(ED|ING)\]|Skipping RTPG tests", line) and not re.search(
                r"Skipping assert|No MAXIMUM WRITE SAME", line):
            return Outcome("SKIP", line)
    sent = any(re.search(r"^Send |\[OK\]|\[SUCCESS\]| dispatched: ", line) for line in shown)
    if not sent and not SILENT_SENDERS.match(family):
        return Outcome("SKIP", "it passed without sending a command")
    return Outcome("PASS")


def parse(family, log_path):
    """{test: Outcome} of one suite run; OPEN for a test without a verdict."""
    result, name, lines, verdict = {}, None, [], None

    def close():
        if name is not None:
            result[name] = judge(family, lines, verdict)

    with open(log_path, encoding="utf-8", errors="replace") as file:
        for line in file:
            start = re.match(r"^  Test: (\S+) \.\.\.(.*)$", line)
            if start:
                close()
                name, lines, verdict = start.group(1), [start.group(2)], None
                inline = re.match(r"^(passed|FAILED)", start.group(2))
                verdict = inline.group(1) if inline else None
            elif line.startswith(("Suite: ", "Run Summary:")):
                close()
                name = None
            elif name is not None:
                ends = re.match(r"^(passed|FAILED)", line)
                if ends and verdict is None:
                    verdict = ends.group(1)
                elif verdict != "passed":  # after it: the clean-up of the suite
                    lines.append(line)
    close()
    return result


class FamilyRun:
    """One family: its tests in one suite process, those that got no verdict again one by one."""

    def __init__(self, arguments, family, group, tests, expectations):
        self.arguments, self.family, self.group, self.tests = arguments, family, group, tests
        self.expectations = expectations
        self.outcomes = {}
        self.trouble = []

    def run(self):
        with tempfile.TemporaryDirectory(prefix="zvolt-conformance-") as directory:
            for lun in sorted({self.expected(test).lun for test in self.tests}):
                self._run_lun(lun, directory)
        return self

    def expected(self, test):
        name = f"{self.family}.{test}"
        return self.expectations.get(name) or self.expectations.get(f"{self.family}.*") or Expectation(0, "PASS", "")

    def _run_lun(self, lun, directory):
        daemon = Daemon(self.arguments.bin_dir, directory)
        daemon.start()
        wanted = [test for test in self.tests if self.expected(test).lun == lun]
        if self.family not in ISOLATED:
            self._run(f"{self.group}.{self.family}", daemon, lun, wanted, FAMILY_LIMIT_S)
        for test in wanted:
            if test in self.outcomes:
                continue
            if not daemon.alive():
                self.trouble.append(f"zvoltd ended by itself: {daemon.stop()}\n{daemon.log()}")
                daemon.start()
            self._run(f"{self.group}.{self.family}.{test}", daemon, lun, [test], TEST_LIMIT_S)
            self.outcomes.setdefault(test, Outcome("FAIL", "the suite did not start it"))
        wrong = daemon.stop()
        if wrong:
            self.trouble.append(f"{wrong}\n{daemon.log()}")

    def _run(self, spec, daemon, lun, wanted, limit):
        log_path = os.path.join(daemon.directory, spec + ".log")
        urls = [daemon.url(lun)] * (2 if self.family == "MultipathIO" else 1)
        status = run_suite(spec, urls, limit, log_path)
        for test, outcome in parse(self.family, log_path).items():
            if outcome.status == "OPEN":
                outcome.status = "HANG" if status is None else "DIED"
            if test in wanted:
                self.outcomes[test] = outcome
        if self.arguments.logs:
            os.makedirs(self.arguments.logs, exist_ok=True)
            os.replace(log_path, os.path.join(self.arguments.logs, spec + ".log"))


def report(run, counts):
    """Prints a family's lines; the number of outcomes that were not expected."""
    unexpected = 0
    for test in run.tests:
        outcome, expected = run.outcomes[test], run.expected(test)
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
        line = f"{run.family}.{test:<24} {outcome.status}"
        if expected.outcome == "LATER":
            say(f"{line}   (later: {expected.reason}) {outcome.reason}")
            continue
        if outcome.status == expected.outcome:
            say(line + (f"   {expected.reason}" if expected.reason else ""))
            continue
        unexpected += 1
        say(f"{line}   UNEXPECTED, expected {expected.outcome}: {outcome.reason}")
    for text in run.trouble:
        unexpected += 1
        say(f"{run.family}: {text}")
    return unexpected


def check_inventory(families, expectations):
    """Tests of the suite that expected.txt does not know, and the other way round."""
    known = {f"{family}.{test}" for family, (_, tests) in families.items() for test in tests}
    whole = {f"{family}.*" for family in families}
    missing = [name for name in sorted(known) if name not in expectations and name.split(".")[0] + ".*" not in expectations]
    gone = [name for name in sorted(expectations) if name not in known | whole]
    for name in missing:
        say(f"{name}: not in expected.txt")
    for name in gone:
        say(f"{name}: in expected.txt but not in this suite")
    return len(missing) + len(gone)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin-dir", required=True, help="where zvoltd is")
    parser.add_argument("--families", default=".", help="regular expression")
    parser.add_argument("--later", action="store_true", help="also run families that are expected later")
    parser.add_argument("--jobs", type=int, default=2, help="families at a time")
    parser.add_argument("--logs", help="keep the suite's logs in this directory")
    arguments = parser.parse_args()

    families = inventory()
    if not families:
        sys.exit(f"{SUITE} is not there or lists nothing: tools/deps.sh")
    expectations = read_expectations(os.path.join(HERE, "expected.txt"))
    unexpected = check_inventory(families, expectations)
    later = {name[:-2] for name, expectation in expectations.items() if name.endswith(".*") and expectation.outcome == "LATER"}
    chosen = [family for family in families
              if re.search(arguments.families, family) and (arguments.later or family not in later)]

    begin, counts = time.monotonic(), {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [FamilyRun(arguments, family, *families[family], expectations) for family in chosen]
        for run in pool.map(FamilyRun.run, runs):
            unexpected += report(run, counts)
    summary = ", ".join(f"{counts[status]} {status}" for status in sorted(counts))
    say(f"conformance: {summary}; {unexpected} unexpected; {time.monotonic() - begin:.0f} s")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
