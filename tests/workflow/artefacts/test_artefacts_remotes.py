"""Remotes of other kinds, each on a real server of this machine."""

import contextlib
import functools
import getpass
import http.server
import importlib.util
import os
import shutil
import socket
import subprocess
import threading
import time

import pytest
from projects import RESULTS, git, run

pytestmark = pytest.mark.long

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")


@pytest.fixture
def project(published, tmp_path):
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


def test_plain_http_serves_what_was_published_and_takes_no_push(project, published):
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


@contextlib.contextmanager
def ssh_server(folder):
    """Run an sshd of our own on loopback, with its own keys; yield (port, the key it lets in)."""
    folder.mkdir()
    for key in ("host", "mine"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    (folder / "authorized").write_bytes((folder / "mine.pub").read_bytes())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"Port": port, "ListenAddress": "127.0.0.1", "HostKey": folder / "host", "PidFile": folder / "pid",
                "AuthorizedKeysFile": folder / "authorized", "StrictModes": "no", "UsePAM": "no",
                "Subsystem": "sftp internal-sftp"}  # fmt: skip
    (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    if not os.geteuid():
        os.makedirs("/run/sshd", exist_ok=True)  # where sshd's unprivileged half is confined
    server = subprocess.Popen([SSHD, "-D", "-E", folder / "log", "-f", folder / "sshd_config"])
    try:
        while server.poll() is None:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        assert server.poll() is None, (folder / "log").read_text()
        yield port, folder / "mine"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.skipif(not importlib.util.find_spec("dvc_ssh"), reason="pip install -c constraints.txt -e '.[ssh]'")
@pytest.mark.skipif(not SSHD, reason="needs an SSH server: apt-get install -y openssh-server")
def test_ssh(project, tmp_path):
    with ssh_server(tmp_path / "sshd") as (port, key):
        url = f"ssh://{getpass.getuser()}@127.0.0.1:{port}{tmp_path}/lab"
        add(project, url, keyfile=key, allow_agent="false")
        run(project, "dvc", "push", "--remote", "lab")
        assert any(path.is_file() for path in (tmp_path / "lab").rglob("*"))
        pull_anew(project)
