"""Pictures in scikit-learn's Display style: compute, keep plain arrays, draw.

``from_estimator`` and ``from_trace`` compute; the attributes hold what was computed; ``plot(ax=None)`` draws it,
sets ``ax_`` and ``figure_`` and returns the display. Colours are those of Okabe and Ito, which the color-blind can
tell apart; hatches, markers and lightness say the same in grey.
"""

from punn.displays.blame import BlameDisplay
from punn.displays.ledger import LedgerDisplay
from punn.displays.partition import PartitionDisplay
from punn.displays.trace import TraceDisplay

__all__ = ["BlameDisplay", "LedgerDisplay", "PartitionDisplay", "TraceDisplay"]
