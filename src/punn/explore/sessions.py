"""One session for every open tab: what it explores, the table it has chosen, and the fit that runs for it."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

from punn.explore.job import Job
from punn.explore.subject import Subject
from punn.explore.upload import Table

__all__ = ["Session", "Sessions"]

MOST = 32  # tabs whose state is kept; the one that was silent for longest goes first


@dataclass
class Session:
    """The state of one tab; what it shows otherwise is kept in the browser."""

    subject: Subject | None = None
    table: Table | None = None
    job: Job | None = None


class Sessions:
    """Sessions by their random keys.

    Arguments:
        start: What a new tab begins with.
        most: How many are kept.

    Example:
        >>> sessions = Sessions(Session(), most=2)
        >>> first, second, third = (sessions.open() for _ in range(3))
        >>> sessions.find(first) is None, sessions.find(third) is None
        (True, False)
    """

    def __init__(self, start: Session, most: int = MOST) -> None:
        self._start, self._most = start, most
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def open(self) -> str:
        """The key of a new session."""
        key = secrets.token_urlsafe(16)
        with self._lock:
            self._sessions[key] = Session(self._start.subject, self._start.table)
            while len(self._sessions) > self._most:
                _, old = self._sessions.popitem(last=False)
                if old.job is not None:
                    old.job.stop()
        return key

    def find(self, key: object) -> Session | None:
        """The session of a tab; None if it is none of ours, or was given up."""
        with self._lock:
            session = self._sessions.get(key) if isinstance(key, str) else None
            if session is not None:
                self._sessions.move_to_end(str(key))
            return session

    def stop(self) -> None:
        """End all fits and wait a little for them."""
        with self._lock:
            jobs = [session.job for session in self._sessions.values() if session.job is not None]
        for job in jobs:
            job.stop()
        for job in jobs:
            job.join(2.0)
