"""One thread at a time."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@runtime_checkable
class Owner(Protocol):
    """What has a state that one thread at a time may use: with a `lock`, and `check_whole`."""

    _state: Any


OwnerType = TypeVar("OwnerType", bound=Owner)


def exclusive(
    method: Callable[Concatenate[OwnerType, Arguments], Result],
) -> Callable[Concatenate[OwnerType, Arguments], Result]:
    """The method, which one thread at a time runs; others wait."""

    @wraps(method)
    def alone(owner: OwnerType, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        with owner._state.lock:
            owner._state.check_whole()
            return method(owner, *arguments, **options)

    return alone
