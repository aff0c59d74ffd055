"""What the integration tests share: tiny problems, and a bench that judges a text.

Nothing here measures: a bench's baseline is empty unless a test asks for the real one, and its
settings ask for as little as a verdict needs.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import hashlib
import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from harness import catalog
from harness.config import Settings
from harness.judge import device, evaluate
from harness.judge.case import Case, open_case
from harness.judge.context import Context
from harness.judge.process import toolchain
from harness.judge.timing import baseline
from harness.judge.timing.baseline import Baseline
from harness.records import Problem, Row, Solution
from harness.source import read_solution

ROOT = Path(__file__).resolve().parent.parent

#: Two inputs, gradients for both, an output of a few elements.
TINY = """
import torch

ROWS = 8
COLUMNS = 64


class Model(torch.nn.Module):
    def forward(self, x, y):
        return ((x - y) ** 2).mean(dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]
"""

#: What passes for `TINY`.
HONEST = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return ((x - y) ** 2).mean(dim=1)
"""

#: An extension that builds in half a second, without torch's headers: scale(in, out, n, factor)
#: over addresses of float32.
SCALE_SOURCE = r"""
#include <Python.h>
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
static PyObject* scale(PyObject*, PyObject* args) {
  unsigned long long in, out;
  Py_ssize_t n;
  double factor;
  if (!PyArg_ParseTuple(args, "KKnd", &in, &out, &n, &factor)) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) ((float*)out)[i] = (float)factor * ((float*)in)[i];
  Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"scale", scale, METH_VARARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "m", nullptr, -1, methods};
PyMODINIT_FUNC GLUE(PyInit_, TORCH_EXTENSION_NAME)(void) { return PyModule_Create(&definition); }
"""

#: As little work as a verdict needs.
QUICK: dict[str, Any] = {
    "sandbox": "default",  # with fork servers; what needs namespaces asks for them
    "device": "cpu",
    "trials": 1,
    "modes": ("forward",),
    "compile_baseline": (),
    "epochs_min": 2,
    "epochs_max": 2,
    "cpu_mode_budget_s": 0.1,
    "measure_memory": False,
    "profile": False,
}


@dataclass(kw_only=True)
class Bench:
    """Judges solutions given as text. Builds of one session are shared by equal texts."""

    folder: Path
    cases: dict[tuple[Any, ...], Case] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def context(self, **changes: Any) -> Context:
        settings = Settings(**(QUICK | changes))
        return Context(
            settings=settings,
            device=device.choose(settings.device),
            tools=toolchain.find(),
            run_id=f"run{next(self.numbers)}",
            cache=self.folder / "cache",
            logs=self.folder / "logs",
        )

    def problem(self, source: str, name: str = "tiny") -> Problem:
        digest = hashlib.sha256(source.encode()).hexdigest()[:16]
        folder = self.folder / "problems" / digest
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(source)
        return catalog.load_problem(name, folder)

    def solution(self, source: str | Path, problem: Problem) -> Solution:
        """A solution as it is read, from a text or a file."""
        if isinstance(source, str):
            path = self.folder / "solutions" / f"solution{next(self.numbers)}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(source)
        else:
            path = source
        return read_solution(path.stem, path, problem)

    def case(
        self,
        problem: Problem,
        size: str = "full",
        *,
        real_baseline: bool = False,
        **changes: Any,
    ) -> Case:
        """A problem made ready, once a session for equal arguments."""
        key = (problem, size, real_baseline, tuple(sorted(changes.items())))
        if key not in self.cases:
            measure = baseline.measure if real_baseline else lambda *_, **__: Baseline()
            with mock.patch.object(baseline, "measure", measure):
                self.cases[key] = open_case(self.context(**changes), problem, size)
        # A log of its own for each evaluation.
        context = dataclasses.replace(self.cases[key].context, run_id=f"run{next(self.numbers)}")
        return dataclasses.replace(self.cases[key], context=context)

    def judge(
        self,
        source: str | Path,
        problem: str | Problem = TINY,
        size: str = "full",
        *,
        real_baseline: bool = False,
        **changes: Any,
    ) -> Row:
        """The row of a solution."""
        if isinstance(problem, str):
            problem = self.problem(problem)
        case = self.case(problem, size, real_baseline=real_baseline, **changes)
        return evaluate.evaluate(case, self.solution(source, problem))[0]

    def build(self, source: str | Path, problem: Problem, **changes: Any) -> Row:
        """The row of a solution that is only built."""
        context = self.context(**changes)
        solution = self.solution(source, problem)
        return evaluate.build_only(context, problem, solution, lambda text: None)


@contextlib.contextmanager
def judges(folder: Path, count: int = 2) -> Iterator[Callable[..., Future[Row]]]:
    """`Bench.judge` in processes of their own, `count` at a time: it mostly waits for workers."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, spawn, _open_bench, (folder,)) as pool:
        yield lambda *arguments, **options: pool.submit(_judge, *arguments, **options)
        pool.shutdown(cancel_futures=True)


_benches: list[Bench] = []


def _open_bench(folder: Path) -> None:
    own = folder / f"judge{os.getpid()}"
    own.mkdir()
    _benches.append(Bench(folder=own))


def _judge(*arguments: Any, **options: Any) -> Row:
    return _benches[0].judge(*arguments, **options)


#: The wire for scripts that stand in for a worker.
WIRE = """
import ctypes, json, os, signal, socket, struct, subprocess, sys, time
descriptor = int(sys.argv[2])
wire = socket.socket(fileno=descriptor)
def read(count):
    data = b""
    while len(data) < count:
        piece = wire.recv(count - len(data))
        if not piece:
            os._exit(9)
        data += piece
    return data
def receive():
    return json.loads(read(struct.unpack("<Q", read(8))[0]))["body"]
def send(body, trees=None, tensors=()):
    header = {"body": body, "trees": trees or {}, "tensors": list(tensors)}
    header = json.dumps(header).encode()
    wire.sendall(struct.pack("<Q", len(header)) + header)
def answer(**facts):
    send({"nonce": receive()["nonce"], "answer": facts})
"""


def constant(path: Path, name: str) -> str:
    """The text that a file assigns to `name`, without running the file."""
    tree = ast.parse(path.read_text())
    (text,) = (
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
        and isinstance(node.value, ast.Constant)
    )
    return str(text)


def gone(pid: int, within_s: float = 20.0) -> bool:
    """Whether a process ends (or is a zombie) before long."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def await_file(path: Path, within_s: float = 60.0) -> str:
    """The text of a file as soon as it has any."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.02)
    raise AssertionError(f"{path} was never written")
