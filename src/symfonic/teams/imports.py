"""Tools by dotted name, from the team file's own folder first."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from symfonic.kernel.contracts.text import error_text
from symfonic.teams.mistakes import did_you_mean

_NEVER_OURS = sys.stdlib_module_names | {"symfonic"}


class ToolImportError(Exception):
    """A dotted name leads to no tool; the text says why."""


def import_tool(name: str) -> object:
    """The object at ``module:function``. Raises ToolImportError if there is none."""
    module_name, _, attribute = name.partition(":")
    found: object = _module(module_name)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            hint = did_you_mean(part, [each for each in getattr(found, "__dict__", ()) if each[0] != "_"])
            raise ToolImportError(f"{module_name!r} has no {attribute!r}{hint}") from None
    return found


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ToolImportError(f"there is no module {error.name!r}") from error
        raise ToolImportError(f"the module {name!r} cannot be imported: {error_text(error)}") from error
    except (Exception, SystemExit) as error:  # whatever a user's module does at import is a mistake in the file
        told = f"{type(error).__name__}: {error_text(error)}"
        raise ToolImportError(f"the module {name!r} cannot be imported: {told}") from error


@contextmanager
def folder_first(folder: Path) -> Iterator[None]:
    """Import from ``folder`` before anywhere else, inside the block.

    Two teams may both have a module ``tools``. So what is loaded under the names of the folder's modules, but
    comes from elsewhere, steps aside for as long, and is back afterwards.
    """
    aside = {name: module for name, module in sys.modules.items() if _shadows(name, folder, module)}
    for name in aside:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        tops = {name.partition(".")[0] for name in aside}
        for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
            del sys.modules[name]
        sys.modules.update(aside)


def _shadows(name: str, folder: Path, module: ModuleType) -> bool:
    """Whether a loaded module hides one of the folder's."""
    top = name.partition(".")[0]
    if top in _NEVER_OURS:
        return False
    ours = next((path for path in (folder / top / "__init__.py", folder / f"{top}.py") if path.is_file()), None)
    file = getattr(sys.modules.get(top, module), "__file__", None)
    return ours is not None and (file is None or Path(file).resolve() != ours.resolve())
