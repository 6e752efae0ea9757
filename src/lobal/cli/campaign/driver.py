"""A campaign driven by an external program."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import final

from lobal.active.external_program import ExternalProgram
from lobal.cli.campaign.desk import opened


@final
@dataclass(frozen=True, kw_only=True)
class Drive:
    """The options of `lobal run`."""

    command: str
    labels: int
    batch: int
    workers: int
    timeout: float | None
    retries: int


def drive(folder: Path, settings: Drive, *, progress: bool) -> list[str]:
    """Run the campaign until it has so many labels; returns how it stands then."""
    with opened(folder) as campaign:
        learner, targets = campaign.learner, campaign.desk.targets
        program = ExternalProgram(
            settings.command,
            folder,
            outputs=targets if len(targets) > 1 else None,
            timeout=settings.timeout,
            retries=settings.retries,
        )
        sizes = [*range(settings.batch, settings.labels, settings.batch), settings.labels]
        with ThreadPoolExecutor(settings.workers) as executor:
            learner.run(program, sizes=sizes, executor=executor, progress=progress)
        return learner.summary().sentences(target=", ".join(targets))
