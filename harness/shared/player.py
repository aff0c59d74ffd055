"""Plays a trial on a model: the worker on ModelNew, and after it the judge on Model.

Playing leaves a model as it was: weights, buffers, `requires_grad` and mode.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from harness.shared.binding import Binding
from harness.shared.buffers import Buffers
from harness.shared.draws import generator, grad_outputs, surroundings
from harness.shared.encoding import text_keys
from harness.shared.problem import Instance
from harness.shared.trees import apart_from, inexact, map_tensors, once, walk_tensors
from harness.shared.trial import Call, Played, Result, Trial


@dataclass(kw_only=True)
class _Live:
    """A call under way."""

    call: Call
    inputs: list[Any]
    leaves: dict[str, torch.Tensor]
    output: Any = None
    kept: Any = None
    result: Result = field(default_factory=Result)


def detached(value: Any) -> Any:
    """`value` without its history."""
    return map_tensors(lambda tensor: tensor.detach(), value)


Alter = Callable[[Call, list[Any]], list[Any]]
Around = Callable[[str], AbstractContextManager[Any]]  # of a trial's poison


def as_they_are(call: Call, inputs: list[Any]) -> list[Any]:
    return inputs


def _nothing(poison: str) -> AbstractContextManager[Any]:
    return contextlib.nullcontext()


@dataclass(kw_only=True)
class Player:
    """Plays trials on one model.

    `alter` is applied to the inputs of each call (an oracle's are float64), `finish` to each
    result that is handed out, and `around` is what every call runs under. What a model
    itself draws at random comes from the seed of the call's inputs and `salt`.
    """

    instance: Instance
    binding: Binding
    alter: Alter = as_they_are
    finish: Callable[[Any], Any] = detached
    around: Around = _nothing
    salt: int = 0

    def play(self, trial: Trial) -> Played:
        """Make the calls. Raises `NoBackward`, and whatever the model raises."""
        live: list[_Live] = []
        several = len(trial.calls) > 1
        with self._weights(trial.weights_seed), self._only(trial.needs), self._buffers_kept():
            for call in trial.calls:
                one = self._prepare(call, trial.needs, live[-1] if live else None)
                live.append(one)
                with self.around(trial.poison):
                    self._forward(one)
                    if several:
                        one.kept = map_tensors(torch.clone, self.finish(one.output))
                    if not trial.forwards_first:
                        self._backward(one, accumulate=trial.accumulate)
            if trial.forwards_first:
                for one in live:
                    self._backward(one, accumulate=trial.accumulate)
            state = self.binding.buffers()
            if trial.weights_seed is not None:
                state |= self.binding.parameters()
            state = {name: tensor.detach().clone() for name, tensor in state.items()}
            later = [text_keys(self._apart(one.output)) for one in live] if several else []
            results = [self._result(one) for one in live]
        return Played(results=results, later=later, state=state)

    def _apart(self, value: Any) -> Any:
        """`value` as it is handed out; in copies where it shares memory with weights or buffers,
        for these are put back."""
        model = self.binding.model
        return apart_from(self.finish(value), (*model.parameters(), *model.buffers()))

    def _prepare(self, call: Call, needs: tuple[str, ...] | None, previous: _Live | None) -> _Live:
        if previous is not None and call.inputs == "same":
            return _Live(call=call, inputs=previous.inputs, leaves=previous.leaves)
        inputs = self.alter(call, self.instance.inputs(call.draw))
        if previous is not None and call.inputs == "refilled":
            into = dict(walk_tensors(previous.inputs, ""))
            for path, tensor in walk_tensors(inputs, ""):
                once(into[path]).copy_(once(tensor))
            inputs = previous.inputs
        leaves = self.instance.leaves(inputs) if call.grad else {}
        leaves = {n: leaf for n, leaf in leaves.items() if needs is None or n in needs}
        for leaf in leaves.values():
            leaf.requires_grad_(True)
        return _Live(call=call, inputs=inputs, leaves=leaves)

    def _forward(self, one: _Live) -> None:
        with self._mode(one.call.training), torch.set_grad_enabled(one.call.grad is not None):
            torch.manual_seed(one.call.draw.seed ^ self.salt)
            one.output = self.binding.model(*one.inputs)

    def _backward(self, one: _Live, *, accumulate: bool) -> None:
        if one.call.grad is None:
            return
        outputs = self.binding.differentiated(one.output)
        wanted = outputs if self.binding.outputs is None else self.binding.outputs
        # What carries a gradient beside those gets one too: where the reference has none, none
        # may come through.
        outputs = {p: t for p, t in walk_tensors(one.output, "output") if t.requires_grad}
        one.result.carries = {path: path in outputs for path in (*wanted, *outputs)}
        grad, mix = one.call.grad, one.call.draw.mix
        if mix is not None:
            grad = replace(grad, seed=grad.seed ^ mix.grads)
        grads = grad_outputs(outputs, grad, self.instance.dtype)
        one.result.grad_outputs = grads
        parameters = {n: p for n, p in self.binding.parameters().items() if p.requires_grad}
        leaves = one.leaves | parameters
        tensors, targets = list(outputs.values()), list(leaves.values())
        if accumulate:
            torch.autograd.backward(tensors, list(grads.values()))
            found = [leaf.grad for leaf in targets]
        else:
            found = list(
                torch.autograd.grad(tensors, targets, list(grads.values()), allow_unused=True)
            )
        one.result.grads = dict(zip(leaves, found, strict=True))

    def _result(self, one: _Live) -> Result:
        """What is handed out of a call, once the trial is over."""
        result, names = one.result, self.instance.input_names(one.inputs)
        result.output = text_keys(self._apart(one.output) if one.kept is None else one.kept)
        result.grads = self._apart(result.grads)
        result.inputs = {
            path: tensor.detach()
            for name, value in zip(names, one.inputs, strict=True)
            for path, tensor in walk_tensors(value, name)
        }
        if one.call.draw.layout != "contiguous":
            result.buffers = {n: surroundings(t) for n, t in result.inputs.items()}
        return result

    # --- what a trial changes for a while -------------------------------------------------

    @contextlib.contextmanager
    def _weights(self, seed: int | None) -> Iterator[None]:
        """The reference's weights of another seed. Constant ones are varied as well: a bias of
        zero or a gain of one could be left out unseen."""
        if seed is None:
            yield
            return
        own = self.binding.parameters() | self.binding.buffers()
        before = {name: once(tensor).detach().clone() for name, tensor in own.items()}
        fresh = Binding.to_itself(self.instance.model(seed))
        with torch.no_grad():
            for name, tensor in (fresh.parameters() | fresh.buffers()).items():
                if name in own:
                    once(own[name]).copy_(once(tensor))
            for name, tensor in fresh.parameters().items():
                if name in own and inexact(tensor):
                    own[name].copy_(_varied(tensor, seed, name))
        try:
            yield
        finally:
            _restore(self.binding.parameters() | self.binding.buffers(), before)

    @contextlib.contextmanager
    def _only(self, needs: tuple[str, ...] | None) -> Iterator[None]:
        """Of the parameters, only those named require grad; all lose what `.grad` held."""
        frozen = {n: p for n, p in self.binding.parameters().items() if p.requires_grad}
        for name, parameter in frozen.items():
            parameter.grad = None
            parameter.requires_grad_(needs is None or name in needs)
        try:
            yield
        finally:
            for parameter in frozen.values():
                parameter.grad = None
                parameter.requires_grad_(True)

    @contextlib.contextmanager
    def _buffers_kept(self) -> Iterator[None]:
        """Buffers are what they were, also those that only this model has."""
        buffers = Buffers.of(self.binding.model)
        try:
            yield
        finally:
            buffers.put_back()

    @contextlib.contextmanager
    def _mode(self, training: bool) -> Iterator[None]:
        """Evaluation mode, or the mode that the model was made in."""
        before = [(module, module.training) for module in self.binding.model.modules()]
        if not training:
            self.binding.model.eval()
        try:
            yield
        finally:
            for module, mode in before:
                module.training = mode


@torch.no_grad()
def _restore(tensors: dict[str, torch.Tensor], values: dict[str, torch.Tensor]) -> None:
    """Write `values`, each of a tensor's own values `once`, over those of them that are there."""
    for name, value in values.items():
        if name in tensors and once(tensors[name]).shape == value.shape:
            once(tensors[name]).copy_(value)


def _varied(tensor: torch.Tensor, seed: int, name: str) -> torch.Tensor:
    """Each value by its own factor exp(normal / 5), plus up to some tenths of the typical size;
    what was positive stays so."""
    if tensor.is_complex():
        return torch.view_as_complex(_varied(torch.view_as_real(tensor), seed, name))
    source = generator(seed, name, tensor.device)
    draw = torch.empty(tensor.shape, dtype=torch.float32, device=tensor.device)
    factor = torch.exp(draw.normal_(generator=source) / 5)
    size = float(tensor.float().square().mean().sqrt()) or 1.0
    varied = tensor * factor + 0.1 * size * draw.normal_(generator=source).abs()
    return varied.to(tensor.dtype)
