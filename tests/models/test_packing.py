"""Where packed completions lie: every token that counts once, each replica where it would be alone."""

from __future__ import annotations

import pytest
import torch

from rlexp.models.packed_decoding import HIGHEST, LOWEST, heights, lay_out, room_for
from rlexp.models.packing import LARGEST, NARROWEST, completion_lengths, pack, stack_sizes, widths

END = 9


def lengths_of(replicas: int, prompts: int, group: int, time: int, seed: int = 0) -> torch.Tensor:
    """Numbers of tokens of all sizes, as many short as long ones; the last replica has none at all."""
    random = torch.Generator().manual_seed(seed)
    drawn = torch.rand(replicas, prompts, group, generator=random)
    lengths = (torch.tensor(float(time + 1)) ** drawn).long().clamp(max=time)
    lengths[..., 0] = lengths[..., 0] - 1
    lengths[-1] = 0
    return lengths


@pytest.mark.parametrize("time", [1, 7, 8, 9, 31, 130])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 4), (2, 16, 8)])
def test_every_token_that_is_read_has_one_row_of_its_own(time, shape):
    read = lengths_of(*shape, time)
    packing, group = pack(read, time), shape[-1]
    rows = packing.results.flatten().tolist()
    total, seen = len(packing.tokens), set()
    for completion, length in enumerate(read.flatten().tolist()):
        for t in range(time):
            row = rows[completion * time + t]
            if t >= length:
                assert row == total
                continue
            seen.add(row)
            assert packing.tokens[row] == completion * (time + 1) + t
            assert packing.positions[row] == t
            assert packing.prompts[row] == completion // group
            assert packing.owners[row] == completion // (group * shape[1])
    assert len(seen) == read.sum()


def test_stacks_are_the_rows_of_slots_of_one_width():
    read = lengths_of(3, 16, 8, 60)
    packing, before = pack(read, 60), 0
    for rows, width, owners, prompts in packing.stacks:
        assert rows.start == before and (rows.stop - rows.start) == len(prompts) * width
        assert len(prompts) % len(owners) == 0 and len(owners) & (len(owners) - 1) == 0
        tiles = packing.owners[rows].view(len(owners), -1)
        assert tiles.shape[1] <= LARGEST and (tiles == owners.unsqueeze(-1)).all()
        assert torch.equal(packing.prompts[rows].view(-1, width), prompts.unsqueeze(-1).expand(-1, width))
        before = rows.stop
    assert before == len(packing.tokens)


def test_completions_take_the_narrowest_slot_that_holds_them():
    packing = pack(torch.tensor([[[1, 8, 9, 12, 13, 24, 25, 96, 97]]]), 100)
    assert widths(100) == [8, 12, 16, 24, 32, 48, 64, 96, 128]
    wide = {width: len(prompts) for _, width, _, prompts in packing.stacks}
    assert list(wide) == [8, 12, 16, 24, 32, 96, 128]  # none has 33 to 64
    assert wide[8] * 8 == 64 and wide[128] == 1


def test_a_replica_lies_as_it_does_alone():
    read = lengths_of(4, 6, 5, 50)
    together = pack(read, 50)
    for replica in range(4):
        alone = pack(read[replica : replica + 1], 50)
        mine = together.owners == replica
        first = replica * 30 * 51
        assert torch.equal(together.tokens[mine] - first, alone.tokens)
        assert tiles_of(together, replica) == tiles_of(alone, 0)


def tiles_of(packing, replica: int) -> list[tuple[int, int]]:
    """Width and size of each tile of a replica."""
    found = []
    for rows, width, owners, _ in packing.stacks:
        found += [(width, (rows.stop - rows.start) // len(owners))] * int((owners == replica).sum())
    return found


def test_lengths_count_the_first_end():
    completions = torch.tensor([[[[9, 1, 9], [1, 2, 9], [1, 2, 3], [1, 9, 9]]]])
    assert completion_lengths(completions, END).tolist() == [[[1, 3, 3, 2]]]


@pytest.mark.parametrize("rows", [8, 48, 64, 5000])
def test_stack_sizes_are_few_and_add_up(rows):
    for number in range(300):
        sizes = [*stack_sizes(number, rows)]
        assert sum(sizes) == number and sizes == sorted(sizes, reverse=True)
        assert all(size & (size - 1) == 0 and (size == 1 or size * rows <= LARGEST) for size in sizes)


# ---- decoding


def test_tiles_of_rows_hold_them_and_leave_few_empty():
    for number in range(700):
        found = [*heights(number)]
        assert all(height & (height - 1) == 0 and LOWEST <= height <= HIGHEST for height in found)
        assert number <= sum(found) < max(number * 1.2, number + LOWEST)
        assert len(found) <= number // HIGHEST + 3


def test_rows_are_laid_out_by_replica():
    counts = torch.tensor([3, 0, 140, 60, 61])
    of_rows = torch.arange(5).repeat_interleave(counts)
    rows = lay_out(of_rows, 5)
    assert torch.equal(rows.sources[rows.real].sort().values, torch.arange(int(counts.sum())))
    before = 0
    for here, height, owners in rows.stacks:
        assert here.start == before and here.stop - before == height * len(owners)
        assert torch.equal(of_rows[rows.sources[here]], owners.repeat_interleave(height))
        before = here.stop
    assert before == len(rows.sources)
    assert [height for _, height, _ in rows.stacks] == sorted((height for _, height, _ in rows.stacks), reverse=True)


@pytest.mark.parametrize("most", [3, 16, 127, 300])
def test_rooms_grow_to_the_last_token(most):
    rooms = [0]
    while rooms[-1] < most:
        rooms.append(room_for(rooms[-1], most))
        assert rooms[-2] < rooms[-1] <= rooms[-2] + 16
    assert rooms[-1] == most


def test_the_narrowest_slot_is_one_of_all_widths():
    assert widths(1) == [NARROWEST]
