"""Reading: nothing that a file holds may run, crash the judge, or be misread."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import source
from harness.errors import ProblemError
from harness.records import Problem, Solution

PROBLEM = """\
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x

def get_inputs():
    return [torch.rand(4)]
"""
SOLUTION = """\
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x
"""
KL = Problem(name="kl_div", path="kl_div.py", source=PROBLEM, digest="0" * 16)


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(tmp_path: Path, content: str | bytes, name: str = "answer.py") -> Solution:
    return source.read_solution("answer", write(tmp_path / name, content), KL)


# --- problems -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (PROBLEM.replace("class Model", "class Net"), 3, "defines no Model: it has Net"),
        (PROBLEM.replace("get_inputs", "inputs"), 7, "defines no get_inputs: it has inputs"),
        ("x = 1\n", 1, "defines no Model"),
        (PROBLEM + "def broken(:\n", 9, "invalid syntax"),
        ("", 1, "defines no Model"),
    ],
)
def test_a_problem_that_cannot_serve_names_file_and_line(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    path = write(tmp_path / "mse.py", text)
    with pytest.raises(ProblemError, match=reason) as caught:
        source.read_problem("mse", path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert (caught.value.path, caught.value.line) == (str(path), line)


@pytest.mark.parametrize(
    "binding",
    [
        "from elsewhere import Model",
        "from elsewhere import *",
        "import elsewhere as Model",
        "Model = make()",
        "try:\n    class Model: pass\nexcept ImportError:\n    pass",
        "if True:\n    Model: type = object",
    ],
)
def test_a_model_may_be_bound_in_any_way_that_only_running_can_check(
    tmp_path: Path, binding: str
) -> None:
    write(tmp_path / "mse.py", f"{binding}\ndef get_inputs(): return []\n")
    assert source.read_problem("mse", tmp_path / "mse.py").name == "mse"


def test_a_problem_must_be_text(tmp_path: Path) -> None:
    write(tmp_path / "latin.py", PROBLEM.encode() + "# é\n".encode("latin-1"))
    with pytest.raises(ProblemError, match=r"latin.py:9: not utf-8 text"):
        source.read_problem("latin", tmp_path / "latin.py")
    write(tmp_path / "bom.py", b"\xef\xbb\xbf" + PROBLEM.replace("\n", "\r\n").encode())
    assert source.read_problem("bom", tmp_path / "bom.py").source == PROBLEM


def test_a_problem_is_read_and_never_run(tmp_path: Path) -> None:
    write(tmp_path / "mse.py", f"open({str(tmp_path / 'ran')!r}, 'w')\n{PROBLEM}")
    source.read_problem("mse", tmp_path / "mse.py")
    assert not (tmp_path / "ran").exists()


# --- solutions ----------------------------------------------------------------------------------


def test_a_python_file_is_taken_whole(tmp_path: Path) -> None:
    solution = read(tmp_path, SOLUTION)
    assert solution.source == SOLUTION
    assert (solution.note, solution.fault) == ("", None)


def test_the_digest_follows_the_text_and_not_its_bytes(tmp_path: Path) -> None:
    plain = read(tmp_path, SOLUTION).digest
    assert read(tmp_path, b"\xef\xbb\xbf" + SOLUTION.encode()).digest == plain
    assert read(tmp_path, SOLUTION.replace("\n", "\r\n")).digest == plain
    assert read(tmp_path, SOLUTION.encode("utf-16")).digest == plain
    assert read(tmp_path, SOLUTION + "# more\n").digest != plain


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "answer.py holds no code (it is empty)"),
        (" \n\t\n", "answer.py holds no code (it is empty)"),
        ("None", "answer.py holds no code (None)"),
        ("null\n", "answer.py holds no code (null)"),
        (SOLUTION + 'x = "abc\n', "answer.py:6: unterminated string literal"),
        (SOLUTION.replace("ModelNew", "Fast"), "defines no ModelNew; its classes are Fast"),
        ("x = 1\n", "answer.py defines no ModelNew, nor any other class"),
        ("def f():\n    class ModelNew: pass\n", "defines no ModelNew"),
        ("# class ModelNew\n", "defines no ModelNew"),
        (SOLUTION + "\0", "answer.py"),
        (f"```python\n{SOLUTION}```\n", "a model's raw answer goes into a .md file"),
        ("x = " + "-" * 100_000 + "1", "answer.py"),
        ("x = a" + ".b" * 100_000, "answer.py"),
        ("x = 1" + "+1" * 100_000, "answer.py"),
        ("(" * 100_000, "answer.py:1: too many nested parentheses"),
        ("if 1:\n pass\n" + "elif 1:\n pass\n" * 20_000, "answer.py"),
    ],
)
def test_what_cannot_be_a_solution_is_a_fault_and_no_crash(
    tmp_path: Path, content: str, fault: str
) -> None:
    solution = read(tmp_path, content)
    assert solution.fault is not None
    assert fault in solution.fault
    assert "\n" not in solution.fault
    assert solution.devices == ("cpu", "cuda")  # said on any machine, not skipped


@pytest.mark.parametrize(
    "binding",
    ["ModelNew = Model", "from x import ModelNew", "if True:\n    class ModelNew: pass"],
)
def test_other_ways_to_bind_model_new_are_no_fault(tmp_path: Path, binding: str) -> None:
    assert read(tmp_path, binding).fault is None


def test_stray_bytes_in_a_comment_are_no_fault(tmp_path: Path) -> None:
    for odd in ("# é\n".encode("latin-1"), "# é \n".encode("latin-1"), b"# \xff\xfe\n"):
        assert read(tmp_path, odd + SOLUTION.encode()).fault is None
        assert read(tmp_path, SOLUTION.encode() + odd).fault is None


def test_random_bytes_never_crash(tmp_path: Path) -> None:
    for start in range(0, 256, 16):
        noise = bytes((start + i * 37) % 256 for i in range(999))
        for name in ("answer.py", "answer.md"):
            assert read(tmp_path, noise, name).fault is not None


def test_a_file_over_the_bound_is_not_read(tmp_path: Path) -> None:
    solution = read(tmp_path, SOLUTION + "#" * source.MAX_BYTES)
    assert solution.fault == "answer.py is larger than 1 MiB, the most that is read"
    assert solution.source == ""


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    solution = source.read_solution("gone", tmp_path / "gone.py", KL)
    assert solution.fault == "gone.py cannot be read: No such file or directory"


# --- a model's answer ---------------------------------------------------------------------------


@pytest.mark.parametrize("fence", ["```python", "```py", "```", "~~~python", "````Python", "~~~"])
@pytest.mark.parametrize("name", ["answer.md", "answer.txt", "answer"])
def test_the_fenced_block_is_the_solution(tmp_path: Path, fence: str, name: str) -> None:
    mark = fence[0] * fence.count(fence[0])
    solution = read(tmp_path, f"Here it is:\n\n{fence}\n{SOLUTION}{mark}\n\nEnjoy!\n", name)
    assert solution.fault is None
    assert solution.source == SOLUTION
    assert solution.note == "block 1 of 1, lines 4-8"


def test_the_last_block_that_defines_model_new_counts(tmp_path: Path) -> None:
    first = SOLUTION.replace("return x", "return x + 1")
    text = (
        f"```python\n{first}```\nBetter:\n```python\n{SOLUTION}```\n"
        "Use it so:\n```python\nfrom answer import ModelNew\nmodel = ModelNew()\n```\n"
        "```bash\npip install torch\n```\n"
    )
    solution = read(tmp_path, text, "answer.md")
    assert solution.source == SOLUTION
    assert solution.note == "block 2 of 4, lines 10-14"


def test_a_last_block_with_a_syntax_error_is_not_passed_over(tmp_path: Path) -> None:
    broken = SOLUTION.replace("return x", "return x +")
    text = f"```python\n{SOLUTION}```\nBetter:\n```python\n{broken}```\n"
    fault = read(tmp_path, text, "answer.md").fault
    assert fault == "answer.md:14: invalid syntax"
    assert text.split("\n")[14 - 1] == "        return x +"


def test_an_answer_that_was_cut_off_is_still_read(tmp_path: Path) -> None:
    solution = read(tmp_path, f"Here:\n```python\n{SOLUTION}", "answer.md")
    assert solution.source.rstrip() == SOLUTION.rstrip()
    assert "(never closed)" in solution.note
    assert solution.fault is None


def test_a_block_that_was_begun_again_is_two(tmp_path: Path) -> None:
    text = f"```python\nclass ModelNew(\n\nOnce more:\n```python\n{SOLUTION}```\n"
    solution = read(tmp_path, text, "answer.md")
    assert solution.source == SOLUTION
    assert solution.note.startswith("block 2 of 2")


def test_fences_in_lists_with_crlf_and_longer_fences(tmp_path: Path) -> None:
    indented = "".join(f"   {line}\r\n" for line in SOLUTION.splitlines())
    solution = read(tmp_path, f"1. So:\r\n\r\n   ```python\r\n{indented}   ```\r\n", "answer.md")
    assert solution.fault is None
    assert solution.source.strip() == SOLUTION.strip()
    quoting = SOLUTION + '"""\n```\nfenced\n```\n"""\n'
    assert read(tmp_path, f"````python\n{quoting}````\n", "answer.md").source == quoting


@pytest.mark.parametrize(
    "text",
    [
        "```markdown\n```python\nCODE```\n```\n",
        "````md\n```python\nCODE```\n````\n",
        "Here: ```python\nCODE```\n",
        "<answer>```python\nCODE```</answer>\n",
        "```python\nCODE```<|im_end|>",
        "```python\nCODE``` and that is it\n",
        "```cpp\nint x;\n```\n```python\nCODE```<|im_end|>",
        "```python\nDRAFT```\nBetter:\n```Python3\nCODE```<|eot_id|>\n",
    ],
)
@pytest.mark.parametrize("end", ["\n", ""])
def test_fences_that_share_their_line_are_read_as_programs_cut_them(
    tmp_path: Path, text: str, end: str
) -> None:
    draft = SOLUTION.replace("return x", "return x + 1")
    text = text.replace("DRAFT", draft).replace("CODE", SOLUTION.rstrip() + end)
    solution = read(tmp_path, text, "answer.md")
    assert (solution.fault, solution.source) == (None, SOLUTION)
    first = int(re.findall(r"lines (\d+)-", solution.note)[0])
    assert text.split("\n")[first - 1] == SOLUTION.split("\n")[0]


def test_a_broken_block_is_broken_however_its_fences_are_read(tmp_path: Path) -> None:
    broken = SOLUTION.replace("return x", "return x +")
    for end in ("\n```\n", "```<|im_end|>", ""):
        text = f"```python\n{SOLUTION}```\nBetter:\n```python\n{broken.rstrip()}{end}"
        assert "invalid syntax" in (read(tmp_path, text, "answer.md").fault or "")


@pytest.mark.parametrize(
    "thought", ["<think>\nDRAFT</think>\n", "No opening tag.\nDRAFT</think>\n"]
)
@pytest.mark.parametrize("answer", ["CODE", "So:\n```python\nCODE```\n"])
def test_what_was_thought_is_no_answer(tmp_path: Path, thought: str, answer: str) -> None:
    for draft in ("", "```\nclass ModelNew(\n", f"```python\n{SOLUTION}```\n"):
        text = (thought + answer).replace("DRAFT", draft).replace("CODE", SOLUTION)
        solution = read(tmp_path, text, "answer.md")
        assert (solution.fault, solution.source.strip()) == (None, SOLUTION.strip())
    fault = read(
        tmp_path, thought.replace("DRAFT", f"```python\n{SOLUTION}```\n"), "answer.md"
    ).fault
    assert fault == "answer.md holds no code (it is empty)"
    late = read(tmp_path, thought.replace("DRAFT", "") + SOLUTION + "x = (\n", "answer.md").fault
    assert late == f"answer.md:{thought.count(chr(10)) + 6}: '(' was never closed"


@pytest.mark.parametrize("name", ["answer.txt", "answer.md"])
def test_python_without_a_fence_is_taken_whole(tmp_path: Path, name: str) -> None:
    solution = read(tmp_path, SOLUTION, name)
    assert (solution.source, solution.note, solution.fault) == (SOLUTION, "", None)
    documented = f'"""Use:\n\n```python\nmodel()\n```\n"""\n{SOLUTION}'
    assert read(tmp_path, documented, name).source == documented


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\nx = 1\n```\n" * 3, "answer.md has no ModelNew in its 3 fenced blocks"),
        (f"```cpp\n{SOLUTION}```\n", "answer.md has no ModelNew in its 1 fenced block"),
        ("I am sorry, I cannot do that.\n", "answer.md has no fenced Python block"),
        ("", "answer.md holds no code (it is empty)"),
        ("None", "answer.md holds no code (None)"),
        (SOLUTION + "x = (\n", "answer.md:6: '(' was never closed"),
    ],
)
def test_an_answer_without_a_solution_is_a_fault(tmp_path: Path, text: str, fault: str) -> None:
    assert read(tmp_path, text, "answer.md").fault == fault


# --- devices ------------------------------------------------------------------------------------

CUDA, CPU, BOTH = ("cuda",), ("cpu",), ("cpu", "cuda")


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("", BOTH),
        ("m = load_inline(name='x', cpp_sources=a, cuda_sources=b)", CUDA),
        ("m = cpp_extension.load_inline('x', a, b)", CUDA),
        ("m = load_inline('x', [a])", CPU),
        ("m = load_inline(name='x', cpp_sources=[a], functions=['f'])", CPU),
        ("m = load_inline(name='x', cpp_sources=[a], cuda_sources=None)", CPU),
        ("m = load_inline(name='x', cpp_sources=[a], cuda_sources=[])", CPU),
        ("m = load_inline(name='x', cpp_sources=[a], with_cuda=True)", CUDA),
        ("m = load_inline(name='x', cpp_sources=[a], with_cuda=False)", CPU),
        ("m = load_inline(**{'name': 'x', 'cuda_sources': b})", CUDA),
        ("m = load_inline(**dict(name='x', cpp_sources=b))", CPU),
        ("m = load(name='x', sources=['a.cpp', f'{here}/kernel.cu'])", CUDA),
        ("m = load(name='x', sources=['a.cpp'])", CPU),
        ("s = '''\n#include <cuda_runtime.h>\n'''\nm = load_inline('x', s)", CUDA),
        ("s = '''\n#include <ATen/cuda/CUDAContext.h>\n'''\nm = load_inline('x', s)", CUDA),
        ("s = '''\n#include <torch/extension.h>\n'''\nm = load_inline('x', s)", CPU),
        ("import triton", CUDA),
        ("import triton.language as tl", CUDA),
        ("def f():\n    from triton import jit", CUDA),
        ("import tilelang", CUDA),
        ("import cutlass.cute as cute", CUDA),
        ("import cupy as cp", CUDA),
        ("from numba import cuda", CUDA),
        ("import numba", BOTH),
        ("# import triton, cuda_sources=", BOTH),
        ("s = 'import triton'", BOTH),
        ("'''Faster than kernel.cu, without cuda_sources.'''", BOTH),
        ("from .cuda import thing", BOTH),
        ("import tritonclient", BOTH),
        ("from torch import cuda\ncuda.is_available()", BOTH),
        ("import triton\nDEVICES = ('cpu',)", CPU),
        ("DEVICES = ['cuda', 'cpu', 'cuda']", BOTH),
        ("DEVICES = 'cuda'", CUDA),
        ("DEVICES: tuple[str, ...] = ('cpu',)", CPU),
        ("DEVICES = ('cpu',)\nDEVICES = ('cuda',)", CUDA),
    ],
)
def test_devices_come_from_the_tree_and_not_from_words(
    tmp_path: Path, text: str, devices: tuple[str, ...]
) -> None:
    solution = read(tmp_path, f"{text}\n{SOLUTION}")
    assert solution.fault is None
    assert solution.devices == devices


@pytest.mark.parametrize("value", ["()", "('gpu',)", "('cuda:0',)", "3", "None", "find()", "[[]]"])
def test_devices_that_are_none_are_a_fault(tmp_path: Path, value: str) -> None:
    fault = read(tmp_path, f"{SOLUTION}DEVICES = {value}\n").fault
    assert fault == "answer.py:6: DEVICES must be a literal tuple of 'cpu' or 'cuda'"
