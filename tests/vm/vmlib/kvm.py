"""Whether KVM is worth using. A nested /dev/kvm may open, start a CPU, and then run a hundred times slower than emulation: so
a firmware that fills 32 MiB of memory must end QEMU within the limit. Called once a run by machine.accelerator()."""

import os
import subprocess
import tempfile

TRIAL_S = 3  # KVM takes 0.1 s, emulation 0.5 s, KVM without hardware help for nested page tables 30 s
RESET_VECTOR = 0xFFF0  # offset in a 64 KiB ROM
FILL = bytes.fromhex(
    "b80010"  # start: mov ax, 0x1000
    "bb4000"  # mov bx, 64
    "8ec0"    # fill: mov es, ax
    "31ff"    # xor di, di
    "b90080"  # mov cx, 0x8000
    "f3ab"    # rep stosw
    "050010"  # add ax, 0x1000
    "3d0090"  # cmp ax, 0x9000
    "75ef"    # jne fill
    "b80010"  # mov ax, 0x1000
    "4b"      # dec bx
    "75e9"    # jnz fill
    "b001"    # mov al, 1
    "baf400"  # mov dx, 0xf4
    "ee"      # out dx, al: isa-debug-exit ends QEMU with status 2 * al + 1
    "f4")     # hlt
JUMP = bytes.fromhex("e90d00")  # from the reset vector to start


def useful(options):
    """options: those of QEMU for KVM."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    with tempfile.NamedTemporaryFile() as firmware:
        firmware.write(FILL.ljust(RESET_VECTOR, b"\0") + JUMP.ljust(16, b"\0"))
        firmware.flush()
        command = ["qemu-system-x86_64", "-machine", "q35", *options, "-nodefaults", "-display", "none", "-bios", firmware.name,
                   "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  timeout=TRIAL_S, check=False).returncode == 3
        except subprocess.TimeoutExpired:
            return False
