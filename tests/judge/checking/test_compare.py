"""Each rule of `compare` with a wrong result that it must catch and an honest one that passes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from harness.judge.checking import compare as module
from harness.judge.checking import elements, error_model
from harness.judge.checking.compare import compare
from harness.judge.checking.error_model import Tolerance
from harness.records import Check

NAN, INF = math.nan, math.inf
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(7)


def one(actual: Any, expected: Any, **options: Any) -> Check:
    (check,) = compare(actual, expected, root="output", **options)
    return check


def passes(actual: Any, expected: Any, **options: Any) -> bool:
    return all(c.passed for c in compare(actual, expected, root="output", **options))


def problem(actual: Any, expected: Any, **options: Any) -> str:
    """The one problem among the checks; it is one line and names its path."""
    (failed,) = [c for c in compare(actual, expected, root="output", **options) if not c.passed]
    assert failed.problem is not None
    assert "\n" not in failed.problem
    assert failed.problem.startswith(failed.path)
    return failed.problem


# --- structure


def test_a_tree_gives_one_named_check_per_leaf() -> None:
    tree = (torch.ones(2), [None, True, 3, 0.5], {"a": torch.zeros(1)})
    checks = compare(tree, tree, root="output")
    assert [c.path for c in checks] == [
        "output[0]",
        "output[1][0]",
        "output[1][1]",
        "output[1][2]",
        "output[1][3]",
        "output[2]['a']",
    ]
    assert all(c.passed for c in checks)


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        (torch.ones(2), (torch.ones(2),), "float32 tensor of shape [2], but the reference gives"),
        ([1], (1,), "type list, but the reference gives type tuple"),
        ((1, 2), (1,), "2 elements, but the reference gives 1"),
        ({"a": 1, "c": 1}, {"a": 1, "b": 1}, "missing ['b'], extra ['c']"),
        ((None,), (torch.ones(2),), "output[0]: None, but the reference gives a float32 tensor"),
        ((torch.ones(2),), (None,), "but the reference gives None"),
        (1, True, "type int, but the reference gives type bool"),
        (1, 1.0, "type int, but the reference gives type float"),
        (torch.tensor(1.0), 1.0, "but the reference gives type float"),
    ],
)
def test_another_structure_fails_at_its_path(actual: Any, expected: Any, text: str) -> None:
    assert text in problem(actual, expected)


def test_one_branch_out_of_shape_leaves_the_others_judged() -> None:
    checks = compare([(1,), 2, 5], [(1, 1), 2, 4], root="grad")
    assert [(c.path, c.passed) for c in checks] == [
        ("grad[0]", False),
        ("grad[1]", True),
        ("grad[2]", False),
    ]


def test_numbers() -> None:
    assert passes(2**80, 2**80)
    assert not passes(2**80 + 1, 2**80)
    assert passes(0.1 + 1e-9, 0.1)
    assert not passes(1e-7, 2e-7)
    assert not passes(0.0, 1e-12)
    assert passes((NAN, INF), (NAN, INF))
    assert not passes(-INF, INF)
    assert not passes(True, False)


@pytest.mark.parametrize("expected", [torch.ones(2, 2).to_sparse(), "text", object()])
def test_a_reference_that_cannot_be_judged_is_not_charged_to_the_solution(expected: Any) -> None:
    with pytest.raises(ValueError, match="the reference gives"):
        compare(torch.ones(2, 2), expected, root="output")


# --- attributes


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        (torch.ones(1), torch.tensor(1.0), "shape [1], but the reference gives []"),
        (torch.tensor(1.0), torch.ones(4), "shape [], but the reference gives [4]"),
        (torch.ones(4, 1), torch.ones(4, 4), "shape [4, 1]"),
        (torch.ones(3).half(), torch.ones(3), "dtype float16, but the reference gives float32"),
        (torch.ones(3).double(), torch.ones(3), "dtype float64"),
        (torch.ones(3).int(), torch.ones(3).long(), "dtype int32, but the reference gives int64"),
        (torch.ones(3).bool(), torch.ones(3), "dtype bool"),
        (torch.ones(3, device="meta"), torch.ones(3), "on meta, but the reference's is on cpu"),
        (torch.ones(2, 2).to_sparse(), torch.ones(2, 2), "layout sparse_coo"),
    ],
)
def test_attributes_must_match(actual: Any, expected: Any, text: str) -> None:
    assert text in problem(actual, expected)


def test_strides_and_expanded_views_do_not_matter() -> None:
    x = torch.randn(5, 7)
    assert passes(x.mT.contiguous(), x.mT)
    assert passes(torch.full((4, 3), 2.0), torch.tensor(2.0).expand(4, 3))
    assert passes(x[:, ::2].clone(), x[:, ::2])


def test_right_values_in_another_shape_are_told() -> None:
    x = torch.randn(6, 4)
    assert "right values, only the shape differs" in problem(x.sum().reshape(1), x.sum())
    assert "right values, but transposed" in problem(x.mT.contiguous(), x)
    assert "right values" not in problem(torch.randn(1), x.sum())


def test_empty_tensors_compare_by_shape() -> None:
    assert passes(torch.empty(0, 3), torch.empty(0, 3))
    assert "shape [3, 0]" in problem(torch.empty(3, 0), torch.empty(0, 3))


# --- values: magnitude


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_zeros_never_pass_for_a_small_tensor(dtype: torch.dtype, scale: float) -> None:
    """A softmax over 393216 columns has values of 2.5e-6, under the usual atol of 1e-5."""
    small = (torch.rand(1000) * scale).to(dtype)
    softmax = torch.randn(2, 393216).softmax(-1).to(dtype)
    for expected in (small, softmax):
        oracle = expected.double()
        assert passes(expected.clone(), expected, oracle=oracle)
        assert "all zeros" in problem(torch.zeros_like(expected), expected)
        assert not passes(torch.zeros_like(expected), expected, oracle=oracle)


def test_zeros_fail_in_a_part_too() -> None:
    p = torch.randn(64, 4096).softmax(-1)
    p[:8] = torch.zeros(8, 4096).index_fill_(1, torch.tensor([5]), 1.0)  # peaked rows
    wrong = p.clone()
    wrong[60] = 0
    assert not passes(wrong, p)


def test_tiny_elements_of_a_mean_zero_gradient_pass_at_float32_error() -> None:
    x, w = torch.randn(256, 2048), torch.randn(2048, 256)
    expected = x @ w
    expected_oracle = x.double() @ w.double()
    other = sum(a @ b for a, b in zip(x.split(16, 1), w.split(16, 0), strict=True))
    smallest = expected.abs().argmin()
    assert expected.flatten()[smallest].abs() < 1e-3 * expected.std()
    assert passes(other, expected, oracle=expected_oracle)
    assert passes(other, expected)


def test_zeros_in_the_reference_do_not_shrink_the_magnitude() -> None:
    """One row of 10,000 has a gradient; its near-zero elements carry that row's error."""
    expected = torch.zeros(10_000, 16)
    expected[77] = torch.randn(16)
    expected[77, 3] = 1e-7
    actual = expected.clone()
    actual[77] += 2e-6 * torch.randn(16)
    assert passes(actual, expected)
    assert not passes(torch.zeros_like(expected), expected)


def test_a_few_large_elements_do_not_hide_the_others() -> None:
    expected = torch.randn(1 << 16)
    expected[5] = 1e3
    actual = expected.clone()
    actual[1000:2000] *= 1.1
    assert not passes(actual, expected)


def test_an_all_zero_reference_wants_zeros() -> None:
    zeros = torch.zeros(10)
    assert passes(zeros.clone(), zeros, oracle=zeros.double())
    assert not passes(torch.full((10,), 1e-30), zeros)


def test_a_float64_result_of_float32_work_may_err_as_eager_does() -> None:
    true = torch.rand(1000, dtype=torch.float64) + 1
    eager = true.float().double()
    other = true * (1 + 3e-8 * torch.randn(1000, dtype=torch.float64))
    assert passes(other, eager, oracle=true)
    assert not passes(other, eager)
    assert not passes(true * (1 + 1e-4), eager, oracle=true)


def test_float64_does_not_accept_float32() -> None:
    x = torch.randn(1000, dtype=torch.float64)
    assert passes(x * (1 + 1e-12), x, oracle=x)
    assert "float32 number" in problem(x.float().double(), x)


def test_huge_float64_values_do_not_widen_the_tolerance() -> None:
    x = torch.full((4,), 1e200, dtype=torch.float64)
    assert passes(x.clone(), x)
    assert not passes(x * 1.01, x)


def test_own_tolerances_count() -> None:
    loose = {torch.float32: Tolerance(rtol=0.1, atol_scale=0.0)}
    x = torch.ones(3)
    assert passes(x * 1.05, x, tolerances=loose)
    assert not passes(x * 1.2, x, tolerances=loose)
    with pytest.raises(ValueError, match="no tolerance for"):
        compare(x.half(), x.half(), root="output", tolerances=loose)


# --- values: not finite


def test_positions_of_nan_and_infinities_must_match() -> None:
    expected = torch.tensor([1.0, NAN, INF, -INF])
    assert passes(expected.clone(), expected)
    for wrong in ([1.0, 2, INF, -INF], [1.0, NAN, -INF, -INF], [1.0, NAN, 3e38, -INF]):
        assert not passes(torch.tensor(wrong), expected)


def test_nan_is_no_wildcard() -> None:
    expected = torch.randn(100)
    assert "NaN in 100 where the reference has none" in problem(
        torch.full_like(expected, NAN), expected
    )
    actual = expected.clone()
    actual[41] = NAN
    text = problem(actual, expected)
    assert "1 of 100 elements wrong" in text
    assert "first at [41]: nan for" in text


def test_an_infinite_reference_does_not_excuse_the_others() -> None:
    expected = torch.randn(100)
    expected[0] = INF
    actual = expected.clone()
    assert passes(actual, expected)
    actual[50] += 1
    assert not passes(actual, expected)
    assert "infinite in 1 where the reference is finite" in problem(
        expected, expected.nan_to_num(posinf=1.0)
    )
    assert "finite in 1 where the reference is not" in problem(expected.clamp(max=9), expected)


# --- values: exact kinds, complex


def test_integers_and_booleans_are_exact() -> None:
    big = torch.tensor([2**53, -(2**62)])
    assert passes(big.clone(), big)
    text = problem(big + torch.tensor([1, 0]), big)
    assert "9007199254740993 for 9007199254740992" in text
    flags = torch.tensor([True, False])
    assert passes(flags.clone(), flags)
    assert "True for False" in problem(torch.tensor([True, True]), flags)
    assert not passes(torch.tensor([255], dtype=torch.uint8), torch.tensor([254]).byte())
    assert not passes(torch.tensor([65535]).to(torch.uint16), torch.tensor([1]).to(torch.uint16))


def test_complex_numbers_compare_as_pairs() -> None:
    z = torch.randn(20, dtype=torch.complex64)
    assert passes(z * (1 + 1e-7), z, oracle=z.to(torch.complex128))
    assert passes(z.conj().resolve_conj(), z.conj())
    assert not passes(z.conj().resolve_conj(), z)


# --- chunks


@pytest.mark.parametrize("at", [0, 255, 256, 511, 999])
def test_a_fault_at_a_chunk_boundary_is_found(at: int) -> None:
    x = torch.randn(1000)
    wrong = x.clone()
    wrong[at] += 1
    text = problem(wrong, x, chunk_elements=256)
    assert f"1 of 1000 elements wrong (0.1%), first at [{at}]" in text


def test_chunking_does_not_change_the_figures() -> None:
    x = torch.randn(37, 91).mT
    oracle = x.double() + 1e-8 * torch.randn(91, 37)
    actual = (oracle + 1e-7 * torch.randn(91, 37)).float()
    whole, parts = (one(actual, x, oracle=oracle, chunk_elements=c) for c in (1 << 20, 50))
    assert whole.max_abs_error == parts.max_abs_error
    assert whole.error_ratio == pytest.approx(parts.error_ratio)


def test_nothing_is_written_to() -> None:
    given = [torch.randn(50), torch.randn(50), torch.randn(50, dtype=torch.float64)]
    copies = [t.clone() for t in given]
    compare(given[0], given[1], root="output", oracle=given[2])
    assert all(torch.equal(a, b) for a, b in zip(given, copies, strict=True))


def test_the_verdict_is_assert_close(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(torch.testing, "assert_close", lambda *_, **k: seen.append(k))
    assert passes(torch.zeros(10), torch.ones(10), chunk_elements=4)
    assert len(seen) == 3
    assert seen[0] == {"rtol": 1e-4, "atol": pytest.approx(1e-3), "equal_nan": True}


def test_out_of_memory_inside_assert_close_stays_out_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrapped(*_: object, **__: object) -> None:
        raise RuntimeError("please file an issue") from torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(torch.testing, "assert_close", wrapped)
    with pytest.raises(torch.OutOfMemoryError):
        compare(torch.zeros(3), torch.ones(3), root="output")


SPECIAL = {
    "as it is": lambda a, e: None,
    "equal NaN": lambda a, e: (a[0:1].fill_(NAN), e[0:1].fill_(NAN)),
    "equal infinities": lambda a, e: (a[0:1].fill_(INF), e[0:1].fill_(INF)),
    "opposite infinities": lambda a, e: (a[0:1].fill_(INF), e[0:1].fill_(-INF)),
    "NaN for a number": lambda a, e: a[0:1].fill_(NAN),
    "infinity for a number": lambda a, e: a[0:1].fill_(INF),
    "a number for NaN": lambda a, e: e[0:1].fill_(NAN),
    "the largest number": lambda a, e: (a[0:1].fill_(torch.finfo(a.dtype).max), e[0:1].zero_()),
    "zeros": lambda a, e: (a.zero_(), e.zero_()),
}


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("where", [3, 83])  # in the first of several chunks, and in a later one
@pytest.mark.parametrize("off", [0.0, 0.5, 0.999, 1.001, 30.0])
@pytest.mark.parametrize("wide", ["no oracle", "an oracle", "an oracle far off", "as they are"])
def test_the_short_way_through_a_comparison_says_what_the_long_one_says(
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
    off: float,
    special: str,
    where: int,
    wide: str,
) -> None:
    expected = torch.randn(100, dtype=torch.float64)
    oracle = None if wide == "no oracle" else expected.clone()
    expected[7] = 0.0  # where atol alone decides
    actual = expected.clone()
    actual[7] += off * module.TOLERANCES[dtype].atol_scale * float(expected.square().mean().sqrt())
    actual, expected = actual.to(dtype), expected.to(dtype)
    SPECIAL[special](actual[where:], expected[where:])
    if oracle is not None and wide != "as they are":  # which are finite where eager is not
        oracle = torch.where(expected.isfinite(), oracle, expected.double())
    if oracle is not None and wide == "an oracle far off":
        oracle[11] *= 1.5
    short = one(actual, expected, oracle=oracle, chunk_elements=16)
    monkeypatch.setattr(error_model, "_differences", lambda *_: (NAN, NAN, NAN))
    monkeypatch.setattr(error_model, "_sizes", _always_masked(error_model._sizes))
    long = one(actual, expected, oracle=oracle, chunk_elements=16)
    assert short.problem == long.problem
    assert (short.error_ratio is None) is (long.error_ratio is None)
    ratio = () if short.error_ratio is None else ("error_ratio",)
    for name in ("max_abs_error", "max_rel_error", *ratio):
        assert getattr(short, name) == pytest.approx(getattr(long, name), rel=1e-5), name


def _always_masked(sizes: Any) -> Any:
    return lambda leaf, *_: sizes(leaf, elements.finite, elements.difference)


# --- error model


def products(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    a, b = torch.randn(64, 512).to(dtype), torch.randn(512, 64).to(dtype)
    return a, b, a @ b, a.double() @ b.double()


def tf32(x: torch.Tensor) -> torch.Tensor:
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def test_another_summation_order_passes_and_lower_precision_fails() -> None:
    a, b, expected, oracle = products(torch.float32)
    split = sum(x @ y for x, y in zip(a.split(4, 1), b.split(4, 0), strict=True))
    check = one(split, expected, oracle=oracle)
    assert check.passed
    assert check.error_ratio is not None
    assert check.error_ratio < 20
    for narrow in (tf32, lambda t: t.half().float(), lambda t: t.bfloat16().float()):
        check = one(narrow(a) @ narrow(b), expected, oracle=oracle)
        assert not check.passed
        assert check.error_ratio is not None
        assert check.error_ratio > 200


def test_a_downgrade_within_the_tolerance_fails_by_its_ratio_alone() -> None:
    """A tenth of the elements in TF32: each is close enough, the leaf's error is not."""
    expected = torch.randn(1 << 14)
    oracle = expected.double() * (1 + 1e-8)
    actual = expected * (1 + 2e-5 * torch.randn(1 << 14))
    text = problem(actual, expected, oracle=oracle)
    assert "x that of eager float32 (limit 48)" in text
    assert passes(actual, expected, oracle=oracle, error_ratio_limit=None)
    assert passes(actual, expected, oracle=oracle, error_ratio_limit=1e4)
    assert passes(actual, expected)  # without an oracle there is no ratio


def test_the_ratio_names_what_it_looks_like() -> None:
    loose = {torch.float32: Tolerance(rtol=0.1, atol_scale=0.1)}
    x = torch.randn(1000)
    oracle = (1.01 * x).double()
    expected = 1.01 * x
    options = {"oracle": oracle, "tolerances": loose}
    assert "TF32 or float16 inside" in problem(1.01 * tf32(x), expected, **options)
    assert "bfloat16 inside" in problem(1.01 * x.bfloat16().float(), expected, **options)
    assert "every value is a bfloat16 number" in problem(
        expected.bfloat16().float(), expected, **options
    )


def test_an_eager_scalar_that_is_exact_by_luck_fails_nobody() -> None:
    expected = torch.tensor(0.1)
    oracle = expected.double()  # eager's error: none
    honest = expected * (1 + 100 * 2**-23)  # atomics over 10^5 partial sums
    assert passes(honest, expected, oracle=oracle)
    assert not passes(expected.half().float(), expected, oracle=oracle)
    one_large = torch.cat((expected[None] * 1e6, torch.randn(4096)))  # one counts, not 4097
    assert passes(one_large * (1 + 100 * 2**-23), one_large, oracle=one_large.double())


def test_an_exact_eager_result_allows_a_rounding_or_two() -> None:
    x = torch.randn(4096)
    expected = x * 0.125
    other = x / 3 * 0.375
    assert not torch.equal(expected, other)
    assert passes(other, expected, oracle=x.double() * 0.125)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_judged_by_its_own_error(dtype: torch.dtype) -> None:
    a, b, expected, oracle = products(dtype)
    assert passes((a.float() @ b.float()).to(dtype), expected, oracle=oracle)
    narrow = expected.to(torch.float8_e4m3fn).to(dtype)
    assert not passes(narrow, expected, oracle=oracle)
    assert not passes(torch.zeros_like(expected), expected, oracle=oracle)


def test_who_is_nearer_to_the_truth_than_eager_passes() -> None:
    oracle = torch.randn(1000, dtype=torch.float64)
    expected = (oracle + 0.05 * torch.randn(1000)).bfloat16()  # eager, after much cancellation
    assert passes(oracle.bfloat16(), expected, oracle=oracle)
    assert not passes(oracle.bfloat16(), expected)


def test_where_eager_cancels_others_may_too_but_zeros_fail() -> None:
    oracle = 1e-3 * torch.randn(1000, dtype=torch.float64)
    eager = (oracle + 4e-6 * torch.randn(1000)).float()
    honest = (oracle + 4e-6 * torch.randn(1000)).float()
    assert passes(honest, eager, oracle=oracle)
    assert not passes(torch.zeros(1000), eager, oracle=oracle)
    noise = (oracle + 1e-2 * torch.randn(1000)).float()
    assert "eager itself is off by up to" in problem(torch.zeros(1000), noise, oracle=oracle)


def test_noise_tells_unfit_inputs_from_fit_ones() -> None:
    oracle = torch.randn(1000, dtype=torch.float64)
    eager = (oracle + 1e-6 * torch.randn(1000)).float()
    rubbish = (oracle + 0.1 * torch.randn(1000)).float()
    assert module.noise([eager, None, 3], [oracle, None, 3]) < 1
    assert module.noise({"a": eager, "b": rubbish}, {"a": oracle, "b": oracle}) > 1
    whole = torch.arange(3)
    assert module.noise((eager, eager), None) == 0
    assert module.noise((whole, oracle), (whole, oracle)) == 0


def test_figures_of_a_check() -> None:
    expected = torch.tensor([3.0, 4.0, 0.0])
    check = one(torch.tensor([3.0, 4.5, 0.1]), expected)
    assert check.max_abs_error == pytest.approx(0.5)
    assert check.max_rel_error == pytest.approx(0.125)
    assert check.error_ratio is None


# --- hints


def test_the_worst_element_is_named_with_both_values() -> None:
    x = torch.zeros(3, 4) + 1
    wrong = x.clone()
    wrong[0, 2], wrong[2, 1] = 2.0, -4.0
    assert (
        "2 of 12 elements wrong (16.7%), first at [0, 2]: 2 for 1, worst at [2, 1]: -4 for 1"
        in (problem(wrong, x))
    )


def test_every_float_dtype_with_a_limit_has_a_tolerance() -> None:
    assert set(module.ERROR_RATIO_LIMIT) < set(module.TOLERANCES)


# --- on a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_tensor_core_tf32_fails_and_split_k_passes() -> None:
    a, b = torch.randn(512, 2048, device="cuda"), torch.randn(2048, 512, device="cuda")
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    expected, oracle = a @ b, a.double() @ b.double()
    split = sum(x @ y for x, y in zip(a.split(64, 1), b.split(64, 0), strict=True))
    torch.backends.cuda.matmul.allow_tf32 = True
    narrow = a @ b
    torch.backends.cuda.matmul.allow_tf32 = before
    assert passes(split, expected, oracle=oracle)
    assert passes(split, expected, oracle=oracle.cpu())  # an oracle in host memory will do
    assert not passes(narrow, expected, oracle=oracle)
    assert "on cpu, but the reference's is on cuda" in problem(split.cpu(), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint64, torch.bool])
def test_on_a_gpu_every_exact_dtype_is_told(dtype: torch.dtype) -> None:
    ones, zeros = torch.ones(9).to(dtype).cuda(), torch.zeros(9).to(dtype).cuda()
    assert passes(ones, ones.clone())
    assert "9 of 9 elements wrong" in problem(zeros, ones)
