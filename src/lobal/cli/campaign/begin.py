"""A new campaign: from a table of candidates, a search space, or both."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

import numpy as np
from numpy import ndarray

from lobal.active.learner import ActiveLearner
from lobal.active.search_space import SearchSpace
from lobal.cli.campaign.desk import ROW, Desk
from lobal.core.dialects import FOUND, PLAIN, Dialect, TableOptions
from lobal.core.laboratory import CHOICES, dialect_notes, holds_dates, input_matrix, warnings_of
from lobal.core.table_shape import counted
from lobal.core.tables import Table, read_table
from lobal.core.variables import Categorical, Real, Variable

MOST_LEVELS = 50  # of a category; more of them are rather names


@final
@dataclass(frozen=True, kw_only=True)
class Beginning:
    """The options of `lobal campaign new`."""

    folder: Path
    targets: tuple[str, ...]
    pool: Path | None = None
    space: Path | None = None
    inputs: tuple[str, ...] | None = None
    identifier: str | None = None
    cost: str | None = None
    options: TableOptions = FOUND
    skip_incomplete: bool = False
    failed: tuple[str, ...] = ()
    censored: str | None = None
    seed: int = 0


@final
@dataclass(frozen=True)
class Candidates:
    """Candidates as a search space takes them."""

    columns: dict[str, ndarray]
    variables: list[Variable]
    index: list[str] | list[int]  # identifiers, or numbers of rows in the file, from one
    desk: Desk
    cost: ndarray | None = None
    notes: list[str] = field(default_factory=list)


def begin(request: Beginning) -> list[str]:
    """Make the folder of a new campaign; returns notes for the user.

    Raises:
        ValueError: the options or files do not fit together.
        FileExistsError: the folder holds a campaign already.
    """
    _check(request)
    desk = Desk(targets=request.targets, failed=request.failed, censored=request.censored)
    outputs = request.targets if len(request.targets) > 1 else None
    if request.pool is None:
        assert request.space is not None
        desk = desk.in_dialect(_wanted(request.options))
        space = SearchSpace.from_json(request.space, outputs=outputs)
        _check_names(request, space.names)
        notes = [f"Inputs: {', '.join(variable.name for variable in space.variables)}."]
    else:
        found = _candidates(request, desk, read_table(request.pool, request.options))
        desk, notes = found.desk, found.notes
        given = None if request.space is None else SearchSpace.from_json(request.space)
        space = SearchSpace(
            found.variables if given is None else given.variables,
            () if given is None else given.constraints,
            pool=found.columns,
            index=found.index,
            outputs=outputs,
            cost=found.cost,
        )
    desk.save(request.folder)  # first: without a header there is no campaign yet, and `new` may be tried again
    with ActiveLearner(space, path=request.folder, seed=request.seed) as learner:
        size, is_box = len(learner.candidates), learner.is_box
    left_out = 0 if request.pool is None else len(next(iter(found.columns.values()))) - size
    if left_out:
        notes = [*notes, f"{counted(left_out, 'row')} of {request.pool} break a constraint and are left out."]
    choice = "Any feasible point may be asked for" if is_box else counted(size, "candidate")
    named = shlex.quote(str(request.folder))
    then = f"Then ask for points to label: lobal campaign ask {named} 20"
    program = f", or have a program label them: lobal run {named}" if is_box else ""
    return [*notes, f"{choice}; campaign begun in {request.folder}.", f"{then}{program}"]


def _check(request: Beginning) -> None:
    if request.pool is None and request.space is None:
        raise ValueError("candidates are needed: give a table of them as --pool, or a search space as --space")
    if not request.targets or len({*request.targets}) < len(request.targets):
        raise ValueError(f"--target must name the column of the labels, each once, got {request.targets}")
    if (request.folder / "header.json").exists():
        raise FileExistsError(f"{request.folder} holds a campaign already; go on with it, or choose another folder")
    for option, value in {"--inputs": request.inputs, "--id": request.identifier, "--cost": request.cost}.items():
        if value is not None and request.pool is None:
            raise ValueError(f"{option} names columns of a table of candidates; give that as --pool")
    if request.inputs is not None and request.space is not None:
        raise ValueError("--inputs and --space both name the inputs; give one of them")
    if request.censored not in (None, *CHOICES):
        raise ValueError(f"--censored has to be one of {', '.join(CHOICES)}, got {request.censored!r}")
    _check_columns(request)


def _check_columns(request: Beginning) -> None:
    _check_names(request, request.inputs or ())
    special = [*request.targets, *(each for each in (request.identifier, request.cost) if each is not None)]
    twice = [name for name, number in Counter(special).items() if number > 1]
    if twice:
        raise ValueError(f"--target, --id and --cost must name different columns, got {twice[0]!r} twice")


def _check_names(request: Beginning, inputs: Sequence[str]) -> None:
    """Refuse inputs that could not be told from other columns of a table."""
    clash = [name for name in inputs if name in (request.identifier, request.cost, *request.targets)]
    if clash:
        raise ValueError(f"inputs are columns other than target, cost and identifier, got {clash[0]!r}")
    if ROW in inputs and request.pool is not None and request.identifier is None:
        raise ValueError(
            f"{request.pool} has a column {ROW!r}; pass it as --id if it identifies the rows, otherwise rename it"
        )


def _wanted(options: TableOptions) -> Dialect:
    """How tables are to be written where there is none to follow."""
    return Dialect(
        separator=options.separator or PLAIN.separator,
        decimal=options.decimal or PLAIN.decimal,
        encoding=options.encoding or PLAIN.encoding,
    )


def _candidates(request: Beginning, desk: Desk, pool: Table) -> Candidates:
    """The rows of the pool with their variables."""
    if not len(pool):
        raise ValueError(f"{pool.source} has no rows below its header; it must contain all candidates")
    given = None if request.space is None else list(SearchSpace.from_json(request.space).variables)
    names = [each.name for each in given] if given is not None else _input_names(request, pool)
    _check_names(request, names)
    known = {} if given is None else {each.name: each for each in given}
    texts = [
        name for name in names if isinstance(known.get(name), Categorical) or (given is None and pool.is_text(name))
    ]
    numeric = [name for name in names if name not in texts]
    numbers = input_matrix(pool, numeric, identifier=request.identifier, skip_incomplete=request.skip_incomplete)
    part = pool.at(numbers.rows)
    columns = {
        name: numbers.values[:, numeric.index(name)] if name in numeric else _levels(part, name) for name in names
    }
    variables = given if given is not None else [_variable(name, columns[name], pool) for name in names]
    others = [each for each in (request.identifier, request.cost, *request.targets) if each is not None]
    return Candidates(
        columns,
        variables,
        [*(numbers.rows + 1).tolist()] if request.identifier is None else _identifiers(part, request.identifier),
        replace(desk.in_dialect(pool.dialect), identifier=request.identifier),
        None if request.cost is None else part.numbers(request.cost),
        [
            *dialect_notes([pool]),
            *warnings_of(pool, names, others, categories="if they are named in --inputs"),
            *numbers.notes,
        ],
    )


def _input_names(request: Beginning, pool: Table) -> list[str]:
    """The chosen columns; by default all numeric ones but for identifier, targets, cost and dates."""
    others = {request.identifier, request.cost, *request.targets}
    if request.inputs is not None:
        twice = [name for name in request.inputs if request.inputs.count(name) > 1]
        if twice:
            raise ValueError(f"--inputs must name each column once, got {twice[0]!r} twice")
        for name in request.inputs:
            pool.column(name)
        return [*request.inputs]
    names = [name for name in pool.columns if name not in others]
    found = [name for name in names if not pool.is_text(name) and not holds_dates(pool, name)]
    if not found:
        raise ValueError(
            f"{pool.source} has no numeric input columns; its columns are {', '.join(pool.columns)}; choose inputs "
            "with --inputs"
        )
    return found


def _levels(part: Table, name: str) -> ndarray:
    return np.array([str(value).strip() for value in part.column(name).tolist()], dtype=object)


def _variable(name: str, column: ndarray, pool: Table) -> Variable:
    """A number between the smallest and the largest of the pool, or a category."""
    if column.dtype == object:
        if holds_dates(pool, name):
            raise ValueError(
                f"column {name!r} of {pool.source} holds dates, which are no inputs; leave it out of --inputs, or add "
                "a column of numbers, such as days"
            )
        levels = sorted({*column.tolist()})
        if not 2 <= len(levels) <= MOST_LEVELS or "" in levels:
            raise ValueError(
                f"column {name!r} of {pool.source} has {len(levels)} different texts, some of them perhaps empty; a "
                f"category has 2 to {MOST_LEVELS}; leave the column out of --inputs"
            )
        return Categorical(name, levels)
    lower, upper = float(column.min()), float(column.max())
    if lower == upper:
        raise ValueError(f"column {name!r} of {pool.source} is {lower} in all rows; leave it out with --inputs")
    return Real(name, lower, upper)


def _identifiers(part: Table, name: str) -> list[str]:
    texts = part.identifiers(name)
    twice = [text for text, number in Counter(texts).items() if number > 1]
    if twice:
        raise ValueError(f"identifiers must be unique, but {part.source} has {twice[0]!r} in column {name!r} twice")
    return texts
