"""Builds: one key a source, never half a build, a failure always recorded and told in a line.

torch's own builder is replaced by one that only writes files, except where gcc is the point; the
extension of `support` then takes half a second.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support import SCALE_SOURCE
from torch.utils import cpp_extension

from harness.worker.building import Builder
from harness.worker.faults import CompileFault, ContractFault, MachineFault

Load = Callable[..., Any]

needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(autouse=True)
def torchs_own() -> Iterator[None]:
    """Whatever a test installs, torch's functions are back afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("load_inline", "load"):
            patch.setattr(cpp_extension, name, getattr(cpp_extension, name))
        yield


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python extension named `fake`, as a build leaves it."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "fake.cpp").write_text(SCALE_SOURCE)
    include = sysconfig.get_path("include")
    flags = ["-DTORCH_EXTENSION_NAME=fake", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run(["g++", *flags, "fake.cpp", "-o", "fake.so"], cwd=folder, check=True)
    return folder / "fake.so"


class Fake:
    """Stands in for torch's load_inline: leaves `library`, or fails with `log`."""

    def __init__(self, library: Path | None = None, log: str = "") -> None:
        self.library = library
        self.log = log
        self.folders: list[Path] = []

    def __call__(
        self,
        name: str,
        cpp_sources: Any,
        cuda_sources: Any = None,
        functions: Any = None,
        *,
        build_directory: str,
        verbose: bool,
        **_: Any,
    ) -> ModuleType:
        folder = Path(build_directory)
        self.folders.append(folder)
        (folder / "main.cpp").write_text(f"#include <torch/extension.h>\n{cpp_sources}\n")
        if cuda_sources:
            (folder / "cuda.cu").write_text(f"#include <torch/types.h>\n{cuda_sources}\n")
        (folder / "main.o").write_text("object")
        if self.library is None:
            raise RuntimeError(f"Error building extension '{name}': [1/2] c++ ...\n{self.log}")
        shutil.copy(self.library, folder / "fake.so")
        return ModuleType(name)


def builder(
    fake: Any, cache: Path, *, salt: str = "s", source: str = "", run: str | None = None
) -> tuple[Builder, Load]:
    """A builder as a worker installs it, over `fake`, and what a solution calls."""
    cpp_extension.load_inline = fake
    made = Builder(cache=cache, salt=salt, run=run, source=source, source_name="answer.py")
    made.install()
    return made, cpp_extension.load_inline


# --- the cache --------------------------------------------------------------------------------


@needs_gxx
def test_the_second_build_of_the_same_call_comes_from_the_cache(
    tmp_path: Path, library: Path
) -> None:
    fake = Fake(library)
    first, load = builder(fake, tmp_path)
    load(name="fake", cpp_sources="int a;")
    again, load = builder(fake, tmp_path)  # another worker
    module = load(name="fake", cpp_sources="int a;")
    assert len(fake.folders) == 1
    assert [r.cached for r in (*first.records, *again.records)] == [False, True]
    assert hasattr(module, "scale")
    assert again.modules == [module]
    assert again.records[0].library == first.records[0].library


@needs_gxx
@pytest.mark.parametrize(
    "change",
    [
        {"cpp_sources": "int b;"},
        {"cuda_sources": "int c;"},
        {"name": "other"},
        {"extra_cflags": ["-O3"]},
        {"functions": ["f"]},
        {"with_cuda": True},
    ],
    ids=str,
)
def test_another_argument_is_another_build(
    tmp_path: Path, library: Path, change: dict[str, Any]
) -> None:
    fake = Fake(library)
    _, load = builder(fake, tmp_path)
    load(**{"name": "fake", "cpp_sources": "int a;"})
    load(**({"name": "fake", "cpp_sources": "int a;"} | change))
    assert len(fake.folders) == 2


@needs_gxx
def test_another_solution_or_toolchain_is_another_build(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake(library)

    def build(salt: str = "s") -> None:
        builder(fake, tmp_path, salt=salt)[1](name="fake", cpp_sources="int a;")

    build()
    build(salt="another solution")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0")
    build()
    monkeypatch.setenv("CXX", "clang++")
    build()
    monkeypatch.setattr(torch, "__version__", "2.0+other")
    build()
    assert len(fake.folders) == 5
    build()
    assert len(fake.folders) == 5


@needs_gxx
def test_arguments_by_position_and_by_name_are_the_same_build(
    tmp_path: Path, library: Path
) -> None:
    fake = Fake(library)
    _, load = builder(fake, tmp_path)
    load("fake", "int a;", "int b;", ["f"])
    load(functions=["f"], name="fake", cuda_sources="int b;", cpp_sources="int a;")
    assert len(fake.folders) == 1


@needs_gxx
def test_the_cache_holds_whole_builds_and_nothing_else(tmp_path: Path, library: Path) -> None:
    made, load = builder(Fake(library), tmp_path)
    load(name="fake", cpp_sources="int a;")
    (final,) = tmp_path.iterdir()
    assert not final.name.startswith("building-")
    assert {path.name for path in final.iterdir()} == {"fake.so", "main.cpp", "built.json"}
    assert made.records[0].library == str(final / "fake.so")


@needs_gxx
def test_what_a_killed_build_left_is_never_met(tmp_path: Path, library: Path) -> None:
    fake = Fake(library)
    stale = tmp_path / "building-stale"
    stale.mkdir()
    (stale / "lock").write_text("")
    made, load = builder(fake, tmp_path)
    load(name="fake", cpp_sources="int a;")
    assert fake.folders != [stale]
    assert made.records[0].library is not None
    assert Path(made.records[0].library).exists()


@needs_gxx
def test_another_worker_that_was_first_does_no_harm(tmp_path: Path, library: Path) -> None:
    inner = Fake(library)

    def slow(**call: Any) -> ModuleType:
        if not inner.folders:  # while this one builds, another begins and ends
            folder = Path(call["build_directory"])
            builder(inner, tmp_path)[1](name="fake", cpp_sources="int a;")
            return inner(**(call | {"build_directory": str(folder)}))
        return inner(**call)

    made, load = builder(slow, tmp_path)
    load(name="fake", cpp_sources="int a;")
    assert len(list(tmp_path.iterdir())) == 1
    assert made.records[0].library is not None
    assert Path(made.records[0].library).exists()


# --- failures ---------------------------------------------------------------------------------


def failure(tmp_path: Path, log: str, *, source: str = "", **call: Any) -> CompileFault:
    made, load = builder(Fake(log=log), tmp_path, source=source)
    with pytest.raises(CompileFault) as caught:
        load(**({"name": "x", "cpp_sources": "int f();"} | call))
    assert made.records[0].error == str(caught.value)
    assert made.modules == []
    assert not list(tmp_path.iterdir()), "a failed build leaves nothing"
    assert "\n" not in str(caught.value)
    assert log in caught.value.log
    return caught.value


def test_a_failure_that_a_solution_swallows_is_recorded(tmp_path: Path) -> None:
    made, load = builder(Fake(log="main.cpp:1: error: no"), tmp_path)
    try:
        load(name="x", cpp_sources="int a")
    except Exception:  # noqa: BLE001 - as such solutions do
        module = None
    assert module is None
    assert made.records[0].error is not None
    assert "error: no" in made.records[0].error


def fails(fake: Fake, cache: Path, run: str, source: str = "int a") -> CompileFault:
    """How a build fails in a worker of its own."""
    _, load = builder(fake, cache, run=run)
    with pytest.raises(CompileFault) as caught:
        load(name="x", cpp_sources=source)
    return caught.value


def test_what_has_failed_is_not_tried_again_in_the_same_run(tmp_path: Path) -> None:
    fake = Fake(log="main.cpp:1: error: no")
    first, again = fails(fake, tmp_path, "one"), fails(fake, tmp_path, "one")
    assert len(fake.folders) == 1
    assert (str(again), again.log) == (str(first), first.log)
    assert "error: no" in again.log
    fails(fake, tmp_path, "one", "int b")
    assert len(fake.folders) == 2, "another source"
    fails(fake, tmp_path, "two")
    assert len(fake.folders) == 3, "the compiler may have got since what it lacked"


def test_what_may_not_fail_again_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake(log="g++: fatal error: Killed signal terminated program cc1plus")
    fails(fake, tmp_path, "one")
    fails(fake, tmp_path, "one")
    assert len(fake.folders) == 2
    fake = Fake(log="main.cpp:1: error: No space left on device")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=0))
    for _ in range(2):
        _, load = builder(fake, tmp_path, run="one")
        with pytest.raises(MachineFault):
            load(name="x", cpp_sources="int a")
    assert len(fake.folders) == 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"run": "one"}', '{"run": "one", "log": ""}'])
def test_a_note_that_says_nothing_is_no_failure(tmp_path: Path, text: str) -> None:
    fake = Fake(log="main.cpp:1: error: no")
    fails(fake, tmp_path, "one")
    (note,) = tmp_path.glob("*.failed")
    note.write_text(text)
    fails(fake, tmp_path, "one")
    assert len(fake.folders) == 2


@pytest.mark.parametrize(
    "error",
    [ImportError("no module"), OSError("CUDA_HOME is not set"), RuntimeError("ninja")],
    ids=str,
)
def test_a_failure_of_any_other_kind_is_recorded_and_passed_on(
    tmp_path: Path, error: Exception
) -> None:
    def broken(**call: Any) -> None:
        Path(call["build_directory"], "x.so").write_text("")
        raise error

    made, load = builder(broken, tmp_path)
    with pytest.raises(type(error), match=str(error)):
        load(name="x", cpp_sources="int a;")
    assert made.records[0].error == f"{type(error).__name__}: {error}"
    assert not list(tmp_path.iterdir())


def test_the_first_diagnostic_is_told_at_the_authors_own_line(tmp_path: Path) -> None:
    source = 'import torch\nCPP = """\nint f() {\n  return torch::Device(0).dtype();\n}\n"""\n'
    cpp = source.split('"""')[1]
    text = (
        "[1/2] c++ main.cpp\nIn file included from a.h:3,\n                 from main.cpp:1:\n"
        "{folder}main.cpp: In function 'int f()':\n"
        "{folder}main.cpp:4:27: error: 'struct c10::Device' has no member named 'dtype'\n"
        "{folder}main.cpp:5:1: error: another\nninja: build stopped: subcommand failed."
    )
    for folder in ("", "./"):
        fault = failure(tmp_path, text.format(folder=folder), source=source, cpp_sources=cpp)
        assert str(fault).startswith("answer.py:4 (main.cpp:4: `return torch::Device(0).dtype();`)")
        assert str(fault).endswith("error: 'struct c10::Device' has no member named 'dtype'")


def test_an_absolute_path_leads_to_the_authors_line_too(tmp_path: Path) -> None:
    source = 'CUDA = """\n__global__ void k() { x = 1; }\n"""\n'

    def broken(**call: Any) -> None:
        path = Path(call["build_directory"], "cuda.cu")
        path.write_text("#include <torch/types.h>\n" + source.split('"""')[1])
        text = f'{path}(3): error: identifier "x" is undefined'
        raise RuntimeError(f"Error building extension 'x': [1/2] nvcc\n{text}")

    _, load = builder(broken, tmp_path, source=source)
    with pytest.raises(CompileFault) as caught:
        load(name="x", cpp_sources="", cuda_sources="...")
    assert str(caught.value) == (
        "answer.py:2 (cuda.cu:3: `__global__ void k() { x = 1; }`): error: "
        'identifier "x" is undefined'
    )


@pytest.mark.parametrize(
    ("source", "line", "place"),
    [
        ("a;\nbad;\nb;\nbad;\n", 3, "answer.py:2 (main.cpp:3: `bad;`)"),
        ("a;\nbad;\nb;\nbad;\n", 5, "answer.py:4 (main.cpp:5: `bad;`)"),
        ("bad;\nbad;\n", 3, "answer.py:2 (main.cpp:3: `bad;`)"),
        ("a;\nbad;\na;\nbad;\n", 3, "main.cpp:3: `bad;`"),  # which of the two, nothing tells
        ("a;\n", 5, "main.cpp:5"),
    ],
)
def test_a_line_that_occurs_twice_is_told_by_those_before_it(
    tmp_path: Path, source: str, line: int, place: str
) -> None:
    """`}` and the like are everywhere."""
    first = "a;\nbad;\n" if source.count("a;") == 2 else source
    log = f"main.cpp:{line}:1: error: no"
    fault = failure(tmp_path, log, source=source, cpp_sources=first)
    assert str(fault) == f"{place}: error: no"


def test_an_error_in_a_header_is_told_by_file_and_line(tmp_path: Path) -> None:
    fault = failure(tmp_path, "/usr/include/torch/x.h:12:3: fatal error: y.h: No such file")
    assert str(fault) == "x.h:12: error: y.h: No such file"


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        ("main.o: in function `g':\nmain.cpp:(.text+0x5): undefined reference to `h'", "reference"),
        ("/usr/bin/ld: cannot find -lcudart: No such file", "cannot find -lcudart"),
        ("something\nentirely else\n", "entirely else"),
        ("", "without a word|Error building"),
    ],
)
def test_a_failure_without_a_diagnostic_is_told_by_what_there_is(
    tmp_path: Path, log: str, wanted: str
) -> None:
    fault = failure(tmp_path, log)
    assert re.search(wanted, str(fault)), str(fault)


@pytest.mark.parametrize(
    "log",
    [
        "c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.",
        "/bin/sh: line 1: 123 Killed\nsh: 1: Killed\nFAILED: cuda.o",
        "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
    ],
)
def test_a_compiler_that_was_killed_is_told_with_what_to_change(tmp_path: Path, log: str) -> None:
    assert "for want of memory; lower max_jobs" in str(failure(tmp_path, log))


FULL = "Fatal error: can't write 12 bytes to section .text of main.o: 'No space left on device'"


@pytest.mark.parametrize(
    "raises",
    [
        RuntimeError(f"Error building extension 'x': {FULL}"),  # the compiler's
        OSError(28, "No space left on device"),  # of what torch writes for it
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("free", [0, 1 << 40])
def test_a_full_disk_is_the_machines_fault_if_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raises: Exception, free: int
) -> None:
    """It was a `compile_error`, or a `load_error`; one who only says so still gets that."""

    def broken(**_: Any) -> None:
        raise raises

    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    made, load = builder(broken, tmp_path)
    with pytest.raises(Exception, match="is full" if free == 0 else "No space") as caught:
        load(name="x", cpp_sources="int f();")
    assert isinstance(caught.value, MachineFault) == (free == 0)
    assert made.records[0].error is not None


def test_who_fails_on_a_full_disk_for_another_reason_is_told_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    assert "error: no" in str(failure(tmp_path, "main.cpp:3:1: error: no"))


def test_output_that_is_no_text_destroys_nothing(tmp_path: Path) -> None:
    log = b"main.cpp:1:1: error: \xff\xfe \xe2\x80".decode(errors="surrogateescape")
    assert "error: " in str(failure(tmp_path, log))


# --- hints ------------------------------------------------------------------------------------


def test_a_module_of_its_own_beside_functions_gets_a_hint(tmp_path: Path) -> None:
    cpp = "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}"
    fault = failure(tmp_path, "main.cpp:9:1: error: redefinition", cpp_sources=cpp, functions=["f"])
    assert "PYBIND11_MODULE and functions=[...] adds a second" in str(fault)
    alone = failure(tmp_path, "main.cpp:9:1: error: redefinition", cpp_sources=cpp)
    assert "hint" not in str(alone)


@pytest.mark.parametrize(
    ("cuda", "hint"),
    [
        ("at::Tensor f(at::Tensor a,\n  int64_t n) {\n return a; }",
         "cpp_sources must hold the prototype of f: at::Tensor f(at::Tensor a, int64_t n);"),
        ("template <class T> __global__ void\n__launch_bounds__(64) f(T* a) {}", "f is a kernel; "),
        (["int g(int a) { return f(a); }"], "names f, which neither source defines"),
        (None, "names f, which neither source defines"),
    ],
    ids=["not declared", "a kernel", "not there", "no CUDA"],
)  # fmt: skip
def test_a_function_that_cannot_be_bound_gets_a_hint(tmp_path: Path, cuda: Any, hint: str) -> None:
    for quoted in ("'f'", "\u2018f\u2019"):
        log = f"/b/main.cpp:5:9: error: {quoted} was not declared in this scope; did you mean 'g'?"
        fault = failure(tmp_path, log, cpp_sources="", cuda_sources=cuda, functions=["e", "f"])
        assert hint in str(fault)
        other = failure(tmp_path, log, cpp_sources="", cuda_sources=cuda, functions=["e"])
        assert "hint" not in str(other)


def test_a_pinned_standard_gets_a_hint(tmp_path: Path) -> None:
    log = "ATen.h:4:2: error: #error C++20 or later compatible compiler is required to use ATen."
    pinned = failure(tmp_path, log, extra_cflags=["-O3", "-std=c++14"])
    assert "-std=c++14 is pinned" in str(pinned)
    assert torch.__version__ in str(pinned)
    assert "hint" not in str(failure(tmp_path, log, extra_cflags=["-O3"]))


@pytest.mark.parametrize("functions", ["scale", ["other", "scale"], {"scale": "docs"}])
def test_a_prototype_that_nothing_defines_is_a_link_that_failed(
    tmp_path: Path, functions: Any
) -> None:
    def opens(**call: Any) -> None:
        path = Path(call["build_directory"], "x.so")
        raise ImportError(f"{path}: undefined symbol: _Z5scaleRKN2at6TensorE")

    made, load = builder(opens, tmp_path)
    with pytest.raises(CompileFault) as caught:
        load(name="x", cpp_sources="torch::Tensor scale();", functions=functions)
    text = (
        "the link failed: undefined symbol: _Z5scaleRKN2at6TensorE [hint: no source defines scale"
    )
    assert str(caught.value).startswith(text)
    assert made.records[0].error == str(caught.value)


def test_a_symbol_of_some_library_that_is_missing_gets_no_hint(tmp_path: Path) -> None:
    def opens(**_: Any) -> None:
        raise ImportError("x.so: undefined symbol: cublasCreate_v2")

    _, load = builder(opens, tmp_path)
    with pytest.raises(CompileFault, match=r"undefined symbol: cublasCreate_v2$"):
        load(name="x", cpp_sources="int f();", functions=["f"])


# --- arguments --------------------------------------------------------------------------------

BAD_CALLS = {
    "no cpp_sources": {"name": "x", "cuda_sources": "k", "functions": ["f"]},
    "cpp_sources of None": {"name": "x", "cpp_sources": None},
    "a signature in functions": {
        "name": "x",
        "cpp_sources": "c",
        "functions": ["torch::Tensor f(torch::Tensor x)"],
    },
    "a signature as functions": {"name": "x", "cpp_sources": "c", "functions": "int f(int)"},
    "a number in functions": {"name": "x", "cpp_sources": "c", "functions": [1]},
    "no name": {"cpp_sources": "c"},
    "a name of None": {"name": None, "cpp_sources": "c"},
}


@pytest.mark.parametrize("kind", BAD_CALLS)
def test_a_call_that_cannot_mean_what_was_hoped_is_refused_and_quoted(
    tmp_path: Path, kind: str
) -> None:
    call = BAD_CALLS[kind]
    fake = Fake()
    made, load = builder(fake, tmp_path)
    with pytest.raises(ContractFault) as caught:
        load(**call)
    text = str(caught.value)
    assert text.startswith("load_inline(")
    assert all(f"{key}=" in text for key in call)
    if "name" not in kind:
        assert "cuda_sources CUDA text, functions a list of bare function names" in text
    assert not fake.folders
    assert [record.error for record in made.records] == [text]


def test_sources_from_files_take_torchs_arguments_by_place(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def from_files(name: str, sources: Any, extra_cflags: Any = None, **more: Any) -> None:
        seen.update(more, name=name, sources=sources, extra_cflags=extra_cflags)
        raise RuntimeError("seen")

    cpp_extension.load = from_files
    builder(Fake(), tmp_path)
    source = tmp_path / "k.cpp"
    source.write_text("int a;")
    with pytest.raises(RuntimeError, match="seen"):
        cpp_extension.load("k", [str(source)], ["-O3"])
    assert (seen["name"], seen["extra_cflags"]) == ("k", ["-O3"])


def test_files_that_are_missing_are_recorded(tmp_path: Path) -> None:
    made, _ = builder(Fake(), tmp_path)
    with pytest.raises(FileNotFoundError):
        cpp_extension.load(name="k", sources=[str(tmp_path / "k.cpp")])
    assert made.records[0].error is not None
    assert "k.cpp" in made.records[0].error


def test_long_sources_are_quoted_shortened(tmp_path: Path) -> None:
    _, load = builder(Fake(), tmp_path)
    with pytest.raises(ContractFault) as caught:
        load(name="x", cuda_sources="k" * 10_000)
    assert len(str(caught.value)) < 500


@needs_gxx
@pytest.mark.parametrize(
    "call",
    [
        {"cpp_sources": "c", "functions": ["f", "ns::g"]},
        {"cpp_sources": "c", "functions": "f"},
        {"cpp_sources": "c", "functions": {"f": "docs"}},
        {"cpp_sources": ["a", "b"], "functions": []},
        {"cpp_sources": ""},
    ],
    ids=str,
)
def test_what_torch_takes_is_taken(tmp_path: Path, library: Path, call: dict[str, Any]) -> None:
    _, load = builder(Fake(library), tmp_path)
    load(name="fake", **call)


# --- real builds ------------------------------------------------------------------------------


def scaled(module: Any, factor: float) -> float:
    x, y = torch.ones(3), torch.empty(3)
    module.scale(x.data_ptr(), y.data_ptr(), 3, factor)
    return float(y[0])


def times(number: int) -> str:
    return SCALE_SOURCE.replace("(float)factor", f"{number} * (float)factor")


@needs_gxx
def test_one_name_with_two_sources_is_two_libraries_in_one_solution(tmp_path: Path) -> None:
    made, load = builder(cpp_extension.load_inline, tmp_path)
    two = load(name="fused", cpp_sources=times(2), no_implicit_headers=True)
    three = load(name="fused", cpp_sources=times(3), no_implicit_headers=True)
    assert (scaled(two, 1.0), scaled(three, 1.0)) == (2.0, 3.0)
    assert [record.cached for record in made.records] == [False, False]
    _, load = builder(cpp_extension.load_inline, tmp_path)  # from the cache, in another order
    three = load(name="fused", cpp_sources=times(3), no_implicit_headers=True)
    two = load(name="fused", cpp_sources=times(2), no_implicit_headers=True)
    assert (scaled(two, 1.0), scaled(three, 1.0)) == (2.0, 3.0)


@needs_gxx
def test_one_name_in_two_solutions_is_each_ones_own_library(tmp_path: Path) -> None:
    own = cpp_extension.load_inline
    results = []
    for salt, number in (("first", 5), ("second", 7)):
        cpp_extension.load_inline = own
        _, load = builder(own, tmp_path, salt=salt)
        module = load(name="mine", cpp_sources=times(number), no_implicit_headers=True)
        results.append(scaled(module, 1.0))
    assert results == [5.0, 7.0]


@needs_gxx
def test_files_are_built_anew_when_their_text_changes(tmp_path: Path) -> None:
    source, cache = tmp_path / "k.cpp", tmp_path / "cache"
    own, results = cpp_extension.load, []
    for number in (2, 3):
        cpp_extension.load = own
        made = Builder(cache=cache, salt="s")
        made.install()
        source.write_text(times(number))
        results.append(scaled(cpp_extension.load(name="k", sources=[str(source)]), 1.0))
    assert results == [2.0, 3.0]
