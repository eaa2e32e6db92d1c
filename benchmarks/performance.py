"""The page on speed and on the defaults' accuracy, made from the files of measurements and from nothing else.

    OMP_NUM_THREADS=1 python -m benchmarks.speed --json benchmarks/results/speed/one-thread.json
    python -m benchmarks.speed --json benchmarks/results/speed/threads.json
    env -u OMP_WAIT_POLICY python -m benchmarks.speed loss inference --json benchmarks/results/speed/spinning.json
    python -m benchmarks.growth --json benchmarks/results/speed/growth.json --figure docs/figures/growth.png
    python -m benchmarks.accuracy --out benchmarks/results/accuracy
    python -m benchmarks.accuracy --tables --out benchmarks/results/accuracy-tables
    python -m benchmarks.performance                  # writes docs/performance.md

What was tried stands below in words; every number of the tables comes from the files.
"""

from __future__ import annotations

import json
from pathlib import Path

INTRODUCTION = """\
<!-- Made by `python -m benchmarks.performance` from the files in benchmarks/results/speed/: change those, not this. -->

# Performance

How fast it is, how that grows, and how good the defaults are.

## How it is measured

Each of our operations beside a named peer. Both run in turns in one process, ours then theirs, many times; the ratio
is that of the medians, so below 1 we are faster, and the quartiles are those of the ratios of neighbours. Once with
one thread, once with all {threads} of the machine, torch {torch}, threads that sleep while they wait
(`OMP_WAIT_POLICY=passive`, as in `make`). One thread is the stricter column for small tensors: with more, the peers
pay for waking a thread, which our own C functions do for large ones only. The machine is a small virtual one, and
ratios differ from run to run by about as much as the quartiles show. A bar is what we set out to reach; where it is
missed, the table says so.

```bash
make bench                                          # all pairs, printed
python -m benchmarks.speed fit --json speed.json    # one group, and the numbers
python -m benchmarks.growth                         # how time and memory grow
```
"""

GROWTH = """\
## Growth

{slopes}

![Time by size, on logarithmic axes, with lines of growth in proportion](figures/growth.png)

A slope of 1 is growth in proportion; it is that of the upper half of the points, where fixed costs no longer count.
The peak memory of the loss is at most {memory:.2f} times that of `cross_entropy`, over all widths.

## How close to the limit

| what | reached | limit | share |
| --- | --- | --- | --- |
{limits}

The loss reads every gate once and writes its gradient once, and is compared with `copy_` of the same tensor, which
does no arithmetic; the forward pass of separate gates (784 features, 9 gates, hidden 64) with a product of two square
matrices of 1,024.
"""

TRIED = """\
## What was tried

- **The loss.** Eager operators with the gradient in closed form took 2.3 to 3.1 times `cross_entropy`, the compiled
  masked form 1.6 to 1.9. A C function that is built at installation takes one exponential per gate for loss and
  gradient together, one logarithm per 512 gates, and nothing past a row's own class. Logarithms that rows or parts
  need one of each are taken side by side, in vectors. Many rows are divided between torch's own threads; threads of
  Python, waiting for work, had to share a core with torch's as long as those spun, and took the loss with 20 parts to
  2.3 times `cross_entropy`. Without a compiler the operators do the same work, and the tests run both.
- **Small losses.** At 100 functions and 64 rows, all but a few microseconds go into Python and autograd: an empty
  autograd function alone takes 0.9 of `cross_entropy`. Fewer views, checks and conversions per call took 0.4 off the
  ratio, and the same off that of class sums.
- **Separate gates.** The first layer of all gates is one product of full width, later ones are batched products, and
  a single gate is a plain network. With one thread and wide layers both sides spend their time in the same products,
  so the ratio cannot be as small as with many narrow gates.
- **A step of training.** ReLU networks and their loss are gone through by hand, forwards and backwards, without
  autograd: that took the fit of 1,000 x 2 from 1.05 to 0.65 of `MLPClassifier`, of separate gates from 1.1 to 0.6.
  Gradients are written over the last ones, not added to zeros. Parameters and gradients are views of two vectors, so
  that the operator behind torch's Adam takes them all in one pass, a third of the time of single operators. Small
  steps run on one thread: waking another costs more than it does.
- **A fit of many rows.** Scaling in pieces that a cache holds, instead of 65,536 rows at once, halved the time of a
  fit of MNIST; taking a batch with `index_select` takes half as long as with square brackets. Coverage, which needs
  all rows in double precision, is counted side by side in all threads.
- **Predictions.** Many rows are taken in pieces that a cache holds, side by side in as many threads as there are,
  exponentials included. Smaller pieces fit the cache better, and lose more by waiting for Python's lock than they gain.
  Backward passes begin at a sum: given a gradient to begin with, torch loads its compiler at the first one, a second.
- **Class sums.** The functions of a row are added up as soon as they are made, while a cache holds them, which took a
  fifth off. Exponentials with a polynomial of degree 6, fitted to the interval, and exponents put together as integers
  took another fifth. Sums relative to a class's first function instead of its largest would spare a pass and cost
  digits.
- **Three seeds together.** The MNIST study trains three seeds of every order. All their gates in one module do the
  same products as one after another, and gain little. A run per core at a time, each with one thread, is what `--jobs`
  of `punn reproduce` does, and takes half of the time where a run alone does not keep the cores busy, up to 64 hidden
  units; at the study's 128, where products are all that counts, two thirds.
- **Convolutions.** The CIFAR-100 study spends its hours on convolutions of 3 x 3 pixels, which torch does here at the
  speed of a matrix product. Winograd's form needs a quarter of the products. With its maps in C, in pieces that a
  cache holds, it takes between a third and two thirds of the time; with its maps as torch's operators the gain was
  about half of that.
"""


ACCURACY = """\
## How good the defaults are

Untouched defaults beside scikit-learn's, in the same stratified folds (five, three times over up to 5,000 rows) and
with the same preprocessing; every cell is accuracy in percent, log-loss, and seconds of a fit with one thread, while
the machine had other work. Four sets that everybody knows, by
`python -m benchmarks.accuracy --models punn logistic mlp`:

{sets}
Tables that are made up, from 150 to 50,000 rows, 4 to 200 columns and 2 to 26 classes, imbalanced and with useless
columns, none of which was looked at while the defaults were chosen, by the same with `--tables`
([benchmarks/tables.py](../benchmarks/tables.py) says what they are):

{tables}
With small tables a fit takes a second or more, several times as long as the peers', because five folds tell
how long to train; with large ones it takes a fraction of the network's time.
"""


def page(folder: Path) -> str:
    """The whole page, from the folder of measurements."""
    names = ("one-thread", "threads", "spinning", "growth")
    one, several, spinning, growth = (json.loads((folder / "speed" / f"{name}.json").read_text()) for name in names)
    introduction = INTRODUCTION.format(threads=several["threads"], torch=several["torch"])
    sets, tables = ((folder / name / "table.md").read_text() for name in ("accuracy", "accuracy-tables"))
    accuracy = ACCURACY.format(sets=sets, tables=tables)
    return "\n".join(
        [introduction, ratios(one, several), spinning_section(spinning), growth_section(growth), TRIED, accuracy]
    )


def ratios(one: dict, several: dict) -> str:
    """Every pair with both numbers of threads."""
    both = {result["what"]: [result] for result in one["results"]}
    for result in several["results"]:
        both.setdefault(result["what"], []).append(result)
    bars = [r for pair in both.values() for r in pair if r["bound"] is not None]
    met = sum(r["ratio"] <= r["bound"] for r in bars)
    lines = [
        f"## Ratios\n\n{met} of {len(bars)} bars are met.\n",
        f"| what | against | one thread | {several['threads']} threads | at most |",
        "| --- | --- | --- | --- | --- |",
    ]
    for what, pair in both.items():
        bounds = [result["bound"] for result in pair if result["bound"] is not None]
        bound = f"{bounds[0]:.1f}" if bounds else ""
        lines.append(f"| {what} | `{pair[0]['peer']}` | {' | '.join(map(_ratio, pair))} | {bound} |")
    return "\n".join(lines) + "\n"


def _ratio(result: dict) -> str:
    low, high = result["quartiles"]
    missed = result["bound"] is not None and result["ratio"] > result["bound"]
    return f"{result['ratio']:.2f} ({low:.2f} to {high:.2f})" + (" **missed**" if missed else "")


def spinning_section(spinning: dict) -> str:
    """The losses where waiting threads spin."""
    lines = [
        "Where waiting threads spin instead of sleeping, which is what torch does unless it is told otherwise, to call",
        "one takes next to nothing, and both sides do it for smaller tensors. What is measured in microseconds then:\n",
        f"| what | {spinning['threads']} threads that spin | at most |",
        "| --- | --- | --- |",
        *(f"| {r['what']} | {_ratio(r)} | {r['bound']:.1f} |" for r in spinning["results"] if r["bound"]),
    ]
    return "\n".join(lines) + "\n"


def growth_section(growth: dict) -> str:
    """Slopes, memory and limits."""
    studies = {name: study for name, study in growth.items() if isinstance(study, dict) and "slope" in study}
    slopes = [
        f"- {name}, {study['sizes'][0]:,} to {study['sizes'][-1]:,}: slope {study['slope']:.2f}, "
        f"{study['seconds'][-1]:.3g} s at the end"
        for name, study in studies.items()
    ]
    loss = growth["loss over functions"]
    memory = max(a / b for a, b in zip(loss["bytes"], loss["bytes of cross_entropy"], strict=True))
    values = list(growth["limits"].items())
    limits = [
        f"| {name} | {mine:.1f} | {limit}: {most:.1f} | {mine / most:.0%} |"
        for (name, mine), (limit, most) in zip(values[::2], values[1::2], strict=True)
    ]
    return GROWTH.format(slopes="\n".join(slopes), memory=memory, limits="\n".join(limits))


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    (root / "docs" / "performance.md").write_text(page(root / "benchmarks" / "results"))
