r"""The theorem at work: sigmoid gates come as close as one likes to continuous probability maps.

Three maps on the square :math:`K = [-1, 1]^2` are approximated by gates of growing width, separate networks and
one that all gates share, with two hidden layers of ReLU units. What counts is the uniform error
:math:`\max_i \sup_{x \in K} |h_i(x) - p_i(x)|`, on a grid that is finer than anything the gates are trained on.

A map that touches the boundary of the simplex has no gates with finite arguments. As in the paper it is moved
inside first, :math:`p^\delta = (1 - \delta)\, p + \delta / k`, and the error is still taken against :math:`p`.
Beside the networks stand the exact gates of the proof, :math:`q_i = p_i / \sum_{j \ge i} p_j`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from punn.experiments.study import Run, Study, Task, markdown, mean_and_deviation

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from punn.network import PUNN

__all__ = ["MAPS", "STUDY", "approximate", "uniform_error"]

WIDTHS = (8, 16, 32, 64, 128, 256)
MODELS = ("separate", "shared")
SETTINGS: dict[str, Any] = {
    "steps": 6000,
    "batch_size": 512,
    "learning_rate": 0.003,
    "power": 4,
    "delta": 0.001,
    "grid": 257,
}

# What the widest gates must reach: an error, and how much smaller it must be than that of the narrowest.
BELOW, FACTOR = 0.02, 8


def smooth3(x: Tensor) -> Tensor:
    """Three classes, everywhere positive."""
    import torch

    a, b = x.unbind(-1)
    scores = torch.stack([torch.sin(2.5 * a + b), torch.cos(2 * a * b) - a, 1.5 * torch.sin(2 * b - a)], -1)
    return scores.softmax(-1)


def smooth5(x: Tensor) -> Tensor:
    """Five classes, everywhere positive: soft hills around five places."""
    import torch

    places = torch.tensor([[0.0, 0.0], [0.7, 0.6], [-0.6, 0.7], [-0.7, -0.6], [0.6, -0.7]]).to(x)
    return (-3 * (x.unsqueeze(-2) - places).square().sum(-1)).softmax(-1)


def boundary3(x: Tensor) -> Tensor:
    """Three classes on the boundary of the simplex: each vanishes on a set with an inside, and one is certain there."""
    import torch

    a, b = x.unbind(-1)
    inner = _step(1.25 - 1.5 * torch.hypot(a, b))  # a hill with a flat top, 0 outside
    side = _step(0.5 + a + 0.4 * torch.sin(3 * b))
    return torch.stack([inner, (1 - inner) * side, (1 - inner) * (1 - side)], -1)


def _step(t: Tensor) -> Tensor:
    """From 0 to 1 between 0 and 1, smoothly."""
    t = t.clamp(0, 1)
    return t.square() * (3 - 2 * t)


#: Continuous maps from the square into the simplex, x (n, 2) -> p (n, k), by name.
MAPS: dict[str, Callable[[Tensor], Tensor]] = {"smooth3": smooth3, "smooth5": smooth5, "boundary3": boundary3}


def tasks(seeds: int, quick: bool) -> list[Task]:
    """Every map, realization and width."""
    settings = {**SETTINGS, "steps": 20, "grid": 33} if quick else SETTINGS
    return [
        Task(model, name, seed, {**settings, "width": width})
        for seed in range(seeds)
        for name in MAPS
        for model in MODELS
        for width in (WIDTHS[:2] if quick else WIDTHS)
    ]


def inside(p: Tensor, delta: float) -> Tensor:
    r"""The map moved into the inside of the simplex, :math:`(1 - \delta)\, p + \delta / k`."""
    return (1 - delta) * p + delta / p.shape[-1]


def approximate(task: Task) -> PUNN:
    """Train gates towards a map by a norm of the error that is near to the uniform one, at random points."""
    import torch

    from punn.adam import Adam
    from punn.gates import SeparateMLP, Shared
    from punn.gates.mlp import mlp
    from punn.network import PUNN
    from punn.preparation import seeded
    from punn.training import SCHEDULES, few_threads

    settings, target = task.configuration, MAPS[task.dataset]
    width, steps, rows, power = (settings[name] for name in ("width", "steps", "batch_size", "power"))
    k = target(torch.zeros(1, 2)).shape[-1]
    with seeded(task.seed) as generator:
        separate = task.model == "separate"
        gates = (
            SeparateMLP(2, k - 1, (width, width)) if separate else Shared(mlp(2, (width, width)), k - 1, features=width)
        )
        network = PUNN(gates)
    adam = Adam([network])
    with few_threads(2.0 * rows * sum(p.numel() for p in network.parameters())):
        for step in range(steps):
            # A little beyond the square and back: some points are on its edges, where errors are largest.
            x = (2.1 * torch.rand(rows, 2, generator=generator) - 1.05).clamp(-1, 1)
            error = network(x).exp() - inside(target(x), _delta(task))
            error.abs().pow(power).mean().pow(1 / power).backward()
            adam.step(settings["learning_rate"] * SCHEDULES["cosine"](step / steps))
    adam.release(adam.weights, 0)
    return network.double().eval()


def uniform_error(h: Tensor, p: Tensor) -> float:
    """The largest difference of any function at any point.

    Example:
        >>> import torch
        >>> uniform_error(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]]))
        0.25
    """
    return float((h - p).abs().max())


def run(task: Task, checkpoint: Path, loud: bool = False) -> dict[str, Any]:
    """Train, and compare with the map on the grid; accuracy is how often both have the same winner."""
    import torch

    from punn.partition import gates_from_probabilities, log_partition

    network, points = approximate(task), grid(task.configuration["grid"])
    with torch.inference_mode():
        p = MAPS[task.dataset](points)
        log_h = torch.cat([network(piece) for piece in points.split(8192)])
        q = gates_from_probabilities(inside(p, _delta(task)))
        exact = log_partition(q.log(), (-q).log1p()).exp()
        agree = log_h.argmax(-1) == p.argmax(-1)
    return {
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "accuracy": round(100 * float(agree.double().mean()), 4),
        "log_loss": round(float(-(p * log_h).sum(-1).mean()), 6),
        "error": uniform_error(log_h.exp(), p),
        "exact_gates_error": uniform_error(exact, p),
    }


def grid(side: int) -> Tensor:
    """Points of the square, shape (side * side, 2), its edges among them."""
    import torch

    line = torch.linspace(-1, 1, side, dtype=torch.float64)
    return torch.cartesian_prod(line, line)


def table(runs: list[Run]) -> str:
    """The uniform error by width, with the factor between the narrowest and the widest."""
    widths = sorted({run["configuration"]["width"] for run in runs})
    rows, missed = [], []
    for name in MAPS:
        for model in MODELS:
            errors = [mean_and_deviation(_errors(runs, model, name, width))[0] for width in widths]
            factor = errors[0] / errors[-1]
            met = errors[-1] < BELOW and factor >= FACTOR
            if not met:
                missed.append(f"{name}, {model}")
            exact = next(run["exact_gates_error"] for run in runs if run["dataset"] == name)
            verdict = "met" if met else "missed"
            rows.append([name, model, *(f"{e:.4f}" for e in errors), f"{factor:.1f}", f"{exact:.1e}", verdict])
    seeds = len({run["seed"] for run in runs})
    return "\n\n".join(
        [
            "# Density: uniform error of sigmoid gates by width",
            markdown(["map", "gates", *(f"width {w}" for w in widths), "factor", "exact gates", "bar"], rows),
            f"{f'Mean over {seeds} seeds' if seeds > 1 else 'One seed'}. The bar: below {BELOW} at the widest, and "
            f"{FACTOR} times less than at the narrowest. "
            + (f"Missed by {'; '.join(missed)}." if missed else "All meet it."),
            "The paper has the theorem and no numbers. boundary3 touches the boundary of the simplex and is "
            f"approximated through p^δ with δ = {SETTINGS['delta']}: its exact gates differ by that alone.",
        ]
    )


def figures(runs: list[Run], quick: bool) -> dict[str, Figure]:
    """Error against width, on logarithmic scales."""
    from punn.displays.style import INK, MARKERS, class_colors, import_matplotlib

    widths = sorted({run["configuration"]["width"] for run in runs})
    figure, ax = import_matplotlib().subplots(figsize=(6.4, 4.2), layout="constrained")
    for color, marker, name in zip(class_colors(len(MAPS)), MARKERS, MAPS, strict=False):
        for model, line in zip(MODELS, ("-", "--"), strict=True):
            errors = [mean_and_deviation(_errors(runs, model, name, width))[0] for width in widths]
            ax.plot(widths, errors, line, color=color, marker=marker, markersize=4, label=f"{name}, {model}")
    ax.axhline(BELOW, color=INK, linewidth=0.8, linestyle=":", label=f"the bar at the widest, {BELOW}")
    ax.set_xscale("log", base=2)
    ax.set(yscale="log", xlabel="width of the hidden layers", ylabel=r"uniform error $\max_i\,\|h_i - p_i\|_\infty$")
    ax.set_xticks(widths, [str(width) for width in widths])
    ax.legend(frameon=False, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)
    return {"error": figure}


def _delta(task: Task) -> float:
    """Only a map on the boundary has to be moved."""
    return float(task.configuration["delta"]) if task.dataset.startswith("boundary") else 0.0


def _errors(runs: list[Run], model: str, dataset: str, width: int) -> list[float]:
    return [
        run["error"]
        for run in runs
        if (run["model"], run["dataset"], run["configuration"]["width"]) == (model, dataset, width)
    ]


STUDY = Study("density", 1, tasks, run, table, figures)
