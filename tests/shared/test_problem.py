"""A problem file at a size: constants, inputs, weights, and what is said of files at fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.errors import ProblemError, RequestError
from harness.shared.draws import VARIATIONS, Draw, GradDraw, grad_outputs, vary
from harness.shared.problem import FULL, Instance, sizes
from harness.shared.trees import map_tensors, walk_tensors

CPU = torch.device("cpu")

SIZED = """
import torch

ROWS = 4
COLUMNS = 2 * ROWS
LABEL = f"{ROWS}x{COLUMNS}"
SIZES = {"small": {"ROWS": 2}, "wide": {"COLUMNS": 5}}


class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""

MIXED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, index, mask, rest, scale):
        return x.sum()


def get_inputs():
    rest = [torch.randn(3), {"a": torch.randn(2, 2), "n": 5}, (torch.randn(()),)]
    mask = torch.rand(4) < 0.5
    return [torch.randn(4, 3), torch.arange(4), mask, rest, 0.5]
"""


def model_file(*, inputs: str = "[torch.randn(3)]", forward: str = "x", extra: str = "") -> str:
    return f"""
import torch
{extra}


class Model(torch.nn.Module):
    def forward(self, {forward}):
        return x


def get_inputs():
    return {inputs}
"""


def make(source: str, size: str = FULL, dtype: torch.dtype = torch.float32) -> Instance:
    return Instance(source=source, path="dir/p.py", size=size, dtype=dtype, device=CPU)


def tensors(value: Any) -> list[torch.Tensor]:
    return [tensor for _, tensor in walk_tensors(value, "")]


KEPT = """
import torch

x = torch.rand(4, 8)
{more}

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return {inputs}
"""


@pytest.mark.parametrize(
    ("more", "inputs"),
    [
        ("", "[x]"),
        ("inputs = [x]", "inputs"),
        ("", "[x.t()]"),
        ("named = {'x': [x]}", "[named]"),
        ("def fresh():\n    return x[:2]", "[fresh(), torch.rand(3)]"),
        ("import numpy\ny = numpy.random.rand(3)", "[x, torch.from_numpy(y).float()]"),
    ],
)
def test_inputs_that_a_file_makes_once_stay_as_they_are(more: str, inputs: str) -> None:
    """Judge and worker have the same, and no variation of a draw is left in the next."""
    source = KEPT.format(more=more, inputs=inputs)
    first, other = make(source), make(source)  # as in two processes
    expected = [tensor.clone() for tensor in tensors(first.inputs(Draw(seed=1)))]
    for variation in first.variations:
        for tensor in tensors(first.inputs(Draw(seed=1, variation=variation))):
            tensor.mul_(2)  # as a solution may
    torch.manual_seed(7)
    for one in (first, other, make(source)):
        found = tensors(one.inputs(Draw(seed=1)))
        assert all(torch.equal(*pair) for pair in zip(expected, found, strict=True))


@pytest.mark.parametrize(
    "more",
    [
        "@functools.lru_cache\ndef remembered():\n    return torch.rand(4)",
        "def remembered(y=torch.rand(4)):\n    return y",
        "c = {}\ndef remembered():\n    return c.setdefault('y', torch.rand(4))",
    ],
)
def test_inputs_of_an_earlier_call_are_the_files_fault(more: str) -> None:
    """They do not follow the seed, so judge and worker can have different ones."""
    instance = make("import functools\n" + KEPT.format(more=more, inputs="[x, remembered()]"))
    first = instance.inputs(Draw(seed=1))
    with pytest.raises(ProblemError, match="gives tensors of an earlier call again"):
        instance.inputs(Draw(seed=2))
    assert len(first) == 2


# --- sizes --------------------------------------------------------------------------------------


def test_the_constants_as_written_are_the_size_full() -> None:
    assert make(SIZED).inputs(Draw(seed=0))[0].shape == (4, 8)
    assert sizes(SIZED) == ("full", "small", "wide")


def test_constants_derived_from_a_sized_one_follow_it() -> None:
    instance = make(SIZED, "small")
    assert instance.inputs(Draw(seed=0))[0].shape == (2, 4)
    assert instance._module["LABEL"] == "2x4"


def test_a_derived_constant_can_be_sized_itself() -> None:
    assert make(SIZED, "wide").inputs(Draw(seed=0))[0].shape == (4, 5)


def test_a_file_without_sizes_has_the_size_full_only() -> None:
    assert sizes(model_file()) == ("full",)


def test_annotated_sizes_and_constants_count_like_plain_ones() -> None:
    source = SIZED.replace("ROWS = 4", "ROWS: int = 4").replace("SIZES =", "SIZES: dict =")
    assert sizes(source) == ("full", "small", "wide")
    assert make(source, "small").inputs(Draw(seed=0))[0].shape == (2, 4)


def test_an_unknown_size_is_the_callers_fault_and_names_the_known_ones() -> None:
    with pytest.raises(RequestError, match=r"no size 'huge'; it has full, small, wide"):
        make(SIZED, "huge")


def test_a_size_that_sets_a_missing_constant_is_the_files_fault() -> None:
    source = SIZED.replace('"small": {"ROWS": 2}', '"small": {"ROW": 2}')
    with pytest.raises(ProblemError, match=r"^dir/p\.py.*sets \['ROW'\], which .* never assigns"):
        make(source, "small")
    make(source)


@pytest.mark.parametrize(
    "value", ["{'small': {'ROWS': 2 ** 3}}", "[1]", "{'small': 5}", "5", "None", "dict(a=1)"]
)
def test_sizes_that_are_no_literal_table_are_the_files_fault_with_the_line(value: str) -> None:
    source = "\n".join(
        f"SIZES = {value}" if line.startswith("SIZES") else line for line in SIZED.splitlines()
    )
    with pytest.raises(ProblemError, match=r"^p\.py:7: .*SIZES"):
        sizes(source, "p.py")
    with pytest.raises(ProblemError, match=r"^dir/p\.py:7: .*SIZES"):
        make(source, "small")


# --- files at fault -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Model", "get_inputs"])
def test_a_missing_definition_is_named(name: str) -> None:
    with pytest.raises(ProblemError, match=f"dir/p.py: the problem file defines no {name}"):
        make(SIZED.replace(name, "Other"))


@pytest.mark.parametrize("model", ["def Model(): return torch.nn.Identity()", "class Model: pass"])
def test_a_model_that_is_no_module_is_told(model: str) -> None:
    with pytest.raises(ProblemError, match=r"dir/p.py: Model is not a class of torch.nn.Module"):
        make(f"import torch\n{model}\nget_inputs = list")


@pytest.mark.parametrize(
    "table", ["{'float32': 1e-3}", "{'fp32': (1, 2)}", "[1e-3]", "{'float32': (1, 'x')}"]
)
def test_tolerances_that_are_no_table_are_told(table: str) -> None:
    with pytest.raises(ProblemError, match="TOLERANCES must be such as"):
        _ = make(SIZED + f"\nTOLERANCES = {table}").tolerances


def test_get_inputs_that_raises_is_told_with_file_and_line() -> None:
    source = model_file(inputs="helper()", extra="def helper():\n    raise KeyError('no such')")
    with pytest.raises(ProblemError, match=r"^dir/p\.py:4: get_inputs failed: KeyError: 'no such'"):
        make(source).inputs(Draw(seed=0))


def test_a_fault_below_the_file_is_told_with_the_files_own_line() -> None:
    source = model_file(inputs="[torch.randn(-1)]")
    with pytest.raises(ProblemError, match=r"^dir/p\.py:12: get_inputs failed: RuntimeError"):
        make(source).inputs(Draw(seed=0))


def test_a_model_that_cannot_be_made_is_told_with_file_and_line() -> None:
    source = model_file(extra="class Base(torch.nn.Module):\n    pass").replace(
        "    def forward", "    def __init__(self):\n        self.x\n\n    def forward"
    )
    with pytest.raises(ProblemError, match=r"^dir/p\.py:9: Model failed: AttributeError"):
        make(source).model(0)


def test_a_file_that_raises_while_it_runs_is_told_with_the_line() -> None:
    with pytest.raises(ProblemError, match=r"^dir/p\.py:3: ZeroDivisionError"):
        make(model_file(extra="1 / 0"))


def test_a_syntax_error_is_told_with_the_line() -> None:
    with pytest.raises(ProblemError, match=r"^dir/p\.py:3: "):
        make(model_file(extra="def :"))


def test_memory_that_runs_out_is_not_turned_into_another_error() -> None:
    source = model_file(extra="def full():\n    raise torch.OutOfMemoryError('x')", inputs="full()")
    with pytest.raises(torch.OutOfMemoryError):
        make(source).inputs(Draw(seed=0))


@pytest.mark.parametrize("names", ["('y',)", "['x']", "('x1', 'y')"])
def test_unknown_grad_inputs_are_named_with_the_arguments(names: str) -> None:
    source = model_file(forward="x1, x2", extra=f"GRAD_INPUTS = {names}")
    with pytest.raises(ProblemError, match=r"GRAD_INPUTS names [xy]; forward takes x1, x2$"):
        make(source)


@pytest.mark.parametrize("constant", ["GRAD_INPUTS", "VARIATIONS"])
@pytest.mark.parametrize("names", ["5", "'signs'", "[['signs']]", "{'signs': 1}", "True"])
def test_what_lists_no_names_is_told_with_an_example(constant: str, names: str) -> None:
    source = model_file(forward="signs", extra=f"{constant} = {names}")
    with pytest.raises(ProblemError, match=rf"{constant} must be names, such as \(\"\w+\",\)"):
        make(source)


# --- inputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("variation", VARIATIONS)
def test_the_same_draw_gives_the_same_inputs_and_another_seed_others(variation: str) -> None:
    instance = make(MIXED)
    first, again, other = (
        tensors(instance.inputs(Draw(seed=seed, variation=variation))) for seed in (7, 7, 8)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


def test_numbers_from_python_and_numpy_come_from_the_seed_too() -> None:
    source = model_file(
        inputs="[torch.tensor([random.random(), numpy.random.rand()])]",
        extra="import random\nimport numpy",
    )
    instance = make(source)
    first, again, other = (instance.inputs(Draw(seed=s))[0] for s in (2**47, 2**47, 3))
    assert torch.equal(first, again)
    assert (first != other).all()


def test_a_draw_does_not_depend_on_what_was_drawn_before() -> None:
    instance = make(MIXED)
    first = instance.inputs(Draw(seed=7))
    instance.model(5)
    torch.randn(100)
    assert torch.equal(instance.inputs(Draw(seed=7))[0], first[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_only_floats_take_the_dtype_and_numbers_stay_numbers(dtype: torch.dtype) -> None:
    x, index, mask, rest, scale = make(MIXED, dtype=dtype).inputs(Draw(seed=0))
    assert x.dtype is dtype
    assert index.dtype is torch.int64
    assert mask.dtype is torch.bool
    assert [t.dtype for t in tensors(rest)] == [dtype] * 3
    assert rest[1]["n"] == 5
    assert scale == 0.5


def test_a_narrow_dtype_holds_the_same_draw_rounded() -> None:
    wide, narrow = (
        make(MIXED, dtype=d).inputs(Draw(seed=3))[0] for d in (torch.float32, torch.half)
    )
    assert torch.equal(narrow, wide.half())


def test_inputs_carry_no_gradient_of_how_they_were_made() -> None:
    source = model_file(inputs="[torch.randn(3, requires_grad=True) * 2]")
    (x,) = make(source).inputs(Draw(seed=0))
    assert x.is_leaf
    assert not x.requires_grad


# --- variations ---------------------------------------------------------------------------------

SIGNED = model_file(
    inputs="[torch.tensor([-3.0, -0.5, 0.0, 0.5, 2.0] * 200), torch.arange(5), "
    "torch.tensor([True, False]), [torch.linspace(-1, 1, 64)]]",
    forward="x, i, b, rest",
)


@pytest.mark.parametrize("variation", [v for v in VARIATIONS if v not in ("as_given", "signs")])
def test_a_variation_changes_values_but_neither_signs_nor_zeros(variation: str) -> None:
    given = tensors(make(SIGNED).inputs(Draw(seed=1)))
    varied = tensors(make(SIGNED).inputs(Draw(seed=1, variation=variation)))
    for before, after in zip(given, varied, strict=True):
        assert torch.equal(after.sign(), before.sign()) if before.dtype.is_floating_point else True
        assert after.isfinite().all()
        assert torch.equal(after, before) == (not before.dtype.is_floating_point)


def test_as_given_changes_nothing() -> None:
    x = torch.randn(10)
    inputs = [x.clone()]
    vary(inputs, Draw(seed=0, variation="as_given"))
    assert torch.equal(inputs[0], x)


def test_scaled_is_one_factor_a_tensor_and_differs_between_tensors() -> None:
    inputs = [torch.ones(50), torch.ones(50)]
    vary(inputs, Draw(seed=3, variation="scaled"))
    factors = [float(x[0]) for x in inputs]
    assert all(torch.equal(x, torch.full((50,), f)) for x, f in zip(inputs, factors, strict=True))
    assert all(0.25 <= f <= 4 for f in factors)
    assert factors[0] != factors[1]


def test_heavy_tailed_is_a_factor_an_element() -> None:
    inputs = [torch.ones(10_000)]
    vary(inputs, Draw(seed=3, variation="heavy_tailed"))
    assert len(inputs[0].unique()) > 9000
    assert inputs[0].max() > 10
    assert inputs[0].min() > 0


def test_region_is_one_stretch_of_a_sixteenth() -> None:
    starts = set()
    for seed in range(20):
        inputs = [torch.ones(16, 100)]
        vary(inputs, Draw(seed=seed, variation="region"))
        changed = (inputs[0].view(-1) != 1).nonzero().view(-1)
        assert len(changed) == 100
        assert int(changed[-1] - changed[0]) == 99
        assert 4 <= float(inputs[0].max()) <= 16
        starts.add(int(changed[0]))
    assert len(starts) > 10


@pytest.mark.parametrize("variation", VARIATIONS)
def test_variations_take_empty_and_scalar_tensors(variation: str) -> None:
    vary([torch.empty(0), torch.ones(())], Draw(seed=0, variation=variation))


@pytest.mark.parametrize("variation", [name for name in VARIATIONS if name != "as_given"])
@pytest.mark.parametrize(
    "made",
    [
        lambda: torch.ones(6, 4).t(),
        lambda: torch.ones(8, 6)[::2],
        lambda: torch.ones(4, 1).expand(4, 6),
        lambda: torch.ones(4, 6, dtype=torch.complex64),
    ],
    ids=["transposed", "strided", "expanded", "complex"],
)
def test_variations_reach_a_tensor_however_it_lies(
    variation: str, made: Callable[[], torch.Tensor]
) -> None:
    tensor = made()
    layout = tensor.stride()
    vary([tensor], Draw(seed=0, variation=variation))
    assert tensor.stride() == layout
    assert not torch.equal(tensor, torch.ones_like(tensor))


# --- models -------------------------------------------------------------------------------------

WEIGHTED = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.linear = torch.nn.Linear(width, 2, bias=bias)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(5, 3)]
"""


@pytest.mark.parametrize(
    ("arguments", "count"), [("[3]", 2), ("(3, False)", 1), ("{'width': 3, 'bias': False}", 1)]
)
def test_init_inputs_may_be_a_list_a_tuple_or_a_dict(arguments: str, count: int) -> None:
    source = WEIGHTED + f"\n\ndef get_init_inputs():\n    return {arguments}\n"
    model = make(source, dtype=torch.float64).model(0)
    assert len(list(model.parameters())) == count
    assert all(p.dtype is torch.float64 for p in model.parameters())


@pytest.mark.parametrize(
    ("takes", "given", "got"),
    [
        ("a, b=1", "[[3], {'b': 4}]", (3, 4)),
        ("a, b=1", "[[3], {'c': 4}]", ([3], {"c": 4})),  # no name of an argument
        ("a, b=1", "[[3], {}]", ([3], {})),
        ("a", "[[3], {}]", 3),  # which does not take two
        ("a, b=1", "[[3], [4]]", ([3], [4])),
        ("*a, b=1", "[[3, 5], {'b': 4}]", ((3, 5), 4)),
    ],
)
def test_a_list_and_a_dict_are_arguments_by_place_and_name_where_that_makes_sense(
    takes: str, given: str, got: Any
) -> None:
    names = takes.replace("*", "").replace("=1", "")
    init = f"def __init__(self, {takes}):\n        super().__init__()\n        self.got = {names}"
    source = f"""
import torch


class Model(torch.nn.Module):
    {init}

    def forward(self, x):
        return x


def get_inputs():
    return [torch.randn(3)]


def get_init_inputs():
    return {given}
"""
    assert make(source).model(0).got == got


def test_init_inputs_may_be_missing_where_the_model_takes_none() -> None:
    assert isinstance(make(SIZED).model(0), torch.nn.Module)
    with pytest.raises(ProblemError, match="Model failed: TypeError"):
        make(WEIGHTED).model(0)


def test_lazy_weights_get_their_shapes_from_inputs_and_their_values_from_the_seed() -> None:
    source = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lazy = torch.nn.LazyLinear(2)
    def forward(self, x):
        return self.lazy(x)
def get_inputs():
    return [torch.randn(4, 3)]
"""
    one, again, other = (
        make(source, dtype=torch.bfloat16).model(seed).get_parameter("lazy.weight")
        for seed in (1, 1, 2)
    )
    assert (one.shape, one.dtype) == ((2, 3), torch.bfloat16)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_what_a_model_never_initialised_is_nan_and_not_what_memory_held() -> None:
    source = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(5))
        self.other = torch.nn.Parameter(torch.empty(5).fill_(2))
def get_inputs():
    return []
"""
    model = make(source).model(1)
    assert model.get_parameter("weight").isnan().all()
    assert model.get_parameter("other").tolist() == [2.0] * 5
    assert torch.get_deterministic_debug_mode() == 0


def test_weights_come_from_the_seed() -> None:
    instance = make(WEIGHTED + "\n\ndef get_init_inputs():\n    return [3]\n")
    first, again, other = (instance.model(seed).linear.weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


# --- leaves, gradients, trees ---------------------------------------------------------------------


def test_leaves_are_named_by_argument_and_place() -> None:
    instance = make(MIXED)
    leaves = instance.leaves(instance.inputs(Draw(seed=0)))
    assert list(leaves) == ["x", "rest[0]", "rest[1]['a']", "rest[2][0]"]


def test_leaves_keep_to_grad_inputs() -> None:
    instance = make(MIXED + "\nGRAD_INPUTS = ('rest',)\n")
    leaves = instance.leaves(instance.inputs(Draw(seed=0)))
    assert list(leaves) == ["rest[0]", "rest[1]['a']", "rest[2][0]"]


def test_inputs_beyond_the_named_arguments_have_names_too() -> None:
    instance = make(model_file(forward="*x", inputs="[torch.randn(2), torch.randn(3)]"))
    assert list(instance.leaves(instance.inputs(Draw(seed=0)))) == ["x", "input1"]


def test_a_files_own_tolerances_are_read_by_name_or_type() -> None:
    extra = "TOLERANCES = {'float32': (1, 2), torch.float16: (3, 4)}"
    assert make(model_file(extra=extra)).tolerances == {
        torch.float32: (1.0, 2.0),
        torch.float16: (3.0, 4.0),
    }
    assert make(model_file()).tolerances == {}


def test_grad_outputs_repeat_for_a_seed_and_match_their_outputs() -> None:
    outputs = {
        "output[0]": torch.zeros(3, 4),
        "output[1]": torch.zeros(2, dtype=torch.float64),
        "output[2]": torch.zeros(()),
    }
    first, again, other = (
        grad_outputs(outputs, GradDraw(seed=seed), torch.float32) for seed in (1, 1, 2)
    )
    for path, output in outputs.items():
        assert first[path].shape == output.shape
        assert first[path].dtype is output.dtype
        assert first[path].is_contiguous()
        assert torch.equal(first[path], again[path])
        assert not torch.equal(first[path], other[path])


def test_a_grad_output_does_not_depend_on_which_others_are_drawn() -> None:
    outputs = {"output[0]": torch.zeros(3), "output[1]": torch.zeros(3)}
    both = grad_outputs(outputs, GradDraw(seed=1), torch.float32)
    outputs.pop("output[0]")
    alone = grad_outputs(outputs, GradDraw(seed=1), torch.float32)
    assert torch.equal(alone["output[1]"], both["output[1]"])
    assert not torch.equal(both["output[0]"], both["output[1]"])


def test_grad_outputs_are_rounded_to_the_declared_dtype() -> None:
    output = {"output": torch.zeros(100, dtype=torch.float64)}
    grad = grad_outputs(output, GradDraw(seed=1), torch.bfloat16)["output"]
    assert grad.dtype is torch.float64
    assert torch.equal(grad, grad.bfloat16().double())


@pytest.mark.parametrize(("shape", "layout"), [((), "contiguous"), ((3, 4), "expanded")])
def test_a_single_grad_output_is_never_near_zero_or_one_nor_always_of_one_sign(
    shape: tuple[int, ...], layout: str
) -> None:
    output = {"output": torch.zeros(shape)}
    draws = [GradDraw(seed=seed, layout=layout) for seed in range(200)]
    grads = [grad_outputs(output, draw, torch.float32)["output"] for draw in draws]
    values = [float(grad.reshape(-1)[0]) for grad in grads]
    assert all(grad.stride() == (0,) * len(shape) for grad in grads)
    assert all(0.5 <= abs(v) <= 1.5 for v in values)
    assert {v > 0 for v in values} == {True, False}
    assert sum(abs(v - 1) < 1e-3 for v in values) < 5


def test_trees_keep_their_containers_and_walk_in_order() -> None:
    tree = [torch.ones(1), (torch.ones(2), {"k": torch.ones(3), "n": None}), 5]
    doubled = map_tensors(lambda t: t * 2, tree)
    assert [path for path, _ in walk_tensors(tree, "t")] == ["t[0]", "t[1][0]", "t[1][1]['k']"]
    assert [t.tolist() for t in tensors(doubled)] == [[2.0], [2.0, 2.0], [2.0, 2.0, 2.0]]
    assert isinstance(doubled[1], tuple)
    assert doubled[1][1]["n"] is None
    assert doubled[2] == 5


def test_a_file_is_read_from_its_text_not_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("raise RuntimeError")
    Instance(source=SIZED, path=str(path), size=FULL, dtype=torch.float32, device=CPU)


def test_arguments_are_those_that_inputs_are_handed_over_for() -> None:
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x, y, scale=2.0, *more, mode='a', **rest):\n"
        "        return x + y\n\n\n"
        "def get_inputs():\n    return [torch.ones(2), torch.ones(2)]\n"
    )
    made = Instance(
        source=source, path="p.py", size="full", dtype=torch.float32, device=torch.device("cpu")
    )
    assert made.argument_names == ["x", "y", "scale", "more"]
    assert made.required_arguments == 2
