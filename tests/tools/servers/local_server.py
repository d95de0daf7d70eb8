"""A web server on this machine, for as long as a test runs."""

import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


@contextmanager
def answering(handler):
    """Let a handler answer every request; yield the server's address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client may hang up; a handler that fails fails its request
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
