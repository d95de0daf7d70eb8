"""In a process that runs a step: write which code of the package ran, as ``path:line`` of where it starts.

Python imports this module at start if its folder is on PYTHONPATH. ``WATCHED`` names the folder to write to.
"""

import atexit
import os
import sys
import threading
from pathlib import Path
from types import CodeType

FOLDER = os.environ.get("WATCHED")
STEPS = f"{os.sep}ff_memories{os.sep}steps{os.sep}"
PACKAGE = f"{os.sep}ff_memories{os.sep}"
seen: set[CodeType] = set()
depth = 0  # of calls of a step's run
importing = 0  # of modules that are being imported: their definitions run then, used or not


def watch(frame, event, _):
    global depth, importing
    code = frame.f_code
    if PACKAGE not in code.co_filename:
        return
    if code.co_name == "run" and STEPS in code.co_filename and event in ("call", "return"):
        depth += 1 if event == "call" else -1
    if code.co_name == "<module>" and event in ("call", "return"):
        importing += 1 if event == "call" else -1
    if event == "call" and depth > 0 and not importing:
        seen.add(code)


def write():
    if not seen:
        return
    lines = sorted({f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}" for code in seen})
    Path(FOLDER, f"{os.getpid()}.txt").write_text("\n".join(["\0".join(sys.argv), *lines]), encoding="utf-8")


if FOLDER:
    sys.setprofile(watch)
    threading.setprofile(watch)
    atexit.register(write)
