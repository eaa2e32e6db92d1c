"""Pictures as a source of rows: every one once, mirrored every other time, of the side that is asked for."""

from types import SimpleNamespace

import pytest
import torch

from punn.experiments.pictures import Pictures, shifted


def pictures(n=12, side=8, **options):
    x = torch.arange(n * side * side).remainder(251).to(torch.uint8).view(n, 1, side, side)
    return Pictures(x, torch.arange(n), **{"sides": [side, side], **options})


def rows_of(source, **options):
    steps = list(source.steps(5, torch.Generator().manual_seed(0), **options))
    return [piece.rows for step in steps for piece in step]


def test_every_picture_comes_once():
    batches = rows_of(pictures())
    assert [rows.n for rows in batches] == [5, 5, 2]
    assert torch.cat([rows.y for rows in batches]).sort().values.tolist() == list(range(12))


def test_every_other_epoch_mirrors_the_others():
    source = pictures(shift=0)
    as_they_are = source.scaled(source.x)
    turned = []
    for _ in range(2):
        batches = rows_of(source)
        same = {}
        for rows in batches:
            for x, y in zip(rows.x, rows.y.tolist(), strict=True):
                same[y] = torch.equal(x, as_they_are[y])
                assert same[y] or torch.equal(x.flip(-1), as_they_are[y])
        turned.append(same)
    assert all(turned[0][y] != turned[1][y] for y in range(12))
    assert len(set(turned[0].values())) == 2


def test_sides_of_the_epochs():
    source = pictures(sides=[4, 6])
    assert {rows.x.shape[-1] for rows in rows_of(source)} == {4}
    assert {rows.x.shape[-1] for rows in rows_of(source)} == {6}
    source.epoch = 0  # where a fit goes on
    assert {rows.x.shape[-1] for rows in rows_of(source)} == {4}


def test_channels_are_scaled():
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (50, 3, 8, 8), generator=generator, dtype=torch.uint8)
    scaled = Pictures(x, torch.zeros(50, dtype=torch.long), [8]).scaled(x)
    torch.testing.assert_close(scaled.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.std((0, 2, 3)), torch.ones(3), atol=1e-3, rtol=0)


@pytest.mark.parametrize(("down", "right"), [(0, 0), (1, 3), (2, 2), (4, 1)])
def test_shift_against_a_plain_crop(down, right):
    x = torch.randn(2, 3, 6, 6)
    padded = torch.nn.functional.pad(x, [2] * 4, mode="reflect")
    moved = torch.tensor([[down, 2], [right, 2]])
    expected = torch.stack([padded[0, :, down : down + 6, right : right + 6], x[1]])
    assert torch.equal(shifted(x, moved, 2), expected)


def test_processes_share_a_batch():
    alone = rows_of(pictures())
    parts = [rows_of(pictures(), team=SimpleNamespace(rank=rank, size=2)) for rank in range(2)]
    for whole, first, second in zip(alone, *parts, strict=True):
        assert torch.equal(torch.cat([first.x, second.x]), whole.x)
