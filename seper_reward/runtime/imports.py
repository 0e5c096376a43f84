"""Imports on first use: of optional libraries, of a package's names, and of callables given by a dotted path."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from typing import Any, NamedTuple

PACKAGE = "seper-reward"


class Lack(NamedTuple):
    """A required distribution that is absent, or has a version outside the required range."""

    name: str
    needed: str
    installed: str | None

    def __str__(self) -> str:
        return f"{self.name}{self.needed}" + (f" (found {self.installed})" if self.installed else "")


def find_lacks(extra: str | None) -> list[Lack]:
    """Return the missing distributions of an extra of this package, or (``None``) of every installation."""
    from packaging.requirements import Requirement  # comes with huggingface-hub

    lacks = []
    for requirement in map(Requirement, requires(PACKAGE) or ()):
        marked = requirement.marker is not None and "extra" in str(requirement.marker)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": extra or ""})
        if marked != (extra is not None) or not wanted:
            continue
        if requirement.name == PACKAGE:
            lacks += [lack for other in sorted(requirement.extras) for lack in find_lacks(other)]
            continue
        version = installed_version(requirement.name)
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            lacks.append(Lack(requirement.name, str(requirement.specifier), version))
    return list(dict.fromkeys(lacks))


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution; ``None`` if there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def advice(extra: str | None, library: str = "") -> str:
    """Return the command that installs what an extra lacks, else what every installation does, else a ``library``."""
    library = library.partition(".")[0]
    try:
        lacks = find_lacks(extra) or find_lacks(None)
    except ImportError:  # of packaging, or of this package's metadata
        lacks = []
    names = " ".join(f"'{lack.name}{lack.needed}'" for lack in lacks)
    names = names or packages_distributions().get(library, [library])[0]  # sklearn is of scikit-learn
    return f"run: pip install {names}" + (f" (extra: {extra})" if extra else "")


def need(module: str, extra: str) -> Any:
    """Import a library of an optional extra of this package; raise ``OSError`` with the fix if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.split(".")[0]
        raise OSError(f"this needs {library} ({error}); {advice(extra, library)}") from error


def lazy_name(package: str, name: str, homes: Mapping[str, Sequence[str]]) -> Any:
    """Return a name of a package from its module (``homes``, with their names), for the package's ``__getattr__``."""
    for home, names in homes.items():
        if name in names:
            return getattr(importlib.import_module(f"{package}.{home}"), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def named_callable(setting: str, path: str) -> Callable[..., Any]:
    """Import the callable ``package.module:name``; raise ``ValueError``, which names the setting, if there is none."""
    try:
        target = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{setting}={path!r} cannot be imported as package.module:name ({error}); is its folder in PYTHONPATH?"
        ) from error
    if not callable(target):
        raise ValueError(f"{setting}={path!r} must be callable, got {target!r}")
    return target  # type: ignore[no-any-return]
