"""The few lines of Python that do the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from punn.explore.job import Recipe
    from punn.explore.subject import Subject
    from punn.ledger import Array

__all__ = ["file_name", "loading_code", "row_code", "training_code"]


def training_code(recipe: Recipe, share: float, seed: int, stopped: bool = False) -> str:
    """Lines that train the same model from the same table."""
    place = repr(recipe.table.place)
    drop = f", drop={list(recipe.drop)!r}" if recipe.drop else ""
    options = "".join(f"{name}={value!r}, " for name, value in recipe.options.items() if value != "auto")
    lines = [
        "import pandas as pd",
        "",
        "from punn import PUNNClassifier",
        "from punn.scoring import hold_out",
        "from punn.sources import learnable, read_source",
        "",
        f"examples = learnable(read_source({place}), target={recipe.target!r}{drop})",
        f"kept, held = hold_out(examples.y, {share}, {seed})",
        f"model = PUNNClassifier({options}random_state={seed})",
        *(["# The fit on the page was stopped early: this one goes on to its end."] if stopped else []),
        "model.fit(examples.X.iloc[kept], examples.y[kept])",
        "model.table_ = examples.columns.to_dict()  # from now on it takes rows of the table",
        'print("accuracy on held-out rows:", model.score(examples.X.iloc[held], examples.y[held]))',
        f"model.save({file_name(recipe.table.source.name)!r})",
    ]
    return "\n".join(lines)


def loading_code(path: Path) -> str:
    """Lines that load a model."""
    return f"import pandas as pd\n\nimport punn\n\nmodel = punn.load({str(path)!r})"


def row_code(subject: Subject, features: Array) -> str:
    """Lines that make a row and explain its prediction, after those that make the model."""
    trace = subject.model.trace(subject.rows(features))
    if subject.picture is not None:
        names = list(map(str, getattr(subject.model, "feature_names_in_", ())))
        columns = f", columns={names!r}" if names else ""
        row = f"pd.DataFrame([{_plain(features.tolist())!r}]{columns})"
    else:
        asked = subject.asked(features)["cells"]
        cells = [control.cell(value) for control, value in zip(subject.controls, asked, strict=True)]
        pairs = (
            f"    {control.column.name!r}: [{cell!r}],\n" for control, cell in zip(subject.controls, cells, strict=True)
        )
        row = f"pd.DataFrame({{\n{''.join(pairs)}}})"
    if not hasattr(subject.model, "feature_names_in_"):
        row += ".to_numpy()"
    return "\n".join(
        [
            subject.code,
            "",
            f"row = {row}",
            "trace = model.trace(row)",
            "print(trace)",
            f"print(trace.ledger(0, {trace.predicted.tolist()[0]!r}))",
            f"print(trace.why_not(0, {_runner_up(trace)!r}))",
            "",
        ]
    )


def _runner_up(trace: Any) -> Any:
    return (
        trace.classes.tolist()[int(trace.probabilities[0].argsort()[-2])]
        if len(trace.classes) > 1
        else trace.classes[0]
    )


def _plain(values: list[float]) -> list[float | int]:
    return [int(value) if value.is_integer() else value for value in values]


def file_name(name: str) -> str:
    """The name of a model's file, whatever its table was called."""
    letters = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
    return f"{letters.strip('.')[:60] or 'model'}.punn.safetensors"
