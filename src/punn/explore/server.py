"""Serve the explorer until Ctrl-C."""

from __future__ import annotations

import logging
import socket
import threading
import webbrowser
from collections.abc import Callable

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from punn.explore.app import build_app
from punn.explore.job import install
from punn.explore.sessions import Session, Sessions

__all__ = ["serve"]

PORT = 8050


class _Quiet(WSGIRequestHandler):
    """Without a line for every request."""

    def log(self, type: str, message: str, *args: object) -> None:
        """Nothing."""


def serve(
    start: Session,
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
    say: Callable[[str], object] = print,
) -> None:
    """Answer on an address until Ctrl-C.

    Arguments:
        start: What a new tab begins with.
        host: The address; anything but 127.0.0.1 lets other machines in.
        port: The port; 0 for any free one. Without it 8050, or a free one if that is taken.
        browser: Open a browser.
        say: Where to tell the address.
    """
    sessions = Sessions(start)
    server = _listen(host, PORT if port is None else port, port is None, build_app(sessions, host).server)
    install()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    shown = f"[{host}]" if ":" in host else "127.0.0.1" if host == "0.0.0.0" else host
    address = f"http://{shown}:{server.server_port}/"
    say(f"the explorer is at {address}\nCtrl-C ends it")
    if browser:
        # Some browsers start in the foreground of the caller: not ours.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        sessions.stop()
        server.server_close()


def _listen(host: str, port: int, elsewhere: bool, application: object) -> BaseWSGIServer:
    """A server on this port, or on a free one if it may be elsewhere."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OverflowError as error:
        raise ValueError(f"--port must be from 0 to 65535, got {port}") from error
    except OSError as error:
        if elsewhere and not isinstance(error, socket.gaierror):
            return _listen(host, 0, False, application)
        raise ValueError(
            f"cannot listen on {host}, port {port} ({error.strerror}); name another with --port, or --port 0 for any"
        ) from error
    return make_server(host, port, application, threaded=True, request_handler=_Quiet)  # type: ignore[arg-type]
