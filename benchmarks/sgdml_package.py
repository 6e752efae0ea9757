"""Force fields of rMD17's malonaldehyde beside the sgdml package: equal settings, errors, CPU seconds.

The package is needed, without its own pins: pip install --no-deps sgdml psutil.

python benchmarks/sgdml_package.py $LOBAL_DATA/rmd17_malonaldehyde_9633.npz \
    --output docs/results/malonaldehyde/sgdml.json
"""

import json
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from lobal.core.versions import versions
from lobal.experts.interface import Hyperparameters
from lobal.molecules.field.expert import ForceExperts, dense_experts
from lobal.molecules.field.forcefield import errors_on
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.problem import Problem
from lobal.molecules.field.radial import matern52
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import train
from lobal.molecules.geometry.symmetry import permutation_group
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory

setattr(np, "in1d", np.isin)  # noqa: B010 - the package is older than NumPy 2.4, where the name is gone
N, VALIDATION = 500, 140  # configurations to learn from; what lobal's defaults choose by comes on top
SIGMA, NOISE = 15, 1e-10  # the package's bandwidth for this molecule, and its default lambda


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What the work returns, and the CPU seconds it took."""
    begun = time.process_time()
    return work(), time.process_time() - begun


def theirs(arrays: dict[str, Any], rows: np.ndarray, permutations: np.ndarray) -> dict[str, Any]:
    """The package's model of these rows, with our permutations, which are the same as its own."""
    from sgdml import train as their_training

    fields = {"type": "d", "name": np.array("malonaldehyde"), "theory": np.array("PBE"), "z": arrays["z"]}
    data = fields | {name: arrays[name] for name in "REF"}
    trainer = their_training.GDMLTrain(max_processes=1)
    task = trainer.create_task(data, len(rows), data, 10, sig=SIGMA, lam=NOISE, use_sym=False)
    task |= {f"{name}_train": arrays[name][rows] for name in "REF"}
    model: dict[str, Any] = trainer.train(task | {"perms": permutations})
    return model


def ours(learned: Trajectory, permutations: torch.Tensor) -> ForceExperts:
    """An expert with the package's kernel and settings."""
    pairs = learned.R.shape[1] * (learned.R.shape[1] - 1) // 2
    isotropic = torch.ones(pairs, dtype=torch.float64)
    kernel = MolecularKernel(radial=matern52, shared_bandwidth=isotropic, permutations=permutations)
    same = Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in (0.0, 1.0, NOISE)))
    problem = Problem(
        data=learned.labelled("cpu"),
        labels=Labels.FORCES,
        kernel=kernel,
        bandwidths=torch.tensor([float(SIGMA)], dtype=torch.float64),
        hyperparameters=same,
    )
    return dense_experts(problem)


def compared(path: Path, split: int) -> dict[str, Any]:
    """One of the file's splits."""
    from sgdml import predict as their_prediction

    everything = read_trajectory(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in ("R", "E", "F", "z", "split_train", "split_test")}
    rows, test = arrays["split_train"][split], arrays["split_test"][split]
    learned, new = everything.at(torch.as_tensor(rows[:N])), everything.at(torch.as_tensor(test))
    permutations = permutation_group(learned.R, learned.species)
    expert, our_seconds = timed(lambda: ours(learned, permutations))
    model, their_seconds = timed(lambda: theirs(arrays, rows[:N], permutations.numpy()))
    forces = their_prediction.GDMLPredict(model, max_processes=1).predict(arrays["R"][test].reshape(len(test), -1))[1]
    forces = forces.reshape(-1, *new.R.shape[1:])
    same = expert.predict(new.R).forces[0].numpy()
    off = forces - arrays["F"][test]
    result: dict[str, Any] = {
        "split": split,
        "equal_settings": {
            "cpu_seconds": our_seconds,
            "relative_difference": float(np.linalg.norm(same - forces) / np.linalg.norm(forces)),
        },
        "sgdml": {
            "cpu_seconds": their_seconds,
            "force_rmse": float(np.sqrt((off**2).mean())),
            "force_mae": float(np.abs(off).mean()),
        },
    }
    available = everything.at(torch.as_tensor(rows[: N + 5 * VALIDATION // 3]))
    for name, anisotropy in (("defaults", None), ("anisotropic", "tied")):
        settings = ForceFieldSettings(labels="forces", mixture=False, anisotropy=anisotropy)
        trained, seconds = timed(partial(train, available, settings, n=N, validation=VALIDATION))
        errors = errors_on(trained[0], new)
        result[name] = {"cpu_seconds": seconds} | errors._asdict()
    return result


def main(
    data: Annotated[Path, typer.Argument(help="rMD17's malonaldehyde, with splits.")],
    splits: Annotated[int, typer.Option(min=1, max=5)] = 3,
    output: Annotated[Path, typer.Option(help="File for the numbers.")] = Path("out/sgdml.json"),
) -> None:
    """Compare, print and keep."""
    torch.set_num_threads(1)
    results = []
    for split in range(splits):
        results.append(compared(data, split))
        print(json.dumps(results[-1], indent=1), flush=True)
    record = {
        "experiment": "force fields of malonaldehyde (rMD17, 500 configurations) beside the sgdml package, one thread",
        "command": f"python benchmarks/sgdml_package.py {data.name} --splits {splits}",
        "versions": versions() | {"sgdml": version("sgdml")},
        "results": results,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
