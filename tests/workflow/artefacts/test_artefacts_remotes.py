"""Remotes of other kinds: a folder, and what a web server shows."""

import functools
import http.server
import shutil
import threading

import pytest
from projects import RESULTS, git, run

pytestmark = pytest.mark.long


@pytest.fixture
def project(published, tmp_path):
    git(tmp_path, "clone", "-q", published, "project")
    run(tmp_path / "project", "dvc", "pull", "--quiet")
    return tmp_path / "project"


def add(project, url):
    run(project, "dvc", "remote", "add", "--local", "lab", url)
    run(project, "dvc", "remote", "modify", "--local", "lab", "verify", "true")


def pull_anew(project):
    """Forget all that is here and pull it from the remote under test."""
    before = {p.name: p.read_bytes() for p in (project / RESULTS / "tables").iterdir()}
    for name in (".dvc/artefacts", ".dvc/cache", RESULTS):
        shutil.rmtree(project / name)
    run(project, "dvc", "pull", "--remote", "lab")
    assert {p.name: p.read_bytes() for p in (project / RESULTS / "tables").iterdir()} == before


def test_a_folder(project, tmp_path):
    add(project, tmp_path / "lab")
    run(project, "dvc", "push", "--remote", "lab")
    pull_anew(project)


def test_plain_http_serves_what_was_published_and_takes_no_push(project, published):
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=published / ".dvc/artefacts")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            add(project, f"http://127.0.0.1:{server.server_port}")
            pull_anew(project)
        finally:
            server.shutdown()
