"""Remotes of other kinds, each on a real server of this machine."""

import functools
import http.server
import importlib.util
import shutil
import threading

import pytest
from projects import RESULTS, git, run
from test_artefacts import published  # noqa: F401

pytestmark = pytest.mark.long


@pytest.fixture
def project(published, tmp_path):  # noqa: F811
    git(tmp_path, "clone", "-q", published, "project")
    run(tmp_path / "project", "dvc", "pull", "--quiet")
    return tmp_path / "project"


def add(project, url, **options):
    run(project, "dvc", "remote", "add", "--local", "lab", url)
    for name, value in {"verify": "true", **options}.items():
        run(project, "dvc", "remote", "modify", "--local", "lab", name, value)


def pull_anew(project, **env):
    """Forget all that is here and pull it from the remote under test."""
    before = {p.name: p.read_bytes() for p in (project / RESULTS / "tables").iterdir()}
    for name in ("artefacts", ".dvc/cache", RESULTS):
        shutil.rmtree(project / name)
    run(project, "dvc", "pull", "--remote", "lab", **env)
    assert {p.name: p.read_bytes() for p in (project / RESULTS / "tables").iterdir()} == before


def test_a_folder(project, tmp_path):
    add(project, tmp_path / "lab")
    run(project, "dvc", "push", "--remote", "lab")
    pull_anew(project)


def test_plain_http_serves_what_was_published_and_takes_no_push(project, published):  # noqa: F811
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=published / "artefacts")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            add(project, f"http://127.0.0.1:{server.server_port}")
            pull_anew(project)
        finally:
            server.shutdown()


@pytest.mark.skipif(not importlib.util.find_spec("dvc_s3"), reason="pip install -c constraints.txt -e '.[s3]'")
def test_s3(project):
    moto = pytest.importorskip("moto.server", reason="pip install -c constraints.txt -e '.[dev]'")
    import boto3

    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        url = "http://127.0.0.1:{1}".format(*server.get_host_and_port())
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
        credentials = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=url, **credentials).create_bucket(Bucket="lab")
        add(project, "s3://lab/ff-memories", endpointurl=url)
        run(project, "dvc", "push", "--remote", "lab", **keys)
        pull_anew(project, **keys)
    finally:
        server.stop()
