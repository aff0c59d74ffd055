"""What all evaluations of one run share, and how they get a worker."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness import ROOT, cpu, files
from harness.config import Settings
from harness.judge.device import Device
from harness.judge.process import forkserver, isolation
from harness.judge.process.fingerprint import Fingerprint
from harness.judge.process.sandbox import SourcesChanged, Worker, private_folder
from harness.judge.process.toolchain import Toolchain, worker_environment

COMPILER_BYTES = 3 << 29  # a compiler over torch's headers takes about 1.5 GB


@dataclass(kw_only=True)
class Rates:
    """`bandwidth`: (share of bytes written, bytes per second) by rising share; empty, and None,
    before they are measured."""

    bandwidth: tuple[tuple[float, float], ...] = ()
    flops_per_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Context:
    """One run: settings, device, tools, and where builds and logs are kept.

    `quiet`, entered around whatever is timed, keeps builds away from it. `started` is told of
    each worker. `rates`: what the device can do, found with the first reference that asks.
    """

    settings: Settings
    device: Device
    tools: Toolchain
    run_id: str
    cache: Path
    logs: Path
    quiet: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    started: Callable[[Worker], None] = lambda worker: None
    rates: Rates = field(default_factory=Rates)

    @property
    def isolation(self) -> str:
        """Which isolation workers get; a column of the row. Raises `MachineError` where the one
        that is asked for cannot be had."""
        return isolation.choose(self.settings.sandbox)

    @contextlib.contextmanager
    def worker(self, name: str, *, salt: str, trusted: bool = False) -> Iterator[Worker]:
        """A started worker; leaving the block ends it and all its processes.

        `salt` separates its builds from others'. A `trusted` worker never loads a solution
        and may keep compiled references from one run to the next.
        Raises as `Worker.ask` does.
        """
        with private_folder() as folder:
            environment = worker_environment(
                self.tools,
                folder=folder,
                visible_devices=self.device.visible,
                arch=self.settings.cuda_arch or self.device.arch,
                max_jobs=self.settings.max_jobs or compilers_at_once(),
            )
            if trusted:
                environment["TORCHINDUCTOR_CACHE_DIR"] = str(self._compiled)
            else:  # what Triton compiles is as much a build of the solution's as any other
                environment["TRITON_CACHE_DIR"] = str(self.builds(salt) / "triton")
            jail = self._jail(folder, salt, trusted=trusted)
            warm = self.settings.warm_workers and not jail
            worker = Worker(
                environment=environment,
                folder=folder,
                log=self.log(name),
                first={
                    "build_cache": str(self.builds(salt)),
                    "salt": salt,
                    "run": self.run_id,
                    "lean_builds": self.settings.lean_builds,
                },
                jail=jail,
                server=forkserver.shared(environment) if warm else None,
            )
            exposed = not trusted and self.isolation == isolation.PROCESS
            sources = Fingerprint.of(ROOT) if exposed else None
            with worker:
                self.started(worker)
                worker.start(self.settings.start_timeout_s)
                yield worker
            if changed := sources.changed() if sources else []:
                text = f"{changed[0]} was changed meanwhile, by the solution or by somebody else"
                raise SourcesChanged(f"{text}: look, then run again")

    def _jail(self, folder: Path, salt: str, *, trusted: bool) -> list[str]:
        """A worker writes its folder and its builds; what is compiled for references, which may
        be loaded by later runs, only one that never loads a solution."""
        if self.isolation == isolation.PROCESS:
            return []
        writable = [folder, self.builds(salt), *([self._compiled] if trusted else [])]
        return isolation.jail(folder, writable=writable, readable=[ROOT])

    def builds(self, salt: str) -> Path:
        """The folder of the builds of one solution."""
        return self.cache.resolve() / "builds" / salt

    @property
    def _compiled(self) -> Path:
        return self.cache.resolve() / "inductor" / cpu.digest()

    def log(self, name: str) -> Path:
        """The log file of one evaluation."""
        safe = files.safe_name(name, most=150, underscore="_")
        return self.logs / self.run_id / f"{safe}.log"

    def log_in_row(self, name: str) -> str:
        """How a row names that file: from the working directory on, where it lies in there."""
        path = self.log(name)
        return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)

    def on(self, settings: Settings) -> Context:
        """The same run under other settings."""
        return dataclasses.replace(self, settings=settings)


def compilers_at_once() -> int:
    """As many as there are cores, and memory for."""
    import psutil

    memory = int(psutil.virtual_memory().available // COMPILER_BYTES)
    return max(1, min(cpu.cores(), memory))
