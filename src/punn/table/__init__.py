"""Tables in, columns to numbers.

    frame = read_table("penguins.csv")
    labels, frame, notes = encode_target(frame, "species")
    columns = Columns.fit(frame, target="species")
    X = columns.transform(frame)

`files` reads a file, `target` takes the labels from it, `columns` turns what is left into numbers, for which
`column` decides what every column is and `cells` reads its values. `Columns` is plain data, so that a model keeps
it and takes the same table again. What is larger than memory is read by `pieces`, and looked over by `survey`.
"""

from punn.table.cells import TableError, TableWarning
from punn.table.column import Column
from punn.table.columns import Columns
from punn.table.files import read_table
from punn.table.pieces import Pieces
from punn.table.target import Target, encode_target

__all__ = ["Column", "Columns", "Pieces", "TableError", "TableWarning", "Target", "encode_target", "read_table"]
