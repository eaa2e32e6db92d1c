"""Rows of no class, for models whose rest is "unknown".

Such a model never sees a row of the unknown class, and nothing would keep its last gates from growing over all of
space. A thin background, spread evenly around the data, stands for everything else: where the rows of all classes
are rarer than the background, the rest wins.
"""

from __future__ import annotations

import torch

from punn.training import Rows

__all__ = ["with_background"]

SHARE = 0.1  # all of the background weighs as much as this share of the rows
MARGIN = 0.5  # it reaches beyond the data by this share of their range, on either side
FEWEST, MOST = 500, 20_000


def with_background(rows: Rows, unknown: int) -> Rows:
    """The rows, followed by a background of the class `unknown`.

    It is drawn with a seed of its own: the same rows always get the same background.

    Example:
        >>> rows = with_background(Rows(torch.randn(50, 2), torch.zeros(50).long()), unknown=1)
        >>> len(rows.x), round(float(rows.weight[50:].sum() / rows.weight[:50].sum()), 3)
        (550, 0.1)
    """
    count = min(max(FEWEST, len(rows.x)), MOST)
    low, high = rows.x.amin(0), rows.x.amax(0)
    # A feature that never varies must still have values that are not its own.
    reach = MARGIN * torch.where(high > low, high - low, 2.0)
    even = torch.rand(count, rows.x.shape[1], generator=torch.Generator().manual_seed(0)).to(rows.x)
    x = low - reach + even * (high - low + 2 * reach)
    weight = torch.ones_like(rows.x[:, 0]) if rows.weight is None else rows.weight
    share = (SHARE * weight.sum() / count).expand(count)
    y = torch.full_like(rows.y[:1], unknown).expand(count)
    return Rows(torch.cat([rows.x, x]), torch.cat([rows.y, y]), torch.cat([weight, share]))
