"""A real SLURM cluster of one node on this machine's loopback: slurmctld, slurmd and munge, from the distribution."""

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

CONFIG = Path("/etc/slurm/slurm.conf")  # the executor plugin leaves no other place
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel")


def why_not() -> str | None:
    """Say what a cluster can't be started for here."""
    lacking = [name for name in PROGRAMS if shutil.which(name, path=f"/usr/sbin:/sbin:{os.environ['PATH']}") is None]
    if lacking:
        return f"{', '.join(lacking)} not installed"
    if find_spec("snakemake_executor_plugin_slurm") is None:
        return "snakemake-executor-plugin-slurm not installed"
    if os.geteuid() != 0:
        return "not root"
    return f"{CONFIG} is another cluster's" if CONFIG.exists() else None


def settings(state: Path, host: str) -> str:
    """Return slurm.conf: everything on 127.0.0.1, two GPUs that are none, more memory and cores than are there."""
    return f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={state}/ctld
SlurmdSpoolDir={state}/d
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd.pid
SlurmctldLogFile={state}/slurmctld.log
SlurmdLogFile={state}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MinJobAge=3600
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,batch_sched_delay=0
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=64000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


@contextmanager
def cluster(state: Path):
    """Start the cluster; stop it and remove its configuration at the end."""
    host = socket.gethostname().split(".")[0]
    for name in ("ctld", "d"):
        (state / name).mkdir(parents=True)
    CONFIG.parent.mkdir(exist_ok=True)
    gres = CONFIG.with_name("gres.conf")
    CONFIG.write_text(settings(state, host))
    gres.write_text(f"NodeName={host} Name=gpu File=/dev/tty[0-1]\n")
    Path("/run/munge").mkdir(exist_ok=True)
    shutil.chown("/run/munge", "munge", "munge")
    ours = []
    try:
        ours.append(subprocess.Popen(["su", "-s", "/bin/sh", "munge", "-c", "exec /usr/sbin/munged -F --force"]))
        for daemon in ("slurmctld", "slurmd"):
            with (state / f"{daemon}.out").open("w") as out:
                ours.append(subprocess.Popen([f"/usr/sbin/{daemon}", "-D"], stdout=out, stderr=out))
        _wait_until_idle(state)
        yield
    finally:
        for process in reversed(ours):
            process.terminate()
            process.wait(20)
        CONFIG.unlink()
        gres.unlink()


def _wait_until_idle(state: Path) -> None:
    for _ in range(60):
        shown = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True)
        if shown.stdout.strip() == "idle":
            return
        time.sleep(1)
    logs = "\n".join(path.read_text()[-2000:] for path in state.glob("*.out"))
    raise RuntimeError(f"no idle node: {shown.stdout} {shown.stderr}\n{logs}")


def jobs(state: str = "all") -> list[tuple[str, str]]:
    """Return (id, comment, the rule's name among it) of jobs in a state."""
    shown = subprocess.run(["squeue", "-h", "-t", state, "-o", "%i|%k"], capture_output=True, text=True, check=True)
    return [(job, comment) for job, _, comment in (line.partition("|") for line in shown.stdout.splitlines())]
