"""A local web server as mirrors are: ranges, entity tags, and the faults that a test asks of a path."""

import re
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from local_server import answering


class Mirror(BaseHTTPRequestHandler):
    """Serves a folder. ``faults`` maps a path to what goes wrong there, one entry per request; then all is well.

    A number is an HTTP status; ``("cut", n)`` ends the connection after n bytes;
    ``("wrong",)`` sends other bytes of the same length; ``("other range",)`` says that they begin elsewhere;
    ``("no length", n)`` sends n bytes without saying how many there are, and ends the connection.
    """

    protocol_version = "HTTP/1.1"

    def __init__(self, folder, faults, asked, *arguments):
        self.folder, self.faults, self.asked = folder, faults, asked
        super().__init__(*arguments)

    def do_GET(self):
        self.asked.append((self.path, self.headers.get("Range")))
        waiting = self.faults.get(self.path, [])
        fault = waiting.pop(0) if waiting else None
        file = self.folder / Path(self.path).name
        if isinstance(fault, int) or not file.is_file():
            self.send_response(fault if isinstance(fault, int) else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size, tag = file.stat().st_size, f'"{file.stat().st_size}-{file.stat().st_mtime_ns}"'
        first, kind = 0, fault[0] if fault else None
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and self.headers.get("If-Range") in (None, tag):
            first = int(asked[1])
        if first >= size:
            self.send_response(416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first - (kind == 'other range')}-{size - 1}/{size}")
        if kind != "no length":
            self.send_header("Content-Length", str(size - first))
        self.send_header("ETag", tag)
        self.end_headers()
        ends = kind in ("cut", "no length")
        left = fault[1] if ends else size - first
        with file.open("rb") as source:
            source.seek(first)
            while left > 0 and (piece := source.read(min(left, 1 << 20))):
                self.wfile.write(bytes(len(piece)) if kind == "wrong" else piece)
                left -= len(piece)
        if ends:
            self.close_connection = True

    def log_message(self, *arguments):
        pass


@contextmanager
def serving(folder: Path):
    """Serve a folder on this machine; yield (address, faults, requests seen)."""
    faults, asked = {}, []
    with answering(partial(Mirror, folder, faults, asked)) as address:
        yield address, faults, asked
