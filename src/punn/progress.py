"""Progress of a fit: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from punn.training import Step

__all__ = ["Progress", "clock"]


class Progress:
    """Shows loss, accuracy (on held-out rows, if there are any) and the time left.

    Arguments:
        stream: Where to; standard error if None.
        lines: How many lines to print at most where a bar cannot be drawn.
    """

    def __init__(self, stream: TextIO | None = None, lines: int = 10) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.lines = lines
        self.began = time.monotonic()
        self.first: int | None = None

    def __call__(self, step: Step) -> None:
        """Tell of one epoch."""
        if self.first is None:
            self.first = step.epoch - 1
        done = step.epoch - self.first
        seconds = time.monotonic() - self.began
        left = seconds / done * (step.epochs - step.epoch)
        text = f"epoch {step.epoch}/{step.epochs}  loss {step.loss:.4f}  accuracy {step.accuracy:.1%}"
        text += f"  {clock(left)} left"
        if self.stream.isatty():
            width = 20 * step.epoch // step.epochs
            print(f"\r{'━' * width}{'─' * (20 - width)} {text}", end="\033[K", file=self.stream, flush=True)
        elif step.epoch == step.epochs or step.epoch % max(1, step.epochs // self.lines) == 0:
            print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """End the line."""
        if self.first is not None and self.stream.isatty():
            print(file=self.stream, flush=True)


def clock(seconds: float) -> str:
    """Hours, if any, minutes and seconds.

    Example:
        >>> clock(75), clock(7384.2)
        ('1:15', '2:03:04')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
