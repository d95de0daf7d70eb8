"""A local web server that answers as the Hugging Face hub does, as far as `huggingface_hub` asks for a model."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from local_server import answering

LARGE = (".safetensors", ".bin")  # stored with Git LFS: metadata have their SHA-256, and downloads are redirected


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Hub:
    """Models by name; each has commits, and branches that name them.

    Attributes:
        models: name -> revision (branch or commit) -> (commit, files).
        gated: names of models whose files need a login.
        asked: (method, path) of every request.
        broken: status with which to answer every request.
    """

    def __init__(self) -> None:
        self.models: dict[str, dict[str, tuple[str, dict[str, bytes]]]] = {}
        self.gated: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.broken: int | None = None

    def push(self, name: str, folder: Path, branch: str = "main", **card: Any) -> str:
        """Commit a folder's files to a branch of a model; return the commit."""
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        files["README.md"] = f"---\n{json.dumps(card)}\n---\n".encode()
        commit = hashlib.sha1(repr(sorted((n, sha256(c)) for n, c in files.items())).encode()).hexdigest()
        self.models.setdefault(name, {}).update({branch: (commit, files), commit: (commit, files)})
        return commit

    def downloads(self) -> list[str]:
        """Return the names of the files whose content was asked for."""
        return [path.rpartition("/")[2] for method, path in self.asked if method == "GET" and "/api/" not in path]


class Answer(BaseHTTPRequestHandler):
    """One request to a ``Hub``."""

    protocol_version = "HTTP/1.1"

    def __init__(self, hub: Hub, *arguments: Any) -> None:
        self.hub = hub
        super().__init__(*arguments)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path))
        if self.hub.broken:
            return self.say(self.hub.broken)
        if found := re.fullmatch(r"/cdn/([^/]+/[^/]+)/([0-9a-f]{40})/(.+)", path):
            return self.say(200, self.hub.models[found[1]][found[2]][1][found[3]])
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(?:revision|tree)/(.+))?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        found = api or file
        if not found or found[1] not in self.hub.models:
            return self.say(401 if found else 404, code="RepoNotFound")
        name, model = found[1], self.hub.models[found[1]]
        if file and name in self.hub.gated:  # the list of files is public
            return self.say(401, code="GatedRepo")
        if (found[2] or "main") not in model:
            return self.say(404, code="RevisionNotFound")
        commit, files = model[found[2] or "main"]
        if api:
            told = self.tree(files) if "/tree/" in path else self.about(name, commit, files)
            return self.say(200, json.dumps(told).encode())
        if found[3] not in files:
            return self.say(404, code="EntryNotFound", commit=commit)
        content = files[found[3]]
        if not found[3].endswith(LARGE):
            return self.say(200, content, commit=commit, ETag=f'"{hashlib.sha1(content).hexdigest()}"')
        # another host, as the hub's own storage is
        elsewhere = f"http://localhost:{self.headers['Host'].partition(':')[2]}"
        linked = {"X-Linked-Etag": f'"{sha256(content)}"', "X-Linked-Size": str(len(content))}
        linked["Location"] = f"{elsewhere}/cdn/{name}/{commit}/{found[3]}"
        return self.say(302, b"", commit=commit, **linked)

    def about(self, name: str, commit: str, files: dict[str, bytes]) -> dict[str, Any]:
        """Return what the hub tells of a model at a commit."""
        large = lambda c: {"size": len(c), "sha256": sha256(c), "pointerSize": 130}
        siblings = [
            {"rfilename": n, "size": len(c), "blobId": "0" * 40} | ({"lfs": large(c)} if n.endswith(LARGE) else {})
            for n, c in files.items()
        ]
        return {"id": name, "sha": commit, "siblings": siblings}

    def tree(self, files: dict[str, bytes]) -> list[dict[str, Any]]:
        """Return the hub's list of a commit's files."""
        return [
            {"type": "file", "path": n, "size": len(c), "oid": hashlib.sha1(c).hexdigest()}
            | ({"lfs": {"size": len(c), "oid": sha256(c), "pointerSize": 130}} if n.endswith(LARGE) else {})
            for n, c in files.items()
        ]

    def say(self, status: int, content: bytes = b"", *, code: str = "", commit: str = "", **headers: str) -> None:
        self.send_response(status)
        for key, value in {"X-Error-Code": code, "X-Repo-Commit": commit, **headers}.items():
            if value:
                self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[tuple[str, Hub]]:
    """Serve a hub on this machine; yield (address, hub)."""
    hub = Hub()
    with answering(partial(Answer, hub)) as address:
        yield address, hub
