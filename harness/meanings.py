"""What each verdict and each flag means, and what to try next: words for people and programs."""

from __future__ import annotations

from collections.abc import Mapping

from harness.records import QUICK, Status, Value

#: Status -> (what it means, what to try next).
MEANING: dict[Status, tuple[str, str]] = {
    Status.PASS: (
        "the same function as the reference, forward and backward; all speedups count",
        "",
    ),
    Status.FORWARD_ONLY: (
        "the forward is right, there is no backward; only the forward's speedup counts",
        "wrap the kernel in a torch.autograd.Function with a backward of its own",
    ),
    Status.WRONG_OUTPUT: (
        "an output differs from the reference's by more than its tolerance",
        "start from what the message names: the shape, the place, or the first index that differs",
    ),
    Status.WRONG_GRADIENT: (
        "the outputs are right and a gradient is not",
        "return a gradient for each argument of forward, in their order; derive it for any "
        "gradient of the output, not only for ones; check its scale",
    ),
    Status.COMPILE_ERROR: (
        "the compiler refused the code",
        "mend the first diagnostic: those after it often follow from it",
    ),
    Status.LOAD_ERROR: (
        "the file raised while it was imported",
        "the traceback is in the log; `python FILE.py` shows the same, but for a file beside it or "
        "a module of yours: a solution is judged as one file, without them",
    ),
    Status.CONTRACT_ERROR: (
        "the file does not have the form of a solution",
        "mend what the message names; ModelNew has Model's constructor and forward arguments, and "
        "its parameters",
    ),
    Status.RUNTIME_ERROR: (
        "a call raised",
        "the traceback is in the log; sizes other than the graded one are tried as well",
    ),
    Status.CRASH: (
        "the process ended: an access outside of memory, or an abort",
        "check bounds at sizes that no tile divides; compute-sanitizer names the line",
    ),
    Status.TIMEOUT: (
        "a phase took longer than it may",
        "look for a loop that never ends, or a wait between blocks that do not all run at once",
    ),
    Status.OUT_OF_MEMORY: (
        "the device's memory did not hold it",
        "do not make intermediate copies of the inputs' size",
    ),
    Status.REJECTED: (
        "what the process that ran the solution claims does not hold",
        "do all work on the current stream, within the call, on what the call was given; where the "
        "message is about the reference's time, run it again (--fresh) on an idle machine first",
    ),
    Status.NOT_EXERCISED: (
        "right, but nothing that it built ran: PyTorch did the work",
        "call the kernel in forward; look for a try/except that falls back to PyTorch",
    ),
    Status.SKIPPED: ("needs a device, or a package, that is not here", "run it where there is one"),
    Status.REFERENCE_ERROR: (
        "the problem file is at fault, not the solution",
        "mend the problem file",
    ),
    Status.HARNESS_ERROR: (
        "the harness or the machine is at fault, not the solution",
        "run it again; `run_eval.py doctor` tells what is missing",
    ),
    Status.BUILT: ("built, and not run", "evaluate it where there is a device"),
}

#: Flag (without its mode or size) -> what to know, and what to try.
FLAGS: dict[str, str] = {
    "launch_bound": "the host takes longer to launch it than the device to run it, which is what "
    "is timed: launch fewer kernels, or capture a CUDA graph",
    "host_bound": "the host cannot keep up: do less in Python, do not wait for the device",
    "unstable": "the samples did not settle: measure again on an idle machine",
    "throttled": "the card lowered its clocks meanwhile: let it cool",
    "contended": "another process used the card meanwhile: measure again alone",
    "power_capped": "the card was at its power limit: times depend on the card's cooling",
    "below_resolution": "shorter than what can be told apart: take a larger size",
    "memory_outside": "more memory was held than PyTorch counts; the peak shown includes it",
    "unclocked": "too short for the judge's own clock: the claim rests on the other rules alone",
    "reference_faster": "the reference took less beside the solution than alone: the ratio is held "
    "against the clock, the times and their shares of the limit are the worker's claim",
    "beats_limit": "faster than the limit that was measured, by less than a rejection needs",
    "work_moved": "work was moved from one phase to another: forward_backward is what counts",
    "quick": "a quick look: the backward was left out, the times are coarse",
    "compile_stored": "torch.compile's time is of an earlier run; eager takes what it took then",
    "library_only": "kernels of PyTorch's libraries took 99 % of the time or more",
    "not_profiled": "nobody looked whose kernels ran: evaluate it with profile: true",
    "values_come_again": "timed calls get whole draws of inputs in turn, which cannot be mixed: "
    "what is kept by content shows in calls on new ones alone",
    "full_headers": "built against all of torch's headers, which takes longer (docs/builds.md)",
    "no_float64": "too large for a float64 reference: precision was judged at a smaller size",
    "left_out": "a check that makes no sense for the problem, and was left out",
    "escaped": "work went on after the clock had stopped",
    "backward_wrong": "the backward is wrong or raises, where only the forward was asked for",
    "varies": "equal calls give results that differ more than the reference's",
    "contiguous_only": "raises for inputs that are not contiguous: call .contiguous() on them",
    "aligned_only": "raises for inputs that are not aligned: vector loads need a scalar path",
    "contiguous_gradient_only": "raises for gradients that are not contiguous",
    "reference_not_finite": "the reference itself gives values that are not finite",
    "timed_outputs_not_compared": "timed calls were compared by the judge's clock alone: the "
    "problem is random, changes its inputs, or keeps a state",
}


#: What to try: where arithmetic bounds it, where it is far from its limit in memory, and nearer.
ON_GPU = {
    "compute": "tensor cores, larger tiles, pipelined loads",
    "far": "read each input once, 16 bytes a thread, neighbours together; count its kernels with "
    "`profile`",
    "near": "more bytes in flight (unroll, larger loads)",
}
ON_CPU = {
    "compute": "vector instructions, tiles that stay in the cache, all cores",
    "far": "read each input once, write each output once, in vectors, on all cores",
    "near": "more bytes in flight (all cores, wider vectors)",
}

#: What `forward_only` means of a row with the flag `quick`.
QUICK_LOOK = (
    "the forward is right; a quick look leaves the backward out; only the forward's speedup counts",
    "evaluate it without --quick: backward, compiled baseline, memory and the limit are missing",
)


def meaning(row: Mapping[str, Value]) -> tuple[str, str]:
    """(what a row's verdict means, what to try next); empty for one that is not known here."""
    if is_quick_look(row):
        return QUICK_LOOK
    known = {one.value: text for one, text in MEANING.items()}
    return known.get(str(row["status"]), ("", ""))


def is_quick_look(row: Mapping[str, Value]) -> bool:
    """Whether it is `forward_only` since nobody asked for the backward."""
    flags = str(row["flags"] or "").split()
    return row["status"] == Status.FORWARD_ONLY.value and QUICK in flags


def flag_meaning(flag: str) -> str:
    """What a flag of a row means, such as `forward:beats_limit` or `no_float64:full`."""
    return next((FLAGS[part] for part in flag.split(":") if part in FLAGS), "")
