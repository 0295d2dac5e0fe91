"""What a config file declares: composing an experiment with its seeds and all that it sweeps over.

Invariant: what is declared depends on the files, the variables and the resolvers that `Sources`
names, and on nothing else.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from expdb import digest
from expdb.query.composed import Config, Failure
from expdb.query.conf import GLOBAL, Conf, faults, ignored_keys, leaves_of, settings_of, sound
from expdb.query.declared_results import Declared, DeclaredRun, Sources
from expdb.redact import is_secret_variable
from expdb.track.job import variant_of

VARIABLE = re.compile(r"\boc\.env:\s*([^,}\s]+)")
REFERENCE = re.compile(r"\$\{([\w.]+)\}")
BASIC = "basic"
MOST_RUNS = 10_000


def declare(conf: Conf, name: str) -> Declared:
    """Compose one experiment, with all that its file sweeps over."""
    config = sound(conf, name)
    if isinstance(config, str):
        return Declared(name=name, fault=config, sources=_sources_of_file(conf, name))
    sources = sources_of(conf, config)
    fault = next(iter(faults(conf, config)), "")
    if fault:
        return Declared(name=name, fault=fault, sources=sources)
    ignore, seed_key = ignored_keys(settings_of(config))
    raw = conf.composer.raw(config.overrides)
    found = []
    swept_over = _combinations(config)
    if isinstance(swept_over, str):
        return Declared(name=name, fault=swept_over, sources=sources)
    for swept in swept_over:
        wanted = _run(conf, config, swept, ignore, seed_key, raw)
        if isinstance(wanted, str):
            said = f"hydra.sweeper.params, {' '.join(swept)}: {wanted}"
            return Declared(name=name, fault=said, sources=sources)
        found.append(wanted)
    return Declared(
        name=name,
        runs=tuple(found),
        ignore=tuple(ignore),
        seed_key=seed_key,
        read_from=_read_from(raw),
        sources=sources,
    )


def sources_of(conf: Conf, config: Config) -> Sources | None:
    """Return what a config was made of; None where that cannot be told."""
    files = conf.composer.files(config.overrides)
    variables: set[str] = set()
    for path in files:
        try:
            variables.update(VARIABLE.findall(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError):
            return None
    open_ones = [name for name in variables if not is_secret_variable(name)]
    if any("$" in name for name in open_ones):
        return None  # which variable it is depends on others
    return Sources(files=(*files, *conf.resolver_files), variables=tuple(sorted(open_ones)))


def _sources_of_file(conf: Conf, name: str) -> Sources | None:
    """Return what the fault of a file hangs on that is no experiment by itself."""
    file = conf.files[name]
    is_alone = isinstance(file, str) or file.package != GLOBAL
    path = conf.composer.entry.folder / conf.group / f"{name}.yaml"
    return Sources(files=(path,)) if is_alone and path.is_file() else None


def _combinations(config: Config) -> list[tuple[str, ...]] | str:
    """Return the overrides of each run of the sweep that a file declares, one of none without; or
    why the sweep cannot be read.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if config.sweeper != BASIC or not config.sweep:
        return [()]
    parser = OverridesParser.create()
    choices = []
    for key, value in config.sweep.items():
        text = f"{key}={value}"
        try:
            override = parser.parse_override(text)
            is_swept = override.is_sweep_override()
            choices.append([*_one_by_one(override, str(key))] if is_swept else [text])
        except HydraException as error:
            return f"hydra.sweeper.params: {key}: {str(error).splitlines()[0]}"
    if math.prod(map(len, choices)) > MOST_RUNS:
        return f"hydra.sweeper.params declares more than {MOST_RUNS:,} runs"
    return list(itertools.product(*choices))


def _one_by_one(override: Any, key: str) -> Iterator[str]:
    from hydra.core.override_parser.types import Glob
    from hydra.errors import HydraException

    if isinstance(override.value(), Glob):
        raise HydraException("a glob names no values by itself")
    return (f"{key}={one}" for one in override.sweep_string_iterator())


def _run(
    conf: Conf,
    config: Config,
    swept: Sequence[str],
    ignore: Sequence[str],
    seed_key: str,
    raw: Any,
) -> DeclaredRun | str:
    """Return the declared run of some overrides, or why they cannot be composed."""
    others = [text for text in swept if _key(text) != seed_key]
    needs_seed = len(others) < len(swept) and _mentions(raw, seed_key)
    given = [*config.overrides, *(swept if needs_seed else others)]
    composed = config if given == [*config.overrides] else conf.composer.compose(given)
    if isinstance(composed, Failure):
        return composed.message
    canonical = composed.composed.canonical
    seeds = [text.partition("=")[2] for text in swept if _key(text) == seed_key]
    seed = seeds[-1] if seeds else composed.composed.flat.get(seed_key)
    return DeclaredRun(
        variant=variant_of(
            others, experiment_key=conf.group, seed_key=seed_key, ignore=list(ignore)
        ),
        seed=_whole(seed),
        overrides=tuple(swept),
        canonical=canonical,
        digest=digest.digest(canonical, ignore=ignore, seed_key=seed_key),
    )


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+")


def _whole(value: Any) -> int | None:
    try:
        return None if value is None or isinstance(value, bool) else int(str(value))
    except ValueError:
        return None


def _mentions(raw: Any, key: str) -> bool:
    """Tell whether an interpolation in a config may hang on a key."""
    last = key.rpartition(".")[2]
    return any("${" in text and last in text for _, text in _texts(raw))


def _texts(raw: Any) -> Iterator[tuple[str, str]]:
    return ((key, value) for key, value in leaves_of(raw) if isinstance(value, str))


def _read_from(raw: Any) -> dict[str, str]:
    """Return key -> the variable that its value comes from, also through other keys."""
    found: dict[str, str] = {}
    points_to: dict[str, set[str]] = {}
    for key, text in _texts(raw):
        if match := VARIABLE.search(text):
            found.setdefault(key, match[1])
        points_to.setdefault(key, set()).update(REFERENCE.findall(text))
    while more := dict(_through(points_to, found)):
        found |= more
    return found


def _through(
    points_to: Mapping[str, Iterable[str]], found: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for key, names in points_to.items():
        if key not in found:
            for name in names:
                if name in found:
                    yield key, found[name]
                    break
