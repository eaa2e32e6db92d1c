"""Progress reads well on a terminal and in a file."""

import io

from punn.progress import Progress
from punn.training import Step


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(stream, epochs=100):
    progress = Progress(stream)
    for epoch in range(1, epochs + 1):
        progress(Step(epoch, epochs, 1 / epoch, 0.987))
    progress.close()
    return stream.getvalue()


def test_a_file_gets_ten_plain_lines():
    lines = run(io.StringIO()).splitlines()
    assert len(lines) == 10
    assert lines[-1] == "epoch 100/100  loss 0.0100  accuracy 98.7%  0:00 left"


def test_a_terminal_gets_one_line_that_is_drawn_again():
    text = run(Terminal())
    assert text.count("\n") == 1
    assert text.count("\r") == 100
    assert "━" * 20 in text
