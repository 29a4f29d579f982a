"""A writer of numbered blocks for the power cut: it knows which generation of each block was submitted, acknowledged and
flushed, so that afterwards each block has a range of generations that may be there. Blocks are checked whole: a block of two
generations is a torn write. One thread serves all writers; see scenarios/durability.py."""

import hashlib
import random
import struct
import time

BLOCK = 4096
LARGEST = 16  # blocks of one write
DEPTH = 8  # writes in flight of one writer
MAGIC = b"zvoltvm1"


def content(writer, block, generation):
    """What a block of that generation holds; all zeros for generation 0."""
    if generation == 0:
        return bytes(BLOCK)
    head = MAGIC + struct.pack(">III", writer, block, generation)
    return (head + hashlib.sha256(head).digest()).ljust(64, b"\0") * (BLOCK // 64)


def generation_of(data, writer, block):
    """The generation that a block holds, or None when it is none of ours, or torn."""
    if data == bytes(BLOCK):
        return 0
    generation = struct.unpack(">I", data[16:20])[0]
    return generation if data == content(writer, block, generation) else None


class Writer:
    """Its own part of a LUN, on its own session. durable: an acknowledged write is durable (sync: always)."""

    def __init__(self, session, number, lun, first_block, blocks, durable, flush_every=0):
        self.session, self.number, self.lun, self.first, self.durable = session, number, lun, first_block, durable
        self.flush_every = flush_every
        self.submitted, self.acknowledged, self.flushed = [0] * blocks, [0] * blocks, [0] * blocks
        self.in_flight, self.busy = {}, set()
        self.flush = None  # (tag, generations acknowledged when it was sent)
        self.writes = self.flushes = 0
        self.random = random.Random(number)

    def pump(self):
        """Fills the queue and takes what has come."""
        while len(self.in_flight) < DEPTH and self._submit():
            pass
        if self.flush_every and self.flush is None and self.writes // self.flush_every > self.flushes:
            self.flush = (self.session.submit(self.lun, struct.pack(">BBQIBB", 0x91, 0, 0, 0, 0, 0)), list(self.acknowledged))
        while self.session.poll(0.0):
            pass
        for tag in [tag for tag in self.in_flight if tag in self.session.results]:
            self._acknowledge(self.in_flight.pop(tag), self.session.results.pop(tag))
        if self.flush and self.flush[0] in self.session.results:
            if self.session.results.pop(self.flush[0]).good:
                self.flushed = self.flush[1]
                self.flushes += 1
            self.flush = None

    def _submit(self):
        length = self.random.randint(1, LARGEST)
        first = self.random.randrange(0, len(self.submitted) - length)
        mine = range(first, first + length)
        if not self.busy.isdisjoint(mine):
            return False
        self.busy.update(mine)
        for block in mine:
            self.submitted[block] += 1
        data = b"".join(content(self.number, block, self.submitted[block]) for block in mine)
        tag = self.session.submit(self.lun, self.session.write_cdb((self.first + first) * BLOCK, len(data)), data)
        self.in_flight[tag] = mine
        return True

    def _acknowledge(self, blocks, result):
        if not result.good:
            raise AssertionError(f"a write failed: {result}")
        self.writes += 1
        self.busy.difference_update(blocks)
        for block in blocks:
            self.acknowledged[block] = self.submitted[block]

    def verify(self, session):
        """Reads everything; (lost, torn, unflushed writes that are gone) as counts of blocks. What is read is the new state."""
        lost = torn = gone = 0
        for start in range(0, len(self.submitted), 128):
            count = min(128, len(self.submitted) - start)
            data = session.read((self.first + start) * BLOCK, count * BLOCK, self.lun).data
            for n in range(count):
                block = start + n
                found = generation_of(data[n * BLOCK:(n + 1) * BLOCK], self.number, block)
                least = self.acknowledged[block] if self.durable else self.flushed[block]
                if found is None:
                    torn += 1
                elif not least <= found <= self.submitted[block]:
                    lost += 1
                elif found < self.acknowledged[block]:
                    gone += 1
                self.submitted[block] = self.acknowledged[block] = self.flushed[block] = found or 0
        return lost, torn, gone


def run(writers, seconds):
    """All writers for that long. Commands are left in flight."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for writer in writers:
            writer.pump()
        writers[0].session.poll(0.002)
