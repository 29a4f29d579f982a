#!/usr/bin/env python3
"""Validates config/examples against the generated JSON Schema, and checks that it and the loader are of one opinion on a
good document and on bad ones.

usage: schema_check.py SCHEMA_TOOL EXAMPLES_DIR
Run by CTest. SCHEMA_TOOL is the program of schema_tool.cc. Needs python3-jsonschema and python3-yaml.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema
import yaml

GOOD = """
listen: [127.0.0.1, {address: "[::1]:3260", group: 2}]
include: ["vms/*.yaml"]
threads: auto
memory: 1GiB
defaults: {block_size: 512, sync: always, wait_for_device: 90}
volumes:
  a: {zvol: t/a, block_size: "4096", limit: {iops: 500, bandwidth: 10MiB/s, burst: 2s}, on_remove: keep}
  "v%d": {count: 3, first: 0, memory: 1048576}
  f: {file: /f, provision: {size: 1.5G, allow_shrink: true}}
  z: {zvol: t/z, provision: {size: 1G, volblocksize: 64k, sparse: true, properties: {compression: off, copies: 2}}}
targets:
  - {name: "iqn.2026-11.o:t", groups: [1], luns: [{lun: 0, volume: a}, {lun: 1, count: 3, first: 0, volume: "v%d"}]}
  - {name: "iqn.2026-11.o:u", luns: [{lun: 0, name: x, zvol: t/x, sync: always}]}
"""

# Each replaces a text of GOOD; the result must be refused.
BAD = [
    ("threads: auto", "threads: many"),
    ("threads: auto", "threads: 257"),
    ("threads: auto", "treads: 4"),
    ("memory: 1GiB", "memory: 1GiB/s"),
    ("memory: 1GiB", "memory: 1"),
    ("group: 2", "group: 0"),
    ("block_size: 512", "block_size: 1024"),
    ("sync: always, wait", "sync: sometimes, wait"),
    ("wait_for_device: 90", "wait_for_device: soon"),
    ("zvol: t/a,", "zvol: t/a, file: /a,"),
    ("file: /f, ", ""),
    ("iops: 500", "iops: 1"),
    ("on_remove: keep", "on_remove: destroy"),
    ("count: 3, first: 0, memory", "count: 0, first: 0, memory"),
    ("sparse: true", "sparse: maybe"),
    ("volblocksize: 64k", "volblocksize: 64 blocks"),
    ("copies: 2", "copies: [2]"),
    ("lun: 0, volume: a", "volume: a"),
    ("lun: 0, volume: a", "lun: 16384, volume: a"),
    ("lun: 0, volume: a", "lun: 0, volume: a, memory: 1M"),
    ("lun: 0, volume: a", "lun: 0"),
    ("groups: [1]", "groups: [one]"),
    ("groups: [1]", "auth: {chap: {user: a}}"),
    ("listen: [127.0.0.1, ", "listen: [[1], "),
]


def named(node):
    """Keys are names: `null: 1TiB` is a key called null, which YAML libraries make of None."""
    if isinstance(node, dict):
        return {"null" if key is None else key: named(value) for key, value in node.items()}
    return [named(item) for item in node] if isinstance(node, list) else node


def loads(tool, text):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        return subprocess.run([tool, file.name], stdout=subprocess.DEVNULL, check=False, timeout=60).returncode == 0


def main():
    tool, examples = sys.argv[1], pathlib.Path(sys.argv[2])
    schema = json.loads(subprocess.run([tool], check=True, capture_output=True, timeout=60).stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    whole = jsonschema.Draft7Validator(schema)
    included = jsonschema.Draft7Validator({"$ref": "#/definitions/included", "definitions": schema["definitions"]})
    failures = []

    def expect(validator, text, good, what):
        document = named(yaml.safe_load(text))
        errors = [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(document)]
        if bool(errors) == good:
            failures.append(f"{what}: " + ("; ".join(errors) if errors else "accepted"))

    mains, parts = sorted(examples.glob("*.yaml")), sorted(examples.glob("*/*.yaml"))
    for path in mains:
        expect(whole, path.read_text(), True, path.name)
    for path in parts:
        expect(included, path.read_text(), True, path.name)
    if len(mains) < 10 or len(parts) < 2:
        failures.append(f"only {len(mains)} examples and {len(parts)} included files found in {examples}")

    expect(whole, GOOD, True, "the good document")
    if not loads(tool, GOOD):
        failures.append("the loader refuses the good document")
    expect(included, "listen: [127.0.0.1]", False, "'listen' in an included file")
    for old, new in BAD:
        if GOOD.count(old) != 1:
            failures.append(f"'{old}' is not exactly once in the good document")
        expect(whole, GOOD.replace(old, new), False, f"'{old}' -> '{new}'")
        if loads(tool, GOOD.replace(old, new)):
            failures.append(f"'{old}' -> '{new}': the loader accepts it")
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"{len(mains) + len(parts)} examples, {len(BAD)} bad documents, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
