"""zvoltd in the guest: writes its configuration, starts and stops it, asks zvoltctl. Scenarios see it as `t.daemon`."""

import json
import shlex

from . import initiator

TARGET = "iqn.2026-11.org.example:vm"
CONFIG = "/etc/zvolt/zvolt.yaml"
LOG = "/var/log/zvoltd.log"
START_LIMIT_S = 60
STOP_LIMIT_S = 60


class Zvoltd:
    """One daemon at a time; its configuration is text, so that a scenario shows the YAML that a user would write."""

    def __init__(self, machine):
        self.vm = machine

    def configure(self, luns, volumes="", target=TARGET, extra=""):
        """luns: lines of YAML, each one LUN; volumes: an indented block of `volumes:`."""
        self.write_config(self.yaml(luns, volumes, target, extra))

    @staticmethod
    def yaml(luns, volumes="", target=TARGET, extra=""):
        text = "listen: [\"0.0.0.0:3260\"]\nstate_dir: /var/lib/zvolt\nadmin: { socket: /run/zvolt/admin.sock }\nmemory: 256MiB\n"
        text += extra
        if volumes:
            text += "volumes:\n" + volumes
        text += f"targets:\n  - name: {target}\n    allow_any: true\n    luns:\n"
        return text + "".join(f"      - {line}\n" for line in luns)

    def write_config(self, text):
        self.vm.write_file(CONFIG, text)

    def start(self, expect=True, arguments="", limit=START_LIMIT_S):
        """Until it listens; with expect=False until it ended by itself, and then what it said."""
        self.vm.sh(f"mkdir -p /var/log /run/zvolt; rm -f {LOG}; setsid zvoltd -c {CONFIG} {arguments} >{LOG} 2>&1 </dev/null &"
                   " echo $! >/run/zvoltd.pid")
        ready = f"grep -q ' ready' {LOG}"
        alive = "kill -0 $(cat /run/zvoltd.pid)"
        self.vm.wait_for(f"{ready} || ! {alive}", limit)
        started = self.vm.run(ready).ok
        if started != expect:
            raise AssertionError(f"zvoltd {'did not start' if expect else 'started'}: {self.log()}")
        return self.log()

    def start_with(self, luns, volumes="", **options):
        self.configure(luns, volumes, **options)
        return self.start()

    def running(self):
        return self.vm.run("kill -0 $(cat /run/zvoltd.pid)").ok

    def stop(self):
        """SIGTERM; True when it ended in time."""
        self.vm.run("kill $(cat /run/zvoltd.pid) 2>/dev/null")
        return self.vm.wait_for("! kill -0 $(cat /run/zvoltd.pid)", STOP_LIMIT_S)

    def kill(self):
        self.vm.run("kill -9 $(cat /run/zvoltd.pid) 2>/dev/null")
        return self.vm.wait_for("! kill -0 $(cat /run/zvoltd.pid)", STOP_LIMIT_S)

    def log(self):
        return self.vm.run(f"tail -n 60 {LOG}").output

    def login(self, target=TARGET, isid=1, luns=(0,), name="iqn.2026-11.org.example:vm-host"):
        """A session from this machine through the forwarded port, its first unit attentions taken."""
        session = initiator.Initiator(self.vm.port, target, name=name, isid=isid)
        for lun in luns:
            session.settle(lun)
        return session

    def url(self, lun=0, target=TARGET):
        return f"iscsi://127.0.0.1:{self.vm.port}/{target}/{lun}"

    def ctl(self, arguments, limit=60):
        """zvoltctl in the guest."""
        return self.vm.run(f"zvoltctl -s /run/zvolt/admin.sock {arguments}", limit)

    def ctl_json(self, *arguments):
        return json.loads(self.vm.sh("zvoltctl -s /run/zvolt/admin.sock -o json " + " ".join(map(shlex.quote, arguments))))

    def apply(self, luns, volumes="", **options):
        """The new configuration, by `zvoltctl apply`."""
        self.configure(luns, volumes, **options)
        return self.ctl(f"apply {CONFIG}", 120)
