"""The run identities of a delegation, from a module that is loaded when the first delegation needs it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symfonic.kernel.contracts.run_identity import RunIdentity

_module: Any = None


def identities() -> Any:
    """The module `symfonic.kernel.contracts.run_identity`."""
    global _module
    if _module is None:
        from symfonic.kernel.contracts import run_identity

        _module = run_identity
    return _module


def current_identity() -> "RunIdentity | None":
    """The identity of the run that this code is executing in, or None outside any."""
    return (_module or identities()).current_run_identity()  # type: ignore[no-any-return]
