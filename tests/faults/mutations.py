"""Changed contents of files, by somebody who knows the format: hashes are right, values are not."""

import copy
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lobal.core.files import load_record, save_record

JSON_VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 3, 2**70, 10**400, -(10**400), 0.5, -0.5, 1e-300, 1e300, 1e-5),
    *(math.nan, math.inf, -math.inf, "", "abc", "../../etc/passwd", "\x00", "|O", "gaussian", "cuda"),
    *([], {}, [[]], [None], [1.0, "a"], {"a": 1}, {"kind": "array"}, [math.nan], ["noise"], [-1], [2, 1]),
]
NUMBERS = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1.0, 1e300, -1e300, 1e-300, 1e30, 1e-30, 1e100, 1e-100, 5.0)
TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all entries of nested tables and lists."""
    if at:
        yield at
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from places(entry, (*at, key))


def spoilt_json(value: Any, rng: np.random.Generator) -> Any:
    """The value with one entry changed, missing, doubled or wrapped."""
    spoilt = copy.deepcopy(value)
    found = list(places(spoilt))
    if not found:
        return None
    *path, key = found[rng.integers(len(found))]
    inner = spoilt
    for each in path:
        inner = inner[each]
    match int(rng.integers(10)):
        case 0:
            del inner[key]
        case 1:
            inner[key] = [inner[key]]
        case 2:
            inner[key] = {"kind": inner[key]}
        case 3 if isinstance(inner[key], list | str):
            inner[key] = inner[key] + inner[key]
        case 4 if isinstance(inner[key], int | float):
            inner[key] = inner[key] * float(rng.choice(NUMBERS))
        case _:
            inner[key] = JSON_VALUES[rng.integers(len(JSON_VALUES))]
    return spoilt


def spoilt_tensors(tensors: dict[str, Tensor], rng: np.random.Generator) -> dict[str, Tensor]:
    """The tensors with one of them changed, missing or exchanged."""
    names = sorted(name for name, tensor in tensors.items() if tensor.numel())
    if not names:
        return {}
    name, other = (str(rng.choice(names)) for _ in range(2))
    tensor = tensors[name].clone()
    changes: list[Callable[[Tensor], Tensor]] = [
        lambda t: t.flatten()[rng.permutation(t.numel())].reshape(t.shape),
        lambda t: t[:-1] if t.ndim else t[None],
        lambda t: torch.cat([t, t]) if t.ndim else t.expand(3).clone(),
        lambda t: t.flatten(),
        lambda t: t[None],
        lambda t: t.mT.contiguous() if t.ndim > 1 else t[..., None],
        lambda t: t.new_zeros(0, *t.shape[1:]),
        lambda t: t.new_zeros(10**6, 0),
        lambda t: t.new_zeros(*t.shape[:-1], 0) if t.ndim else t,
        lambda t: t.new_zeros(t.shape),
        lambda t: -t if t.dtype != torch.bool else t,
        lambda t: t.to(TYPES[rng.integers(len(TYPES))]),
        lambda t: t[:1] if t.ndim else t,
        lambda t: t[..., :1] if t.ndim else t,
    ]
    match int(rng.integers(10)):
        case 0:
            return {each: value for each, value in tensors.items() if each != name}
        case 1:
            return tensors | {name: tensors[other].clone(), other: tensor}
        case 2 | 3 | 4 | 5 if tensor.is_floating_point():
            tensor.view(-1)[rng.integers(tensor.numel())] = float(rng.choice(NUMBERS))
        case 6 if tensor.is_floating_point():
            tensor = tensor * float(rng.choice(NUMBERS))
        case 7 if tensor.dtype == torch.int64:
            tensor.view(-1)[rng.integers(tensor.numel())] = int(rng.choice([-1, 0, 1, 7, 2**62]))
        case _:
            tensor = changes[rng.integers(len(changes))](tensor)
    return tensors | {name: tensor.contiguous()}


def spoilt_record(source: Path, target: Path, rng: np.random.Generator) -> None:
    """Write a record with one, sometimes two things changed; its hash is right."""
    tensors, fields = load_record(source)
    del fields["format"]
    for _ in range(int(rng.integers(1, 3))):
        if fields and rng.random() < 0.4:
            fields = spoilt_json(fields, rng)
        else:
            tensors = spoilt_tensors(tensors, rng)
    save_record(target, tensors, fields)


def spoilt_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """The content cut, with bytes changed, missing, doubled or put in."""
    start, length = int(rng.integers(len(content))), int(rng.integers(1, 40))
    end = start + length
    match int(rng.integers(7)):
        case 0:
            return content[:start]
        case 1:
            return content[:start] + content[end:]
        case 2:
            return content[:end] + content[start:]
        case 3:
            return content[:start] + rng.bytes(length) + content[end:]
        case 4:
            words = (
                b"nan",
                b"inf",
                b"1e999",
                b"-1",
                b'"',
                b"\n",
                b",",
                b"\x00",
                b"999999999",
                b"x" * 200_000,
                b"\r",
                b"=",
            )
            return content[:start] + words[rng.integers(len(words))] + content[start:]
        case 5:
            return content[:start] + b"\xff" * length + content[end:]
        case _:
            return content[:start] + bytes([content[start] ^ (1 << int(rng.integers(8)))]) + content[start + 1 :]
