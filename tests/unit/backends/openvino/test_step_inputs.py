import numpy as np
import openvino as ov

from leeway.backends.base import SequenceInput
from leeway.backends.openvino.decoder_layers import BLOCK_LEN, INPUT_NAMES
from leeway.backends.openvino.step_inputs import StepInputs
from leeway.kvcache import BlockTable

PAD_BLOCK = 99


class FakeRequest:
    """Remembers the tensors that were set."""

    def __init__(self) -> None:
        self.tensors: dict[str, ov.Tensor] = {}

    def set_tensor(self, name: str, tensor: ov.Tensor) -> None:
        self.tensors[name] = tensor

    def values(self) -> dict[str, list[int] | int]:
        return {name: self.tensors[name].data.tolist() for name in INPUT_NAMES}


def table(*block_ids: int) -> BlockTable:
    made = BlockTable(max(len(block_ids), 1))
    made.ids[: len(block_ids)] = block_ids
    made.num_blocks = len(block_ids)
    return made


def test_rows_of_two_sequences() -> None:
    request = FakeRequest()
    inputs = StepInputs(request, pad_blocks=True, pad_block=PAD_BLOCK)
    real_rows = inputs.fill(
        [SequenceInput(0, [5, 6, 7], 1), SequenceInput(1, [8, 9], 2)],
        [table(4, 2), table(7)],
        [40, 0],
    )
    assert real_rows == slice(0, 5)
    assert request.values() == {
        "input_ids": [5, 6, 7, 8, 9],
        "position_ids": [40, 41, 42, 0, 1],
        "logit_rows": [2, 3, 4],
        "past_lens": [40, 0],
        "subsequence_begins": [0, 3, 5],
        "block_indices": [4, 2, 7],
        "block_indices_begins": [0, 2, 3],
        "max_context_len": 43,
    }


def test_single_rows_are_padded_behind_the_sequence() -> None:
    request = FakeRequest()
    inputs = StepInputs(request, pad_blocks=True, pad_block=PAD_BLOCK)
    real_rows = inputs.fill(
        [SequenceInput(0, [5], 1), SequenceInput(1, [8], 0), SequenceInput(2, [1, 2], 1)],
        [table(4), table(7, 3), table(6)],
        [10, 32, 0],
    )
    assert real_rows == [0, 2, 4, 5]
    values = request.values()
    assert values["input_ids"] == [5, 5, 8, 8, 1, 2]
    assert values["position_ids"] == [10, 11, 32, 33, 0, 1]
    assert values["logit_rows"] == [0, 5, 5]  # the last is padding, as many as the block has
    assert values["subsequence_begins"] == [0, 2, 4, 6]
    assert values["block_indices"] == [4, 7, 3, 6]


def test_padding_beyond_the_last_block_goes_to_the_spare_one() -> None:
    request = FakeRequest()
    inputs = StepInputs(request, pad_blocks=True, pad_block=PAD_BLOCK)
    real_rows = inputs.fill([SequenceInput(0, [5], 1)], [table(4)], [BLOCK_LEN - 1])
    assert real_rows == slice(0, 1)
    values = request.values()
    assert values["block_indices"] == [4, PAD_BLOCK]
    assert values["block_indices_begins"] == [0, 2]
    assert values["logit_rows"] == [0, 1]  # the second is padding
    assert values["max_context_len"] == BLOCK_LEN + 1


def test_a_narrower_block_keeps_the_shape_of_the_last_forward() -> None:
    request = FakeRequest()
    inputs = StepInputs(request, pad_blocks=True, pad_block=PAD_BLOCK)
    shapes = []
    for ids in ([5, 6, 7, 8], [9], [3, 4]):
        real_rows = inputs.fill([SequenceInput(0, ids, len(ids))], [table(4)], [3])
        assert real_rows == slice(0, len(ids))
        values = request.values()
        assert values["input_ids"][: len(ids)] == ids
        assert values["logit_rows"][: len(ids)] == list(range(len(ids)))
        shapes.append((len(values["input_ids"]), len(values["logit_rows"])))
    assert shapes == [(4, 4)] * 3


def test_fast_shape_never_pads() -> None:
    request = FakeRequest()
    inputs = StepInputs(request, pad_blocks=False, pad_block=PAD_BLOCK)
    real_rows = inputs.fill([SequenceInput(0, [5], 1)], [table(4)], [BLOCK_LEN - 1])
    assert real_rows == slice(0, 1)
    values = request.values()
    assert values["input_ids"] == [5]
    assert values["logit_rows"] == [0]
    assert values["block_indices"] == [4]


def test_a_forward_without_logits_still_has_a_row() -> None:
    request = FakeRequest()
    inputs = StepInputs(request, pad_blocks=False, pad_block=PAD_BLOCK)
    inputs.fill([SequenceInput(0, [5, 6], 0)], [table(4)], [0])
    assert request.values()["logit_rows"] == [1]


def test_buffers_grow_and_shrink() -> None:
    request = FakeRequest()
    inputs = StepInputs(request, pad_blocks=True, pad_block=PAD_BLOCK)
    for length in (3, 700, 2, 1500):
        block_ids = range(-(-length // BLOCK_LEN))
        ids = np.arange(length).tolist()
        inputs.fill([SequenceInput(0, ids, 1)], [table(*block_ids)], [0])
        values = request.values()
        assert values["input_ids"] == ids
        assert values["block_indices"] == list(block_ids)
