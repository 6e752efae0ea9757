"""Options of commands that read and write tables, and several files after one option."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeAlias, final

import typer
from typer.core import TyperCommand

Separator: TypeAlias = Annotated[
    str | None, typer.Option("--sep", help="Between cells of CSV files: , ; or tab.", show_default="found in each file")
]
Decimal: TypeAlias = Annotated[
    str | None, typer.Option(help="Decimal mark of all files: . or ,", show_default="found in each file")
]
Encoding: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Of CSV files, such as cp1252.", show_default="as marked, UTF-8 or, where it is not, cp1252"),
]
Sheet: TypeAlias = Annotated[
    str | None, typer.Option(help="Sheet of Excel workbooks that have several.", show_default=False)
]
SkipIncomplete: TypeAlias = Annotated[
    bool, typer.Option("--skip-incomplete", help="Leave out rows whose inputs are missing or no numbers.")
]
Failed: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Labels that mean that a measurement failed, separated by commas, such as cracked,n.a.", metavar="A,B,C"
    ),
]
Censored: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="What labels such as <310 are: drop, failed; bound, as large as the bound.",
        metavar="drop|bound",
        show_default="refused",
    ),
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]


def texts_of(options: Iterable[str] | None) -> tuple[str, ...]:
    """The texts of an option that may be given several times, each time with several texts separated by commas."""
    return tuple(text.strip() for option in options or () for text in option.split(",") if text.strip())


@final
class SeveralFiles(TyperCommand):
    """A command with several files after `--pending`, once all arguments stand before it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer has its own Click or another
        """The arguments, with the option repeated before every file."""
        flags = {name for each in self.params if getattr(each, "is_flag", False) for name in each.opts}
        flags |= {*ctx.help_option_names}
        return super().parse_args(ctx, repeated(args, "--pending", flags=flags, needed=2))


def repeated(args: Sequence[str], option: str, *, flags: Iterable[str], needed: int) -> list[str]:
    """The arguments with an option repeated before all files that follow it.

    Args:
        args: as typed.
        option: which takes several files.
        flags: options without a value.
        needed: how many arguments that are no options have to stand before it; otherwise a single file follows it.
    """
    result: list[str] = []
    before, is_value, is_open = 0, False, False
    for arg in args:
        is_option = arg.startswith("-") and len(arg) > 1 and not is_value
        if not is_option and not is_value:
            if is_open and before >= needed:
                result.append(option)
            else:
                before += 1
        if is_option:
            is_open = arg == option
        is_value = is_option and "=" not in arg and arg not in {*flags}
        result.append(arg)
    return result
