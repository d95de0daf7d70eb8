"""A web server on this machine, for as long as a test runs, whose clients may hang up."""

import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

Server = type("Server", (ThreadingHTTPServer,), {"daemon_threads": True, "handle_error": lambda *_: None})


@contextmanager
def answering(handler):
    """Let a handler answer every request; yield the server's address."""
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
