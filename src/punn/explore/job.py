"""A fit beside the page: it tells how far it is, can be stopped, and ends in something to explore."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from punn.classifier import PUNNClassifier
from punn.explore.code import training_code
from punn.explore.subject import Subject, subject_of
from punn.explore.upload import Table
from punn.scoring import hold_out, scores
from punn.sources import Examples, learnable
from punn.training import Step

__all__ = ["Job", "Recipe"]

TEST_SHARE = 0.2
SEED = 0


@dataclass(frozen=True)
class Recipe:
    """What to train.

    Arguments:
        table: The table. target: The column to predict. drop: Columns to leave out.
        options: Arguments of :class:`punn.PUNNClassifier`.
    """

    table: Table
    target: str
    drop: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


class Job:
    """A fit in a thread of its own.

    Attributes:
        step: The last epoch, or None before the first.
        subject: The result, or None while there is none.
        error: Why there is none, or an empty text.
        notes: What to tell the user beside the result.

    Example:
        >>> from punn.sources import read_source
        >>> job = Job(Recipe(Table(read_source("moons"), "moons"), "class", options={"gates": "ball", "epochs": 3}))
        >>> job.start()
        >>> job.join()
        >>> job.done, job.subject.name
        (True, 'moons')
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.step: Step | None = None
        self.subject: Subject | None = None
        self.error = ""
        self.notes: list[str] = []
        self.done = False
        self._began = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="punn fit", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after this epoch, with the best weights so far."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._stopping.is_set()

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    @property
    def left(self) -> float:
        """Seconds that it will take, if epochs go on as they went."""
        if self.step is None:
            return float("nan")
        return (time.monotonic() - self._began) / self.step.epoch * (self.step.epochs - self.step.epoch)

    def _run(self) -> None:
        try:
            self.subject = self._fitted()
        except (ValueError, TypeError, MemoryError, RuntimeError) as error:
            self.error = str(error) or type(error).__name__
        finally:
            self.done = True

    def _fitted(self) -> Subject:
        recipe = self.recipe
        examples = learnable(recipe.table.source, recipe.target, recipe.drop)
        self.notes += examples.notes
        kept, held = hold_out(examples.y, TEST_SHARE, SEED)
        model = PUNNClassifier(**recipe.options, random_state=SEED, verbose=self._listen)
        self._began = time.monotonic()
        with told_to(self.notes):
            model.fit(examples.X.iloc[kept], examples.y[kept])
        model.set_params(verbose=False)
        return self._subject(model, examples, kept, held)

    def _subject(self, model: PUNNClassifier, examples: Examples, kept: Any, held: Any) -> Subject:
        measured = scores(model, examples.X.iloc[held], examples.y[held])._asdict() if len(held) else {}
        # Kept with the model, so that its file and the report tell the same.
        model.table_ = examples.columns.to_dict()
        model.summary_ = {
            "table": self.recipe.table.source.name,
            "rows": {"train": len(kept), "test": len(held)},
            "folds": 1,
            "scores": {"model": measured} if measured else {},
        }
        code = training_code(self.recipe, TEST_SHARE, SEED, stopped=model.history_.stopped == "interrupted")
        return subject_of(self.recipe.table.source.name, model, examples.X, examples.y, code)

    def _listen(self, step: Step) -> None:
        self.step = step
        if self._stopping.is_set():
            raise KeyboardInterrupt


_NOTES = threading.local()


@contextmanager
def told_to(notes: list[str]) -> Iterator[None]:
    """Collect the warnings of this thread in a list.

    ``warnings.catch_warnings`` is for all threads at once, and would mix those of several fits.
    """
    _NOTES.list = notes
    try:
        yield
    finally:
        _NOTES.list = None


def tell(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
    """In the place of ``warnings.showwarning``: to the list of this thread, if it has one."""
    notes = getattr(_NOTES, "list", None)
    if notes is not None and issubclass(category, UserWarning) and not str(message).startswith("interrupted"):
        notes.append(f"{str(message)[:1].upper()}{str(message)[1:]}.")


def install() -> None:
    """Let warnings of this process be told where they belong; for the process of the explorer alone."""
    warnings.simplefilter("always", UserWarning)
    warnings.showwarning = tell
