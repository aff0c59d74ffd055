"""`load_inline` and `load` under a content-addressed build cache.

A build happens in a new folder and is moved to its final name only when whole, so a killed
build or a stale lock is never met again; the name holds a digest of the solution, of every
argument, of the toolchain and of the CPU, so two solutions never share a library, whatever they
call it, and no CPU gets what was built for another.

Every build is recorded, also one whose failure the solution swallows; what has failed is not tried
again in the same run (`failed`).

A build is first tried against lean headers (`headers`), in a fraction of the time. Where that
fails, for whatever reason, it is done again against torch's own, and only this one's outcome is
told.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import inspect
import json
import os
import re
import shutil
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import cpp_extension

from harness import cpu
from harness.shared import disk
from harness.worker import diagnosis, failed, headers, libraries
from harness.worker.faults import (
    CompileFault,
    ContractFault,
    KilledFault,
    MachineFault,
    describe,
)

_USAGE = (
    "cpp_sources takes C++ text (the prototypes of what cuda_sources defines), "
    "cuda_sources CUDA text, functions a list of bare function names to bind"
)


@dataclass(kw_only=True)
class Record:
    """One build: what it was called, how long it took, whether the cache had it.

    `headers`: what it was built against in the end, `lean` or `torch`; None where it was not.
    `lean_error`: why it was not lean, where that was tried.
    """

    name: str
    seconds: float
    cached: bool
    library: str | None = None
    headers: str | None = None
    lean_error: str | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One call of a build function of torch's: its arguments by name, the texts of its sources, the
    folder that the build is moved to, and the record of it."""

    build: Callable[..., Any]
    arguments: dict[str, Any]
    texts: dict[str, str]
    final: Path
    record: Record


@dataclass(kw_only=True)
class Builder:
    """Stands in for torch's two build functions while a solution is loaded. `run`: whose failures
    are not tried again; None: each is."""

    cache: Path
    salt: str
    run: str | None = None
    lean: bool = False
    source: str = ""
    source_name: str = ""
    records: list[Record] = field(default_factory=list)
    modules: list[Any] = field(default_factory=list)

    def install(self) -> None:
        """Replace torch's functions in this process."""
        inline, from_files = cpp_extension.load_inline, cpp_extension.load

        def load_inline(*args: Any, **kwargs: Any) -> Any:
            with self._recorded() as record:
                call = _inline_call(inline, args, kwargs)
                texts = {k: str(call.get(k) or "") for k in ("cpp_sources", "cuda_sources")}
                return self._build(inline, call, texts, record)

        def load(*args: Any, **kwargs: Any) -> Any:
            with self._recorded() as record:
                call = _named(_parameters(from_files), args, kwargs)
                files = call.get("sources") or []
                files = [files] if isinstance(files, str) else files
                texts = {str(f): Path(f).read_text(errors="replace") for f in files}
                return self._build(from_files, call, texts, record)

        cpp_extension.load_inline = load_inline
        cpp_extension.load = load

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[Record]:
        """Keep the record of a build, and of whatever makes it fail."""
        started = time.monotonic()
        record = Record(name="", seconds=0.0, cached=False)
        self.records.append(record)
        try:
            yield record
        except Exception as error:
            told = describe(error)
            record.error = told["message"]
            if _no_room(told["text"], self.cache):
                text = "the disk of the build cache, or of temporary files, is full: make room"
                raise MachineFault(text) from error
            raise
        finally:
            record.seconds = time.monotonic() - started

    def _build(
        self,
        build: Callable[..., Any],
        arguments: dict[str, Any],
        texts: dict[str, str],
        record: Record,
    ) -> Any:
        record.name = str(arguments["name"])
        final = self.cache / self._key(arguments, texts)
        record.cached = (final / libraries.MARKER).exists()
        known = libraries.operators()
        if record.cached:
            module = libraries.open_library(final)
        else:
            call = _Call(build=build, arguments=arguments, texts=texts, final=final, record=record)
            module = self._make(call)
        marker = json.loads((final / libraries.MARKER).read_text())
        record.library, record.headers = str(final / marker["library"]), marker["headers"]
        if isinstance(module, types.ModuleType):
            self.modules.append(module)
        else:  # a plain library, which registers operators
            self.modules.append(libraries.calls_of(libraries.operators() - known))
        return module

    def _key(self, arguments: dict[str, Any], texts: dict[str, str]) -> str:
        environment = {
            k: os.environ.get(k) for k in ("TORCH_CUDA_ARCH_LIST", "CUDA_HOME", "CC", "CXX")
        }
        text = json.dumps(
            [
                self.salt,
                torch.__version__,
                sys.version,
                cpu.digest(),
                headers.digest() if self.lean else None,
                environment,
                arguments,
                texts,
            ],
            sort_keys=True,
            default=repr,
        )
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _make(self, call: _Call) -> Any:
        """Build, unless this run has seen it fail; what torch's function returned.

        Raises as `_attempt` does, against torch's headers.
        """
        self.cache.mkdir(parents=True, exist_ok=True)
        note = call.final.with_suffix(".failed")
        if self.run and (known := failed.recall(note, self.run)):
            raise known
        try:
            return self._first_lean(call)
        except CompileFault as fault:
            passing = isinstance(fault, KilledFault) or _no_room(fault.log, self.cache)
            if self.run and not passing:
                failed.keep(note, self.run, fault)
            raise

    def _first_lean(self, call: _Call) -> Any:
        if self.lean and not call.arguments.get("use_pch"):  # it precompiles torch's extension.h
            try:
                return self._attempt(call, lean=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, torch's headers decide
                call.record.lean_error = str(error)
        return self._attempt(call, lean=False)

    def _attempt(self, call: _Call, *, lean: bool) -> Any:
        """Build in a new folder, against the lean headers or torch's, then move it to its final
        place; what torch's function returned.

        The module is not opened again from there: a second import would register its
        pybind11 types twice. Raises `CompileFault`.
        """
        folder = Path(tempfile.mkdtemp(prefix="building-", dir=self.cache))
        try:
            made = call.arguments
            if lean:
                made = headers.lean_call(made, call.texts.values(), folder)
            # Torch adds its part to the very lists that it gets: each attempt gets its own.
            made = {k: list(v) if isinstance(v, list) else v for k, v in made.items()}
            module = call.build(**(made | {"build_directory": str(folder), "verbose": False}))
        except Exception as error:
            log = str(error)
            author = diagnosis.Author(source=self.source, name=self.source_name)
            message = diagnosis.diagnose(log, folder, call.arguments, author)
            shutil.rmtree(folder, ignore_errors=True)
            if diagnosis.is_compilers(log):
                raise (KilledFault if diagnosis.killed(log) else CompileFault)(
                    message, log
                ) from None
            raise
        _keep(folder, call, headers_used="lean" if lean else "torch")
        return module


def _keep(folder: Path, call: _Call, *, headers_used: str) -> None:
    """Move a build that is whole from `folder` to its final place. Raises `CompileFault`."""
    built = sorted(folder.glob("*.so"))
    if len(built) != 1:
        shutil.rmtree(folder, ignore_errors=True)
        raise CompileFault(f"the build of {call.arguments['name']!r} left {len(built)} libraries")
    kind = "module" if call.arguments.get("is_python_module", True) else "library"
    for part in folder.glob("*.o"):
        part.unlink()
    marker = {"library": built[0].name, "kind": kind, "headers": headers_used}
    (folder / libraries.MARKER).write_text(json.dumps(marker))
    try:
        folder.rename(call.final)
    except OSError:  # another worker was first; its library is as good
        shutil.rmtree(folder, ignore_errors=True)


def _no_room(text: str, cache: Path) -> bool:
    """Whether a build failed for want of it: its log says so, and so do the disks."""
    return os.strerror(errno.ENOSPC) in text and disk.full(cache, tempfile.gettempdir())


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _named(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(names, args, strict=False)) | kwargs


def _inline_call(
    inline: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a `load_inline` call by name, checked.

    Raises `ContractFault` where an argument cannot mean what its author hoped.
    """
    names: tuple[str, ...] = ("name", "cpp_sources", "cuda_sources", "functions")
    if len(args) > len(names) or "sycl_sources" in kwargs:
        names = _parameters(inline)
    call = _named(names, args, kwargs)
    quote = ", ".join(f"{k}={_short(v)}" for k, v in call.items())
    if not isinstance(call.get("name"), str):
        raise ContractFault(f"load_inline({quote}): name must be a string")
    if call.get("cpp_sources") is None:
        raise ContractFault(f"load_inline({quote}) has no cpp_sources: {_USAGE}")
    functions = call.get("functions") or []
    functions = [functions] if isinstance(functions, str) else list(functions)
    for function in functions:
        if not re.fullmatch(r"[A-Za-z_]\w*(::\w+)*", str(function).strip()):
            raise ContractFault(
                f"load_inline({quote}): functions holds {str(function)!r}, not a name: {_USAGE}"
            )
    return call


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:45]}...{text[-10:]}"
