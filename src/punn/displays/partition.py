"""Partition functions and classes over a plane of two features."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from punn.displays.plane import Plane, plane_of, values_on
from punn.displays.style import INK, MARKERS, QUIET, axes_of, class_colors, import_matplotlib, inches
from punn.ledger import show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PartitionDisplay"]

ENTRIES = 12  # lines of a legend
POINTS = 3000  # rows that are drawn


class PartitionDisplay:
    """The classes of a model over two features: probabilities, boundary, outlines of shapes, and the data.

    With more than two features the plane is a slice: the others keep the values in `plane.fixed`. Rows are drawn
    where they are in the two features, whatever their other values.

    Arguments:
        plane: The two features and the values along them: see :class:`~punn.displays.plane.Plane`.
        probabilities: Of every class, shape (rows, columns, C).
        partition: Every partition function, shape (rows, columns, k).
        outlines: Gates of shapes by the number of their function, each (rows, columns).
        classes: The labels, shape (C,).
        names: The names of the functions.
        class_of: The class of every function, shape (k,).
        unknown: The index of the class that stands for none, or None.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from punn import PUNNClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = PUNNClassifier("ball", epochs=20, restarts=1, random_state=0).fit(X, y)
        >>> pair = ("petal length (cm)", "petal width (cm)")
        >>> display = PartitionDisplay.from_estimator(model, X, y, features=pair, resolution=40).plot()
        >>> display.ax_.get_xlabel()
        'petal length (cm)'
    """

    def __init__(
        self,
        plane: Plane,
        probabilities: np.ndarray,
        partition: np.ndarray,
        outlines: dict[int, np.ndarray],
        classes: NDArray[Any],
        names: Sequence[str],
        class_of: NDArray[np.intp],
        unknown: int | None = None,
    ) -> None:
        self.plane, self.probabilities, self.partition, self.outlines = plane, probabilities, partition, outlines
        self.classes, self.names, self.class_of, self.unknown = classes, list(names), class_of, unknown

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        features: tuple[Any, Any] | None = None,
        at: ArrayLike | None = None,
        resolution: int | None = None,
    ) -> Self:
        """Evaluate a fitted classifier on a plane.

        Arguments:
            estimator: A fitted :class:`punn.PUNNClassifier`.
            X: Rows: they decide how far the plane reaches, and are drawn. Without them it reaches three standard
                deviations of the training rows.
            y: Their labels.
            features: The names or numbers of two features; needed if there are more than two.
            at: The values of all features, of which the other ones are kept; their medians in X if None.
            resolution: Points along a side.
        """
        check_is_fitted(estimator, "network_")
        plane = plane_of(estimator, X, y, features, at, resolution)
        unknown = len(estimator.classes_) - 1 if estimator.rest == "unknown" else None
        trace, probabilities, partition, outlines = values_on(estimator, plane)
        return cls(plane, probabilities, partition, outlines, trace.classes, trace.names, trace.class_of, unknown)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        function: int | str | None = None,
        data: bool = True,
        outlines: bool = True,
        bar: bool = True,
        title: str | None = None,
    ) -> Self:
        """Draw the classes, or one partition function.

        Arguments:
            ax: Where to draw; a new figure if None.
            function: The number or the name of a partition function to draw instead of the classes.
            data: Whether to draw the rows.
            outlines: Whether to draw where the gates of shapes accept a half.
            bar: Whether to draw the color bar of a partition function.
            title: A title instead of the usual one.
        """
        own = ax is None
        ax = axes_of(ax, 6.6, 4.6)
        if function is None:
            self._classes(ax)
        else:
            self._function(ax, self._number(function), bar)
        if outlines:
            self._outlines(ax, None if function is None else self._number(function))
        if data and self.plane.points is not None:
            self._data(ax)
        self._finish(ax, title, function)
        if function is None:
            self._legend(ax, own, data and self.plane.points is not None, outlines and bool(self.outlines))
        self.ax_: Axes = ax
        self.figure_: Figure = ax.get_figure(root=True)  # type: ignore[assignment]
        return self

    def plot_functions(self, most: int = 9) -> Self:
        """Draw the partition functions side by side, the largest ones of many; sets ``axes_`` and ``figure_``."""
        top = np.argsort(-self.partition.mean(axis=(0, 1)), kind="stable")[:most]
        columns = min(len(top), 3)
        lines = -(-len(top) // columns)
        size = (3.4 * columns + 0.8, 2.9 * lines)
        figure, axes = import_matplotlib().subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
        for ax in axes.flat[len(top) :]:
            ax.set_visible(False)
        for ax, number in zip(axes.flat, sorted(top.tolist()), strict=False):
            self._function(ax, number, bar=False)
            self._finish(ax, show(self.names[number], 28), number)
        figure.colorbar(axes[0, 0].collections[0], ax=axes, label="h, share of the mass", shrink=0.8)
        hidden = len(self.names) - len(top)
        if hidden:
            figure.supxlabel(f"{hidden:,} more functions are not drawn", fontsize="small")
        self.axes_, self.figure_ = axes, figure
        return self

    @property
    def colors(self) -> list[Any]:
        """The colour of every class; grey for unknown."""
        colors = class_colors(len(self.classes) - (self.unknown is not None))
        return colors if self.unknown is None else [*colors, QUIET]

    def _classes(self, ax: Axes) -> None:
        from matplotlib.colors import to_rgb

        tints = 1 - 0.6 * (1 - np.array([to_rgb(color) for color in self.colors]))
        image = self.probabilities @ tints
        extent = (*self.plane.first[[0, -1]], *self.plane.second[[0, -1]])
        ax.imshow(image.clip(0, 1), origin="lower", extent=extent, aspect="auto", interpolation="bilinear")
        top = np.partition(self.probabilities, -2, axis=-1)
        winner, lead = self.probabilities.argmax(-1), top[..., -1] - top[..., -2]
        if self.unknown is not None:
            none = (winner == self.unknown).astype(float)
            ax.contourf(self.plane.first, self.plane.second, none, [0.5, 1.5], colors="none", hatches=[".."])
        for c in np.unique(winner):
            # Signed by who wins, the lead is zero on the boundary and smooth across it.
            signed = np.where(winner == c, lead, -lead)
            if signed.min() < 0 < signed.max():
                ax.contour(self.plane.first, self.plane.second, signed, [0.0], colors=INK, linewidths=1.2)

    def _function(self, ax: Axes, number: int, bar: bool = True) -> None:
        h = self.partition[..., number].astype(float)
        mesh = ax.pcolormesh(
            self.plane.first, self.plane.second, h, cmap="cividis", vmin=0, vmax=1, shading="gouraud", rasterized=True
        )
        levels = [level for level in (0.1, 0.5, 0.9) if h.min() < level < h.max()]
        if levels:
            lines = ax.contour(self.plane.first, self.plane.second, h, levels, colors="white", linewidths=0.8)
            ax.clabel(lines, fontsize="x-small", fmt="%.1f")
        if bar:
            ax.figure.colorbar(mesh, ax=ax, label=f"h of {show(self.names[number], 28)}, share of the mass")

    def _outlines(self, ax: Axes, number: int | None) -> None:
        for i, gate in self.outlines.items():
            if number not in (None, i) or not gate.min() < 0.5 < gate.max():
                continue
            color = "white" if number is not None else self.colors[self.class_of[i]]
            for shade, width in ((INK, 2.6), (color, 1.4)):  # a dark rim, to be seen on its own class's colour
                ax.contour(
                    self.plane.first, self.plane.second, gate, [0.5], colors=[shade], linewidths=width, linestyles="--"
                )

    def _data(self, ax: Axes) -> None:
        points, codes = self.plane.points, self.plane.codes
        if points is None:
            return
        step = len(points) // POINTS + 1
        small: dict[str, Any] = {"s": 18, "linewidths": 0.5, "edgecolors": INK}
        if codes is None:
            ax.scatter(*points[::step].T, color="white", **small)
            return
        for c in np.unique(codes).tolist():
            mine = points[::step][codes[::step] == c]
            ax.scatter(*mine.T, color=self.colors[c], marker=MARKERS[c % len(MARKERS)], **small)

    def _finish(self, ax: Axes, title: str | None, function: int | str | None) -> None:
        ax.set(xlabel=show(self.plane.names[0], 40), ylabel=show(self.plane.names[1], 40))
        ax.set(xlim=tuple(self.plane.first[[0, -1]]), ylim=tuple(self.plane.second[[0, -1]]))
        if title is None:
            title = "" if function is not None else "classes and their probabilities"
            fixed = self.plane.fixed
            if fixed:
                held = ", ".join(f"{show(name, 20)} = {value:.3g}" for name, value in list(fixed.items())[:2])
                title = f"slice at {held}" + (f" and {len(fixed) - 2:,} more" if len(fixed) > 2 else "")
        ax.set_title(fill(title, max(20, int(11 * inches(ax)))), fontsize="medium")

    def _legend(self, ax: Axes, own: bool, data: bool, outlines: bool) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles: list[Any] = []
        present = np.unique(self.probabilities.argmax(-1)).tolist()
        for c in present[:ENTRIES]:
            label = show(self.classes[c], 24) if c != self.unknown else "unknown"
            mark = Line2D([], [], color=self.colors[c], marker=MARKERS[c % len(MARKERS)], linestyle="", label=label)
            mark.set_markeredgecolor(INK)
            dots = ".." if c == self.unknown else ""
            area = Patch(facecolor=self.colors[c], hatch=dots, label=label)
            handles.append(mark if data and c != self.unknown else area)
        if len(present) > ENTRIES:
            handles.append(Patch(facecolor="none", label=f"{len(present) - ENTRIES} more classes"))
        handles.append(Line2D([], [], color=INK, linewidth=1.2, label="decision boundary"))
        if outlines:
            handles.append(Line2D([], [], color=INK, linewidth=1.4, linestyle="--", label="a shape's gate is 0.5"))
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
        size = "small" if own else "x-small"
        ax.legend(handles=handles, frameon=not own, fontsize=size, **(place if own else {"loc": "best"}))
        if not data:
            self._name_regions(ax, present)

    def _name_regions(self, ax: Axes, present: list[int]) -> None:
        """Without markers the names stand in the regions, where each is widest."""
        from scipy.ndimage import distance_transform_edt

        winner = self.probabilities.argmax(-1)
        for c in present[:ENTRIES]:
            depth = distance_transform_edt(np.pad(winner == c, 1))[1:-1, 1:-1]
            i, j = np.unravel_index(int(depth.argmax()), depth.shape)
            if depth.max() > 0.04 * len(depth):
                box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.5}
                place = (self.plane.first[j], self.plane.second[i])
                ax.annotate(show(self.classes[c], 16), place, ha="center", va="center", fontsize="small", bbox=box)

    def _number(self, function: int | str) -> int:
        if isinstance(function, str):
            if function in self.names:
                return self.names.index(function)
            raise ValueError(f"expected the name of a partition function, such as {self.names[0]!r}, got {function!r}")
        if not 0 <= function < len(self.names):
            raise ValueError(f"expected a function from 0 to {len(self.names) - 1}, got {function}")
        return function
