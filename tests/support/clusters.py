"""A SLURM cluster and a Ray cluster of this machine alone, in a temporary folder, for as long as the tests run."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

SLURM = """
ClusterName=toy
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/slurmctld
SlurmdSpoolDir={folder}/slurmd
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
MailProg=/bin/true
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=3000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="session")
def slurm_cluster():
    """Start a SLURM of one node with two cores; SLURM_CONF points to it meanwhile."""
    pytest.importorskip("submitit")
    programs = {name: shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("slurmctld", "slurmd")}
    programs["munged"] = shutil.which("munged", path=f"{os.environ['PATH']}:/usr/sbin")
    if missing := [name for name, path in programs.items() if path is None]:
        pytest.skip(f"not installed: {', '.join(missing)} (apt-get install slurm-wlm munge)")
    if os.geteuid() != 0:
        pytest.skip("slurmd starts jobs as root only")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        folder.chmod(0o755)  # munge wants its socket to be reachable
        start_slurm(folder, programs, stack)
        yield folder


def start_slurm(folder: Path, programs: dict[str, str], stack: ExitStack) -> None:
    """Start the three services; they end with the stack."""
    (folder / "slurmctld").mkdir()
    (folder / "slurmd").mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    files = {name: folder / f"munge.{name}" for name in ("socket", "pid", "log", "seed")}
    munge = [f"--{name}{'' if name == 'socket' else '-file'}={path}" for name, path in files.items()]
    stack.enter_context(service(programs["munged"], "--foreground", "--force", f"--key-file={key}", *munge))
    until(files["socket"].exists, "munged")
    text = SLURM.format(folder=folder, host=socket.gethostname().partition(".")[0], ports=[free_port(), free_port()])
    (folder / "slurm.conf").write_text(text)
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    stack.enter_context(service(programs["slurmctld"], "-D", "-i", log=folder / "slurmctld.log"))
    stack.enter_context(service(programs["slurmd"], "-D", log=folder / "slurmd.log"))
    state = ["sinfo", "--noheader", "--format=%t"]
    until(lambda: subprocess.run(state, capture_output=True, text=True).stdout.strip() == "idle", "SLURM")


@pytest.fixture(scope="session")
def ray_address():
    """Start a Ray of one node with two cores; return its address."""
    pytest.importorskip("ray")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)))
        port = free_port()
        head = ["start", "--head", "--block", f"--port={port}", f"--temp-dir={folder}", "--num-cpus=2"]
        options = ["--include-dashboard=false", "--disable-usage-stats", "--object-store-memory=100000000"]
        log = folder / "start.log"
        ray = [sys.executable, "-m", "ray.scripts.scripts"]
        stack.enter_context(service(*ray, *head, *options, log=log))
        until(lambda: "Ray runtime started" in log.read_text(), "Ray")
        yield f"127.0.0.1:{port}"


@contextmanager
def service(*command: str, log: Path | None = None):
    """Run a program in the background; end it at the end."""
    with open(log or os.devnull, "w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(true, what: str, seconds: float = 60.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what} does not answer"
        time.sleep(0.1)
