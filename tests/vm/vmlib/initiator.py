"""A small iSCSI initiator (RFC 7143) for scenarios that look at sense data, unit attentions and outstanding commands, and for
the writer of the power cut. One connection, no authentication, data by R2T only; commands may overlap (submit, wait). It
does not try again and hides nothing: each status and unit attention reaches the scenario. Not thread-safe: one thread each.
libiscsi (zvolt-verify-loop and its own tools) and the kernel's initiator are used beside it."""

import select
import socket
import struct
import time

COMMAND_LIMIT_S = 30
SEGMENT = 65536  # bytes of one Data-Out; below every target's MaxRecvDataSegmentLength that we accept

NOP_IN, RESPONSE, TMF_RESPONSE, LOGIN_RESPONSE, DATA_IN, LOGOUT_RESPONSE, R2T, ASYNC, REJECT = (
    0x20, 0x21, 0x22, 0x23, 0x25, 0x26, 0x31, 0x32, 0x3F)
GOOD, CHECK_CONDITION, BUSY, TASK_SET_FULL, TASK_ABORTED = 0x00, 0x02, 0x08, 0x28, 0x40


class IscsiError(Exception):
    """The connection ended, or the target did something that the protocol does not have."""


class Result:
    """The end of a command."""

    def __init__(self, status, sense=b"", data=b"", seconds=0.0):
        self.status, self.data, self.seconds = status, data, seconds
        self.sense = sense_triple(sense) if status == CHECK_CONDITION else None

    @property
    def good(self):
        return self.status == GOOD

    def __str__(self):
        if self.sense:
            return "%x/%02x/%02x" % self.sense
        return "GOOD" if self.good else f"status {self.status:#x}"


def sense_triple(sense):
    if len(sense) >= 4 and sense[0] & 0x7F in (0x72, 0x73):
        return sense[1] & 15, sense[2], sense[3]
    if len(sense) >= 14:
        return sense[2] & 15, sense[12], sense[13]
    return 0, 0, 0


class Initiator:
    """A session. `with` closes it."""

    def __init__(self, port, target, name="iqn.2026-11.org.example:vm-host", isid=1, host="127.0.0.1"):
        self.target, self.name, self.isid = target, name, isid
        self.cmd_sn, self.exp_stat_sn, self.itt = 1, 0, 0
        self.events = []  # of asynchronous messages
        self.results, self.tasks = {}, {}
        self.socket = socket.create_connection((host, port), timeout=COMMAND_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._login()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # --- PDUs -------------------------------------------------------------------------------------------------------

    def _send(self, header, data=b""):
        header[5:8] = len(data).to_bytes(3, "big")
        self.socket.sendall(bytes(header) + data + bytes(-len(data) % 4))

    def _receive_exactly(self, length):
        data = bytearray()
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                raise IscsiError("the target closed the connection")
            data += part
        return bytes(data)

    def _receive(self):
        header = self._receive_exactly(48)
        length = int.from_bytes(header[5:8], "big")
        data = self._receive_exactly(4 * header[4] + length + -length % 4)
        return header, data[4 * header[4]:4 * header[4] + length]

    def _header(self, opcode, flags, itt, lun=0):
        header = bytearray(48)
        header[0], header[1] = opcode, flags
        header[8:10] = struct.pack(">H", lun if lun < 256 else 0x4000 | lun)
        header[16:20] = itt.to_bytes(4, "big")
        header[24:32] = struct.pack(">II", self.cmd_sn & 0xFFFFFFFF, self.exp_stat_sn & 0xFFFFFFFF)
        return header

    def _login(self):
        keys = {"InitiatorName": self.name, "TargetName": self.target, "SessionType": "Normal", "AuthMethod": "None"}
        self._login_step(0x81, keys)  # security to operational
        self._login_step(0x87, {"HeaderDigest": "None", "DataDigest": "None", "InitialR2T": "Yes", "ImmediateData": "No",
                                "MaxRecvDataSegmentLength": "262144", "MaxBurstLength": "1048576", "FirstBurstLength": "65536",
                                "MaxConnections": "1", "MaxOutstandingR2T": "1", "DefaultTime2Wait": "0",
                                "DefaultTime2Retain": "0", "ErrorRecoveryLevel": "0"})

    def _login_step(self, flags, keys):
        header = self._header(0x43, flags, 0)
        header[8:14] = b"\x80" + self.isid.to_bytes(5, "big")
        text = b"".join(f"{key}={value}".encode() + b"\0" for key, value in keys.items())
        self._send(header, text)
        answer, _ = self._receive()
        if answer[0] & 0x3F != LOGIN_RESPONSE or answer[36] != 0:
            raise IscsiError(f"login refused: status {answer[36]:02x}{answer[37]:02x}")
        self.exp_stat_sn = int.from_bytes(answer[24:28], "big") + 1

    # --- commands ---------------------------------------------------------------------------------------------------

    def submit(self, lun, cdb, write=b"", read=0):
        """Sends a command; its tag goes to wait()."""
        self.itt += 1
        flags = 0x80 | (0x40 if read else 0) | (0x20 if write else 0) | 1  # simple task
        header = self._header(0x01, flags, self.itt, lun)
        header[20:24] = (len(write) or read).to_bytes(4, "big")
        header[32:32 + len(cdb)] = cdb
        self.cmd_sn += 1
        self.tasks[self.itt] = {"write": write, "data": bytearray(), "began": time.monotonic()}
        self._send(header)
        return self.itt

    def poll(self, seconds=0.0):
        """Takes what arrives within that time; True when something did."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return False
        self._take(*self._receive())
        return True

    def wait(self, itt, limit=COMMAND_LIMIT_S):
        deadline = time.monotonic() + limit
        while itt not in self.results:
            if not self.poll(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                raise IscsiError(f"no answer within {limit} s")
        return self.results.pop(itt)

    def command(self, lun, cdb, write=b"", read=0, limit=COMMAND_LIMIT_S):
        return self.wait(self.submit(lun, cdb, write, read), limit)

    def nop(self, limit=COMMAND_LIMIT_S):
        """A ping; its seconds."""
        self.itt += 1
        header = self._header(0x40, 0x80, self.itt)
        header[20:24] = b"\xff\xff\xff\xff"
        self.tasks[self.itt] = {"write": b"", "data": bytearray(), "began": time.monotonic()}
        self._send(header)
        return self.wait(self.itt, limit).seconds

    def logical_unit_reset(self, lun, limit=COMMAND_LIMIT_S):
        self.itt += 1
        header = self._header(0x42, 0x80 | 5, self.itt, lun)
        header[20:24] = b"\xff\xff\xff\xff"
        self.tasks[self.itt] = {"write": b"", "data": bytearray(), "began": time.monotonic()}
        self._send(header)
        return self.wait(self.itt, limit)

    def _take(self, header, data):
        opcode, itt = header[0] & 0x3F, int.from_bytes(header[16:20], "big")
        has_status = opcode not in (R2T, DATA_IN) or (opcode == DATA_IN and header[1] & 1)
        if has_status and not (opcode == NOP_IN and itt == 0xFFFFFFFF):
            self.exp_stat_sn = int.from_bytes(header[24:28], "big") + 1
        if opcode == R2T:
            self._send_data(itt, header)
        elif opcode == DATA_IN:
            offset = int.from_bytes(header[40:44], "big")
            task = self.tasks[itt]["data"]
            task.extend(bytes(max(0, offset + len(data) - len(task))))
            task[offset:offset + len(data)] = data
            if header[1] & 1:
                self._finish(itt, header[3], b"")
        elif opcode == RESPONSE:
            self._finish(itt, header[3] if header[2] == 0 else 0xFF, data[2:])
        elif opcode == TMF_RESPONSE:
            self._finish(itt, header[2], b"")
        elif opcode == NOP_IN:
            self._take_nop(header, itt)
        elif opcode == ASYNC:
            self.events.append(header[36])
        else:
            raise IscsiError(f"PDU with opcode {opcode:#x}")

    def _take_nop(self, header, itt):
        if itt != 0xFFFFFFFF:
            self._finish(itt, GOOD, b"")
        elif header[20:24] != b"\xff\xff\xff\xff":
            answer = self._header(0x40, 0x80, 0xFFFFFFFF)
            answer[8:16], answer[20:24] = header[8:16], header[20:24]
            self._send(answer)

    def _send_data(self, itt, header):
        offset, wanted = struct.unpack(">II", header[40:48])
        payload = self.tasks[itt]["write"]
        for number, at in enumerate(range(offset, offset + wanted, SEGMENT)):
            part = payload[at:min(at + SEGMENT, offset + wanted)]
            final = 0x80 if at + SEGMENT >= offset + wanted else 0
            out = bytearray(48)
            out[0], out[1], out[8:16], out[16:24] = 0x05, final, header[8:16], header[16:24]
            out[28:32] = (self.exp_stat_sn & 0xFFFFFFFF).to_bytes(4, "big")
            out[36:44] = struct.pack(">II", number, at)
            self._send(out, part)

    def _finish(self, itt, status, sense):
        task = self.tasks.pop(itt)
        self.results[itt] = Result(status, sense, bytes(task["data"]), time.monotonic() - task["began"])

    # --- SCSI -------------------------------------------------------------------------------------------------------

    def test_unit_ready(self, lun=0, **options):
        return self.command(lun, bytes(6), **options)

    def settle(self, lun=0, attempts=8):
        """Takes all unit attentions; those that were there, and the first other answer."""
        seen = []
        for _ in range(attempts):
            result = self.test_unit_ready(lun)
            if not result.sense or result.sense[0] != 6:
                return seen, result
            seen.append(str(result))
        raise IscsiError(f"endless unit attentions: {seen}")

    def read(self, offset, length, lun=0, block=512, **options):
        """READ(16) of a byte range."""
        return self.command(lun, struct.pack(">BBQIBB", 0x88, 0, offset // block, length // block, 0, 0), read=length, **options)

    def write_cdb(self, offset, length, block=512, fua=False):
        return struct.pack(">BBQIBB", 0x8A, 8 if fua else 0, offset // block, length // block, 0, 0)

    def write(self, offset, data, lun=0, block=512, fua=False, **options):
        return self.command(lun, self.write_cdb(offset, len(data), block, fua), write=data, **options)

    def synchronize_cache(self, lun=0, **options):
        return self.command(lun, struct.pack(">BBQIBB", 0x91, 0, 0, 0, 0, 0), **options)

    def unmap(self, ranges, lun=0, block=512, **options):
        """Byte ranges [(offset, length)...]."""
        body = b"".join(struct.pack(">QII", offset // block, length // block, 0) for offset, length in ranges)
        payload = struct.pack(">HHI", len(body) + 6, len(body), 0) + body
        return self.command(lun, struct.pack(">BB4xBHB", 0x42, 0, 0, len(payload), 0), write=payload, **options)

    def write_same(self, offset, length, pattern, lun=0, block=512, unmap=False, **options):
        cdb = struct.pack(">BBQIBB", 0x93, 8 if unmap else 0, offset // block, length // block, 0, 0)
        return self.command(lun, cdb, write=pattern, **options)

    def read_capacity(self, lun=0):
        """Dictionary of READ CAPACITY(16), or None."""
        result = self.command(lun, struct.pack(">BBQIBB", 0x9E, 0x10, 0, 32, 0, 0), read=32)
        if not result.good:
            return None
        last, block, prot, exponents, lowest = struct.unpack(">QIBBH", result.data[:16])
        return {"blocks": last + 1, "block": block, "protection": prot, "physical_exponent": exponents & 15,
                "lbpme": lowest >> 15, "lbprz": lowest >> 14 & 1, "lowest_aligned": lowest & 0x3FFF}

    def inquiry(self, lun=0, page=None, length=512):
        return self.command(lun, struct.pack(">BBBHB", 0x12, page is not None, page or 0, length, 0), read=length)

    def block_limits(self, lun=0):
        data = self.inquiry(lun, 0xB0).data
        at = lambda offset, size: int.from_bytes(data[offset:offset + size], "big")
        return {"granularity": at(6, 2), "max_transfer": at(8, 4), "optimal_transfer": at(12, 4), "max_unmap": at(20, 4),
                "max_descriptors": at(24, 4), "unmap_granularity": at(28, 4), "alignment_valid": at(32, 4) >> 31,
                "unmap_alignment": at(32, 4) & 0x7FFFFFFF, "max_write_same": at(36, 8)}

    def provisioning(self, lun=0):
        data = self.inquiry(lun, 0xB2).data
        return {"lbpu": data[5] >> 7, "lbpws": data[5] >> 6 & 1, "lbpws10": data[5] >> 5 & 1, "lbprz": data[5] >> 2 & 7,
                "type": data[6] & 7}

    def caching(self, lun=0):
        """(WCE, WP, DPOFUA) of MODE SENSE(10)."""
        data = self.command(lun, struct.pack(">BBBB3xHB", 0x5A, 0, 0x08, 0, 252, 0), read=252).data
        page = data[8 + int.from_bytes(data[6:8], "big"):]
        return page[2] >> 2 & 1, data[3] >> 7, data[3] >> 4 & 1

    def identity(self, lun=0):
        """Unit serial number and device identification, as bytes."""
        designators, data, at = [], self.inquiry(lun, 0x83).data, 4
        while at + 4 <= len(data) and at < 4 + int.from_bytes(data[2:4], "big"):
            length = data[at + 3]
            if data[at + 1] >> 4 & 3 == 0:  # of the logical unit, not of the port
                designators.append(data[at:at + 4 + length])
            at += 4 + length
        return self.inquiry(lun, 0x80).data, tuple(designators)

    def report_luns(self):
        data = self.command(0, struct.pack(">BBBB2xIBB", 0xA0, 0, 0, 0, 4096, 0, 0), read=4096).data
        count = int.from_bytes(data[0:4], "big") // 8
        return sorted(int.from_bytes(data[8 + 8 * n:10 + 8 * n], "big") & 0x3FFF for n in range(count))

    def lba_status(self, offset, lun=0, block=512):
        """[(offset, length, mapped)] of GET LBA STATUS."""
        cdb = struct.pack(">BBQIBB", 0x9E, 0x12, offset // block, 1024, 0, 0)
        data = self.command(lun, cdb, read=1024).data
        out = []
        for at in range(8, min(len(data), 4 + int.from_bytes(data[0:4], "big")), 16):
            first, blocks, state = struct.unpack(">QIB", data[at:at + 13])
            out.append((first * block, blocks * block, state & 15 == 0))
        return out
