import numpy as np
import openvino as ov
import openvino.opset13 as ops
import pytest
from numpy.typing import NDArray
from tests.support.array_files import ArrayFiles

from leeway.backends.openvino.weight_reader import MatrixRequest, encoded_matrices
from leeway.backends.openvino.weights import (
    PRODUCT_LEN,
    WeightForm,
    encode,
    group_len_for,
    int4_codes,
    int8_codes,
    pieces,
    weight_form,
    weight_node,
)
from leeway.core.errors import ConfigError, ModelError


def random_matrix(num_rows: int, num_columns: int, seed: int = 0) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((num_rows, num_columns)).astype(np.float32)


def value_of(node: ov.Node) -> NDArray[np.float32]:
    """What the CPU makes of a constant subgraph."""
    compiled = ov.Core().compile_model(
        ov.Model([ops.result(node)], []), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    return compiled([])[0]


@pytest.mark.parametrize("group_len", [64, 32, 192])
def test_int8_is_within_half_a_step(group_len: int) -> None:
    matrix = random_matrix(5, 192)
    codes, scales = int8_codes(matrix, group_len)
    decoded = codes * scales.astype(np.float32)
    error = np.abs(decoded - matrix.reshape(decoded.shape))
    assert (error <= scales.astype(np.float32) * 0.5001).all()
    assert np.abs(codes).max() <= 127


def test_int8_of_many_rows_equals_int8_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = random_matrix(2100, 32)
    codes, scales = int8_codes(matrix, 32)
    for row in (0, 1023, 1024, 2099):
        one_codes, one_scale = int8_codes(matrix[row : row + 1], 32)
        np.testing.assert_array_equal(codes[row], one_codes[0])
        np.testing.assert_array_equal(scales[row], one_scale[0])


def test_int4_keeps_what_four_bits_can_hold() -> None:
    rng = np.random.default_rng(1)
    steps = rng.choice([0.25, 0.5, 2.0], (6, 4, 1))
    codes = rng.integers(0, 16, (6, 4, 32))
    codes[..., 0], codes[..., 1] = 0, 15
    zero_points = rng.integers(1, 15, (6, 4, 1))
    matrix = ((codes - zero_points) * steps).reshape(6, 128).astype(np.float32)
    found, zeros, scales = int4_codes(matrix, 32)
    decoded = (found.astype(np.float32) - zeros) * scales
    np.testing.assert_array_equal(decoded.reshape(6, 128), matrix)


def test_int4_is_at_most_about_one_step_off() -> None:
    matrix = random_matrix(1030, 96)
    codes, zeros, scales = int4_codes(matrix, 32)
    decoded = (codes.astype(np.float32) - zeros) * scales.astype(np.float32)
    groups = matrix.reshape(decoded.shape)
    spread = groups.max(axis=-1) - groups.min(axis=-1)
    error = np.sqrt(np.mean(np.square(decoded - groups), axis=-1))
    assert codes.max() <= 15 and zeros.max() <= 15
    assert (error <= 0.5 * spread / 15).all()


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_zero_matrix_stays_zero(kind: str) -> None:
    decoded = value_of(weight_node(encode(np.zeros((3, 64), np.float32), kind)))
    np.testing.assert_array_equal(decoded, 0)


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [("f32", 0.0), ("f16", 2**-10), ("bf16", 2**-7), ("int8", 2e-2), ("int4", 0.3)],
)
def test_graph_decodes_what_was_encoded(kind: str, tolerance: float) -> None:
    matrix = random_matrix(7, 64)
    decoded = value_of(weight_node(encode(matrix, kind)))
    assert decoded.shape == matrix.shape
    assert np.abs(decoded - matrix).max() <= tolerance * 2


def test_bf16_rounds_to_nearest_even() -> None:
    # 1 + 2**-8 and 1 + 3 * 2**-8 lie half-way between neighbours.
    matrix = np.array([[1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-7 - 2**-9]], np.float32)
    decoded = value_of(weight_node(encode(matrix, "bf16")))
    np.testing.assert_array_equal(decoded, [[1, 1 + 2**-6, -1 - 2**-7]])


def test_rows_without_a_group_are_coded_whole() -> None:
    assert group_len_for(192, (64, 32)) == 64
    assert group_len_for(96, (64, 32)) == 32
    assert group_len_for(80, (64, 32)) == 80
    encoded = encode(random_matrix(3, 80), "int4")
    assert encoded.kind == "int8"
    assert encoded.codes.shape == (3, 1, 80)


@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize(
    ("num_columns", "num_pieces"),
    [(512, 1), (576, 2), (608, 2), (1536, 3), (4864, 10), (520, 1)],  # 520: one scale a row
)
def test_pieces_of_a_wide_matrix_join_to_the_whole(
    kind: str, num_columns: int, num_pieces: int
) -> None:
    encoded = encode(random_matrix(5, num_columns), kind)
    found = pieces(encoded, 512)
    widths = [part.shape[1] for part in found]
    assert len(found) == num_pieces
    assert max(widths) <= 512 or num_pieces == 1
    assert max(widths) - min(widths) <= 64
    joined = np.concatenate([value_of(weight_node(part)) for part in found], axis=1)
    np.testing.assert_array_equal(joined, value_of(weight_node(encoded)))
    assert pieces(encoded, 0) == [encoded]


def test_floats_are_never_cut() -> None:
    encoded = encode(random_matrix(5, 1024), "f32")
    assert pieces(encoded, 512) == [encoded]


def test_forms_suit_the_cpu() -> None:
    def form(name: str, *, has_bf16: bool = False, has_vnni: bool = False) -> WeightForm:
        return weight_form(name, has_bf16=has_bf16, has_vnni=has_vnni)

    assert form("int8", has_vnni=True) == WeightForm("int8", "int8", 0)
    assert form("int8") == WeightForm("int8", "int8", PRODUCT_LEN)
    assert form("int4", has_bf16=True, has_vnni=True) == WeightForm("int4", "int8", 0)
    assert form("int4") == WeightForm("int4", "int8", PRODUCT_LEN)
    for has_vnni in (False, True):
        assert form("16bit", has_bf16=True, has_vnni=has_vnni) == WeightForm("bf16", "bf16")
        assert form("16bit", has_vnni=has_vnni) == WeightForm("f16", "f16")
        assert form("f32", has_bf16=True, has_vnni=has_vnni) == WeightForm("f32", "f32")


def test_unknown_form_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'int5'; did you mean 'int8'\?.*int8, int4, 16bit"):
        weight_form("int5", has_bf16=True, has_vnni=True)


@pytest.mark.parametrize("num_threads", [1, 3])
def test_matrices_come_in_order_and_stacked(num_threads: int) -> None:
    files = ArrayFiles(num_layers=12)
    requests = [
        MatrixRequest((f"layers.{n}.gate", f"layers.{n}.up"), "f32") for n in reversed(range(12))
    ]
    encoded = list(encoded_matrices(files, requests, num_threads=num_threads))
    for request, matrix in zip(requests, encoded, strict=True):
        stacked = np.concatenate([files.tensor(name) for name in request.names])
        np.testing.assert_array_equal(matrix.codes, stacked)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weight_that_is_not_finite_is_named(value: float) -> None:
    broken = random_matrix(64, 96)
    broken[3, 5] = value
    files = ArrayFiles(changes={"layers.1.down": broken})
    requests = [MatrixRequest((f"layers.{n}.down",), "int8") for n in range(2)]
    with pytest.raises(ModelError, match=r"'layers\.1\.down' holds a number that is not finite"):
        list(encoded_matrices(files, requests, num_threads=2))
