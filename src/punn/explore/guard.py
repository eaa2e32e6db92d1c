"""Who may ask: pages of this very server, by a name that cannot be another site's."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from flask import Flask, Response, abort, request

__all__ = ["LARGEST_REQUEST", "guard"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LARGEST_REQUEST = 40_000_000  # bytes; a table of 20 MB is sent as 27 MB


def guard(server: Flask, host: str, scripts: list[str]) -> None:
    """Refuse requests that come by way of another site, and tell browsers to load from here alone.

    A site can let its own name point to this machine and then read what is served on it (DNS rebinding); it cannot do
    so with an address or a name of ours, so that no other ``Host`` is answered.

    Arguments:
        server: The server of the app.
        host: The address that it listens on.
        scripts: Hashes of the scripts that stand in the page itself.
    """
    server.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST
    wide = host not in LOOPBACK
    own = {*LOOPBACK, host.lower(), *([socket.gethostname().lower()] if wide else [])}

    def check() -> None:
        asked = _name(f"//{request.headers.get('Host', '')}")
        if asked not in own and not (wide and _is_address(asked)):
            abort(403, "this page answers at its own address only")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("Host", "").lower():
            abort(403, "another site may not ask")
        if request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and request.method != "GET":
            abort(403, "another site may not ask")

    def harden(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = "; ".join(
            [
                "default-src 'self'",
                f"script-src 'self' {' '.join(scripts)}",
                "style-src 'self' 'unsafe-inline'",
                "img-src 'self' data: blob:",
                "frame-ancestors 'none'",
                "base-uri 'none'",
                "form-action 'none'",
            ]
        )
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return response

    server.before_request(check)
    server.after_request(harden)


def _name(netloc: str) -> str:
    """The host in a ``Host`` header, without its port."""
    try:
        return (urlsplit(netloc).hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
