"""What is still to be done: nothing is lost or counted twice, whoever dies."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from harness.fleet.backlog import MAX_CHUNK, RETRIES, Backlog, Item, Unit


def numbers(unit: Unit | None) -> list[int]:
    assert unit is not None
    return [item.solution for item in unit.items]


def finish(backlog: Backlog, unit: Unit | None) -> None:
    assert unit is not None
    for number in numbers(unit):
        assert backlog.known(unit, number)


def all_of(backlog: Backlog, slot: int) -> list[tuple[int, list[int]]]:
    """(problem, solutions) of every unit that one slot takes, all of which become known."""
    taken = []
    while (unit := backlog.take(slot)) is not None:
        taken.append((unit.problem, numbers(unit)))
        finish(backlog, unit)
    return taken


def test_one_slot_takes_problem_after_problem_in_order() -> None:
    backlog = Backlog([3, 2])
    backlog.enter(0)
    taken = all_of(backlog, 0)
    assert [p for p, _ in taken] == sorted(p for p, _ in taken)
    assert [(p, n) for p, unit in taken for n in unit] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert backlog.finished


def test_slots_begin_with_problems_of_their_own() -> None:
    backlog = Backlog([10, 10, 10], slots=3)
    for slot in range(3):
        backlog.enter(slot)
    assert len({unit.problem for slot in range(3) if (unit := backlog.take(slot))}) == 3


def test_the_solutions_of_one_problem_are_split_where_there_are_fewer_problems_than_slots() -> None:
    backlog = Backlog([100], slots=4)
    for slot in range(4):
        backlog.enter(slot)
    units = [backlog.take(slot) for slot in range(4)]
    taken = [n for unit in units for n in numbers(unit)]
    assert len(set(taken)) == len(taken)
    assert all(1 < len(numbers(unit)) <= MAX_CHUNK for unit in units)


def test_chunks_get_smaller_towards_the_end() -> None:
    backlog = Backlog([64], slots=2)
    backlog.enter(0)
    backlog.enter(1)
    sizes = [len(unit) for _, unit in all_of(backlog, 0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    assert sum(sizes) == 64


def test_nobody_joins_a_problem_whose_slot_is_done_sooner_than_it_is_opened() -> None:
    backlog = Backlog([2], slots=2)
    backlog.enter(0)
    backlog.enter(1)
    first = backlog.take(0)
    idle = threading.Thread(target=lambda: units.append(backlog.take(1)))
    units: list[Unit | None] = []
    idle.start()
    finish(backlog, first)
    finish(backlog, backlog.take(0))
    assert backlog.take(0) is None
    idle.join(10)
    assert units == [None]


def test_a_slot_waits_for_what_others_may_give_back() -> None:
    backlog = Backlog([1], slots=2)
    backlog.enter(0)
    backlog.enter(1)
    held = backlog.take(0)
    units: list[Unit | None] = []
    waiting = threading.Thread(target=lambda: units.append(backlog.take(1)))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    assert held is not None
    assert backlog.lost(held, "died", 0) is None
    waiting.join(10)
    assert numbers(units[0]) == [0]


# --- lost judges --------------------------------------------------------------------------------


def test_only_who_was_being_evaluated_is_blamed_and_tried_alone() -> None:
    backlog = Backlog([6])
    backlog.enter(0)
    unit = backlog.take(0)
    assert unit is not None
    assert len(unit.items) == 3
    backlog.known(unit, 0)
    assert backlog.lost(unit, "died", 1) is None
    again = backlog.take(0)
    assert numbers(again) == [1]
    assert again is not None
    assert again.items[0].losses == ["died"]
    finish(backlog, again)
    rest = [n for _, u in all_of(backlog, 0) for n in u]
    assert rest == [2, 3, 4, 5]


def test_a_retry_goes_elsewhere_while_there_is_an_elsewhere() -> None:
    backlog = Backlog([1, 5], slots=2)
    backlog.enter(0)
    backlog.enter(1)
    unit = backlog.take(1)
    assert unit is not None
    assert unit.problem == 1
    backlog.lost(unit, "died", 0)
    following = backlog.take(1)
    assert following is not None
    assert (following.problem, 0) != (1, following.items[0].solution)
    backlog.leave(0)
    finish(backlog, following)
    assert any(p == 1 and 0 in u for p, u in all_of(backlog, 1))


def test_who_was_lost_too_often_is_given_up() -> None:
    backlog = Backlog([2])
    backlog.enter(0)
    given_up: list[Item | None] = []
    for n in range(RETRIES + 1):
        unit = backlog.take(0)
        assert unit is not None
        assert 0 in numbers(unit)
        given_up.append(backlog.lost(unit, f"died {n}", 0))
    assert given_up[:-1] == [None] * RETRIES
    assert given_up[-1] is not None
    assert given_up[-1].losses == ["died 0", "died 1", "died 2"]
    assert all_of(backlog, 0) == [(0, [1])]


def test_a_judge_that_dies_before_anything_began_is_held_against_the_first() -> None:
    backlog = Backlog([2])
    backlog.enter(0)
    losses = 0
    while (unit := backlog.take(0)) is not None:
        backlog.lost(unit, "died", None)
        losses += 1
    assert losses == 2 * (RETRIES + 1)


def test_a_late_answer_counts_for_nobody() -> None:
    backlog = Backlog([1], slots=2)
    backlog.enter(0)
    backlog.enter(1)
    lost = backlog.take(0)
    assert lost is not None
    backlog.lost(lost, "silent", 0)
    again = backlog.take(1)
    assert again is not None
    assert not backlog.known(lost, 0)
    assert backlog.known(again, 0)
    assert not backlog.known(again, 0)
    assert backlog.lost(lost, "silent again", 0) is None
    assert backlog.finished


def test_an_answer_about_somebody_else_does_not_count() -> None:
    backlog = Backlog([1, 4])
    backlog.enter(0)
    unit = backlog.take(0)
    assert unit is not None
    assert not backlog.known(unit, 99)


def test_what_a_slot_cannot_do_goes_back_without_blame() -> None:
    backlog = Backlog([1], slots=2)
    backlog.enter(0)
    backlog.enter(1)
    unit = backlog.take(0)
    assert unit is not None
    backlog.returned(unit)
    backlog.leave(0)
    again = backlog.take(1)
    assert again is not None
    assert again.items[0].losses == []


def test_nothing_is_handed_out_after_a_stop() -> None:
    backlog = Backlog([5])
    backlog.enter(0)
    backlog.stop()
    assert backlog.take(0) is None
    assert backlog.finished


@pytest.mark.parametrize("seed", range(30))
def test_every_solution_ends_exactly_once_whoever_dies(seed: int) -> None:
    """Slots at random: answers, deaths, answers after death, machines that give up."""
    draw = random.Random(seed)
    counts = [draw.randint(0, 12) for _ in range(draw.randint(1, 5))]
    backlog = Backlog(counts, slots=3)
    ended: Counter[tuple[int, int]] = Counter()
    lock = threading.Lock()

    def count(problem: int, solution: int) -> None:
        with lock:
            ended[problem, solution] += 1

    def work(slot: int) -> None:
        own = random.Random(f"{seed} {slot}")
        dead: list[Unit] = []
        backlog.enter(slot)
        while (unit := backlog.take(slot)) is not None:
            for number in numbers(unit):
                for old in dead:
                    assert not backlog.known(old, number)
                if own.random() < 0.3:
                    given_up = backlog.lost(unit, "died", own.choice([number, None]))
                    if given_up:
                        count(given_up.problem, given_up.solution)
                    dead.append(unit)
                    backlog.leave(slot)
                    backlog.enter(slot)
                    break
                if own.random() < 0.1:
                    backlog.returned(unit)
                    break
                assert backlog.known(unit, number)
                count(unit.problem, number)

    threads = [threading.Thread(target=work, args=(slot,)) for slot in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert backlog.finished
    assert ended == {(p, n): 1 for p, c in enumerate(counts) for n in range(c)}
