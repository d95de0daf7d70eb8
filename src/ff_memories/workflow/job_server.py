"""Start jobs from one process that has imported the libraries, since importing takes longer than many a job's work.

Snakemake's main process starts the server (``start``). A job's ``ff-memories step`` hands its arguments, folder,
environment and standard streams to it (``ask``), and ends as the fork does that the server makes for the job. What a
job imports, the server imports for the next one. It computes nothing, so no fork inherits a library's threads or state.

A job runs by itself where there is no server, as on clusters and GPUs, or where its arithmetic or its number of threads
is another: libraries read these as they are imported.
"""

import atexit
import json
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from ff_memories.base import arithmetic

SERVER = "FF_MEMORIES_SERVER"  # the server's name, and the settings of the jobs that it starts
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")  # Snakemake sets them
LENGTH, PEER = struct.Struct("!Q"), struct.Struct("3i")  # of a request; process, user and group at the other end
WAITING = 1024  # jobs that may wait for the server
KILLED = 128 + signal.SIGKILL
_servers: list[subprocess.Popen[bytes]] = []  # each ends as its standard input does: with this process


def start(kind: str, threads: int) -> None:
    """Start a server for this process's jobs of an arithmetic and a number of threads; on Linux only.

    Elsewhere, libraries do not allow for forks.
    """
    if sys.platform != "linux":
        return
    name = f"ff-memories-{secrets.token_hex(8)}"
    with suppress(OSError), socket.socket(socket.AF_UNIX) as listener:  # where sockets are forbidden, there is none
        listener.bind(f"\0{name}")  # a name that is no file
        listener.listen(WAITING)
        settings = dict.fromkeys(THREADS, str(threads)) | waiting() | arithmetic.environment(kind)
        program = f"from ff_memories import cli; from {__name__} import serve; serve({listener.fileno()}, cli.main)"
        command = [sys.executable, "-P", "-c", program]
        options: dict[str, Any] = {"env": os.environ | settings, "pass_fds": [listener.fileno()]}
        nothing = subprocess.DEVNULL  # what libraries say as they are imported is no job's
        _servers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, **options))
        atexit.register(_servers[-1].kill)  # at once, where it imports what jobs have
        os.environ[SERVER] = f"{name} {_settings(settings)}"


def waiting() -> dict[str, str]:
    """Return how long idle threads of libraries spin, unless the environment says it: long, they starve other jobs.

    Without spinning, small operations take twice as long.
    """
    return {} if "OMP_WAIT_POLICY" in os.environ else {"GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", "10000")}


def _settings(environment: Mapping[str, str]) -> str:
    """Return what a job and its server must have in common."""
    return f"{environment.get(arithmetic.CHOSEN)} {environment.get(THREADS[0])}"


def ask(argv: list[str]) -> int | None:
    """Have the server run a step; return its exit status, or ``None`` if this process has to run it."""
    name, _, settings = os.environ.get(SERVER, "").partition(" ")
    if not name or settings != _settings(os.environ):
        return None
    os.umask(umask := os.umask(0))
    request = json.dumps([argv, os.getcwd(), dict(os.environ), umask]).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(f"\0{name}")
            if _user(connection) != os.getuid():
                return None
            socket.send_fds(connection, [LENGTH.pack(len(request))], [0, 1, 2])
            connection.sendall(request)
            try:
                answer = connection.recv(1)
            except KeyboardInterrupt:  # by Ctrl-C; Snakemake unlocks the folder only after the job has cleared up
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(1)
        except OSError:  # it has ended
            return None
    if answer:
        return answer[0]
    print("error: a signal ended this step's process, as the system's does when memory runs out", file=sys.stderr)
    return KILLED


def _user(connection: socket.socket) -> int:
    """Return the number of the user at the other end."""
    return int(PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[1])


def serve(number: int, run: Callable[[list[str]], None]) -> None:
    """Start jobs until the standard input ends, or rather the process that holds its other end.

    ``number``: of the descriptor where jobs ask; ``run``: runs a command line, and raises ``SystemExit`` at its end.
    """
    listener = socket.socket(fileno=number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the jobs
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    learned, teaching = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    teaching.setblocking(False)  # a job ends, whether or not there is room for what it teaches
    streams: list[Any] = [sys.stdin, listener, learned]
    while sys.stdin not in (ready := select.select(streams, [], [])[0]):
        for name in learned.recv(1 << 20).decode().split() if learned in ready else ():
            with suppress(Exception):
                import_module(name)
        if listener in ready:
            with listener.accept()[0] as connection:
                if _user(connection) != os.getuid():
                    continue
                with warnings.catch_warnings():  # of forks beside threads: those of polars and numpy wait
                    warnings.simplefilter("ignore")
                    forked = os.fork() == 0
                if forked:
                    listener.close()  # so that no job waits for a server that has ended
                    _work(connection, teaching, run)


def _work(connection: socket.socket, teaching: socket.socket, run: Callable[[list[str]], None]) -> NoReturn:
    """Run a step in this process, a fork of the server, and tell who asked for it how it ended."""
    status, before = 1, set(sys.modules)
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, _interrupt)
        head, streams, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
        with connection.makefile("rb") as rest:
            argv, folder, environment, umask = json.loads(rest.read(*LENGTH.unpack(head)))
        run_lives = os.dup(0)  # ends as the server's standard input does
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        says = environment.get("PYTHONIOENCODING", "").partition(":")[0] or None
        opened = partial(open, mode="w", buffering=1, encoding=says, errors="backslashreplace", closefd=False)
        sys.stdout, sys.stderr = map(opened, (1, 2))
        os.chdir(folder)
        os.umask(umask)
        os.environ.clear()
        os.environ.update(environment | {SERVER: ""})
        os.register_at_fork(after_in_child=connection.close)  # else who asked would wait for the forks of a step, too
        threading.Thread(target=_end_with, args=(connection, run_lives), daemon=True).start()
        run(argv)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else bool(end.code)
    except BaseException:
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for written in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                written.flush()
        with suppress(OSError):
            connection.send(bytes([status]))
            teaching.send("\n".join(name for name in sys.modules if name not in before and "." in name).encode())
        os._exit(status)


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # once, so nothing interrupts the clearing up
    raise KeyboardInterrupt


def _end_with(*others: Any) -> None:
    """Stop this process when the one that asked for it ends, or the run, which a signal may have ended alone."""
    select.select(others, [], [])
    os.kill(os.getpid(), signal.SIGINT)
