"""Settings: every key is stated and explained, every bad one is named, flags win."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import cli, config, records, run, setting_rules
from harness.config import PRESETS, Settings, load
from harness.errors import RequestError
from harness.shared import draws

NAMES = sorted(path.stem for path in PRESETS.glob("*.yaml"))


def preset(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def test_the_presets_are_all_there_and_load() -> None:
    assert NAMES == ["default", "quick", "strict"]
    for name in NAMES:
        assert load(name, {}) == load(PRESETS / f"{name}.yaml", {})


@pytest.mark.parametrize("name", NAMES)
def test_the_command_line_takes_a_preset_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    requests: list[run.Request] = []
    monkeypatch.setattr(run, "execute", lambda request, screen: requests.append(request) or [])
    assert cli.main(["--problem", "mse", "--config", name, "--dtype", "float16"]) == 0
    assert requests[0].settings == load(name, {"dtype": "float16"})


def test_an_unknown_preset_on_the_command_line_is_one_line_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["--problem", "mse", "--config", "quik"]) == 2
    assert capsys.readouterr().err == "error: no preset 'quik': nearest: quick\n"


def test_default_states_every_key_with_its_default() -> None:
    stated = yaml.safe_load((PRESETS / "default.yaml").read_text())
    assert set(stated) == set(config.KEYS)
    assert load("default", {}) == Settings()
    assert load(None, {}) == Settings()


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_a_preset_that_says_something_says_what_it_means(name: str) -> None:
    for line in (PRESETS / f"{name}.yaml").read_text().splitlines():
        if line and not line.startswith("#"):
            _, mark, comment = line.partition(" # ")
            assert mark, line
            assert len(comment.split()) >= 1, line
            if ":" in line.split("#")[0]:
                assert len(comment) > 10, line


def test_every_field_has_a_rule_and_a_docstring() -> None:
    assert tuple(setting_rules.RULES) == config.KEYS
    body = ast.parse(inspect.getsource(Settings)).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(text, ast.Expr), ast.unparse(field)
            assert isinstance(text.value, ast.Constant)


def test_variations_and_layouts_are_those_of_the_registries() -> None:
    assert setting_rules.VARIATIONS == tuple(draws.VARIATIONS) == Settings().variations
    assert set(setting_rules.LAYOUTS) < set(draws.LAYOUTS)


def test_quick_is_quicker_and_strict_is_stricter() -> None:
    quick, default, strict = load("quick", {}), Settings(), load("strict", {})
    assert (quick.trials, quick.epochs_min, quick.epochs_max) == (1, 3, 5)
    assert (quick.mode_budget_s, quick.compile_baseline) == (1.0, ())
    assert quick.quick
    assert not default.quick
    assert not strict.quick
    assert quick.modes == ("forward",)
    assert not quick.measure_memory
    assert not quick.profile
    assert quick.build_timeout_s == default.build_timeout_s  # not stated: the default
    assert (strict.trials, strict.half_width, strict.sandbox) == (10, 0.0015, "strict")
    assert strict.compile_baseline == ("default", "max-autotune")
    assert strict.modes == records.MODES


def test_flags_win_over_the_preset_and_absent_flags_do_not(tmp_path: Path) -> None:
    path = preset(tmp_path, "trials: 7\nepochs_min: 40\nthreads: 2\n")
    settings = load(path, {"trials": 3, "epochs_max": 50, "threads": None})
    assert (settings.trials, settings.epochs_min, settings.epochs_max) == (3, 40, 50)
    assert settings.threads == 2
    with pytest.raises(RequestError, match=r"epochs_min is 40: .*epochs_max, which is 30"):
        load(path, {})


@pytest.mark.parametrize("where", ["preset", "flag"])
def test_an_unknown_key_is_named_with_the_nearest_and_the_valid_ones(
    tmp_path: Path, where: str
) -> None:
    path = preset(tmp_path, "trails: 3\n" if where == "preset" else "")
    overrides = {} if where == "preset" else {"trails": 3}
    with pytest.raises(RequestError, match=r"'trails' is unknown \(nearest: trials") as caught:
        load(path, overrides)
    assert all(key in str(caught.value) for key in config.KEYS)
    assert (str(path) in str(caught.value)) == (where == "preset")
    assert caught.value.exit_status == 2


BAD: list[tuple[str, Any]] = [
    ("device", "gpu"),
    ("device", "cuda:x"),
    ("device", None),
    ("dtype", "fp16"),
    ("dtype", "torch.float32"),
    ("size", ""),
    ("size", 3),
    ("size", "a b"),
    ("trials", 0),
    ("trials", 2.5),
    ("trials", True),
    ("trials", "5"),
    ("trials", None),
    ("variations", []),
    ("variations", "scaled"),
    ("variations", ["scaled", "scaled"]),
    ("variations", ["scalled"]),
    ("variations", [["scaled"]]),
    ("modes", "forward"),
    ("modes", ["forwards"]),
    ("compile_baseline", ["fast"]),
    ("compile_baseline", None),
    ("epochs_min", 1),
    ("epochs_max", 10_000),
    ("half_width", 0),
    ("half_width", -0.1),
    ("half_width", float("nan")),
    ("half_width", "narrow"),
    ("half_width", True),
    ("mode_budget_s", float("inf")),
    ("mode_budget_s", 0),
    ("build_timeout_s", "600s"),
    ("call_timeout_s", -1),
    ("measure_memory", 1),
    ("measure_memory", "yes"),
    ("sandbox", "none"),
    ("error_ratio_limit", 0.5),
    ("error_ratio_limit", "auto"),
    ("allow_tf32", None),
    ("threads", 0),
    ("threads", 1.0),
    ("cuda_arch", 9.0),
    ("cuda_arch", "sm_90"),
    ("cuda_arch", "All"),
    ("cuda_arch", "8.6,9.0"),
    ("max_jobs", 0),
]


@pytest.mark.parametrize(("key", "value"), BAD)
def test_a_bad_value_is_named_with_its_key(tmp_path: Path, key: str, value: object) -> None:
    with pytest.raises(RequestError, match=f"{key} is ") as caught:
        Settings(**{key: value})
    shown = ", ".join(map(str, value)) or "empty" if isinstance(value, list) else repr(value)
    assert f"{key} is {shown}: " in str(caught.value)
    path = preset(tmp_path, yaml.safe_dump({key: value}))
    with pytest.raises(RequestError, match=f"mine.yaml: {key} is "):
        load(path, {})


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("device: cuda:3", "device", "cuda:3"),
        ("size: smoke", "size", "smoke"),
        ("half_width: 1e-3", "half_width", 0.001),
        ("mode_budget_s: 5", "mode_budget_s", 5.0),
        ("variations: [scaled, signs]", "variations", ("scaled", "signs")),
        ("compile_baseline: []", "compile_baseline", ()),
        ("error_ratio_limit: 4", "error_ratio_limit", 4.0),
        ("threads: null", "threads", None),
        ('cuda_arch: "8.0;9.0a+PTX"', "cuda_arch", "8.0;9.0a+PTX"),
        ("allow_tf32: yes", "allow_tf32", True),
        ("", "trials", 5),
        ("# nothing", "trials", 5),
    ],
)
def test_what_yaml_can_say_is_understood(
    tmp_path: Path, text: str, key: str, value: object
) -> None:
    found = getattr(load(preset(tmp_path, text), {}), key)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- trials", "must be lines of"),
        ("trials", "must be lines of"),
        ("trials: [", "not readable as YAML"),
        ("trials: 2\ntrials: 3\n", "trials is stated twice"),
        ("trials: !!python/object/apply:os.getcwd []", "not readable as YAML"),
        ("3: 4", "'3' is unknown"),
        ("size: 2024-13-45", "size is|not readable"),
    ],
)
def test_a_file_that_is_no_preset_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(RequestError, match=reason) as caught:
        load(preset(tmp_path, text), {})
    assert "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_preset_lists_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="nearest: strict"):
        load("strikt", {})
    with pytest.raises(RequestError, match="no preset"):
        load(tmp_path / "missing.yaml", {})


def test_the_digest_covers_what_bears_on_results_and_nothing_else() -> None:
    default = Settings().digest
    assert len(default) == 12
    assert set(default) <= set("0123456789abcdef")
    other: dict[str, Any] = {
        "device": "cpu",
        "dtype": "float16",
        "size": "smoke",
        "variations": ("scaled",),
        "layouts": (),
        "modes": ("forward",),
        "compile_baseline": (),
        "sandbox": "strict",
        "error_ratio_limit": 4.0,
        "threads": 1,
        "cuda_arch": "9.0",
        "max_jobs": 1,
    }
    for field in dataclasses.fields(Settings):
        value = getattr(Settings(), field.name)
        if field.name not in other:
            other[field.name] = not value if isinstance(value, bool) else value * 2
        if field.name == "half_width":
            other[field.name] = 0.001
        changed = Settings(**{field.name: other[field.name]}).digest != default
        assert changed == (field.name not in config.NOT_IN_DIGEST), field.name


def test_the_digest_does_not_depend_on_how_a_value_was_written(tmp_path: Path) -> None:
    path = preset(tmp_path, "mode_budget_s: 20\nmodes: [forward]\n")
    assert load(path, {}).digest == Settings(mode_budget_s=20.0, modes=("forward",)).digest


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().trials = 3  # type: ignore[misc]


def test_own_kernels_cannot_be_asked_for_without_the_pass_that_tells_whose_they_are() -> None:
    with pytest.raises(RequestError, match="require_own_kernels needs profile"):
        Settings(require_own_kernels=True, profile=False)


def test_what_is_not_as_by_default_is_told_unless_it_bears_on_no_result() -> None:
    assert Settings().told == "default"
    assert Settings(device="cpu", size="smoke", max_jobs=2).told == "default"
    changed = Settings(trials=3, modes=("forward", "backward"), allow_tf32=True, layouts=())
    assert changed.told == "trials=3 layouts= modes=forward,backward allow_tf32=true"
    assert Settings(threads=2, cuda_arch="9.0").told == "threads=2 cuda_arch=9.0"


def test_what_is_told_differs_wherever_the_digest_does() -> None:
    names = ("default", "quick", "strict")
    found = [load(name, {}) for name in names]
    assert len({one.told for one in found}) == len({one.digest for one in found})
