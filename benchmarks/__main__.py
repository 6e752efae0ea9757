"""`python -m benchmarks`: time the engines on the Doppler function."""

from pathlib import Path
from typing import Annotated

import typer

from lobal.cli.checks import plain_errors, whole_numbers

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def main(
    sizes: Annotated[str, typer.Option(help="Numbers of labels, separated by commas.")] = "1024,2048,4096",
    engines: Annotated[
        str,
        typer.Option(
            help="What to time, separated by commas: analytic, adam, svgp.",
            metavar="A,B,C",
        ),
    ] = "analytic,adam,svgp",
    m: Annotated[int, typer.Option(min=1, help="Inducing points of the experts.")] = 512,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Threads on the CPU.")] = 1,
    max_epochs: Annotated[int, typer.Option(min=1, help="Largest number of epochs of the SVGP.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and models.")] = 0,
    output: Annotated[Path, typer.Option(help="Folder for the numbers.")] = Path("out/bench"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No status messages.")] = False,
) -> None:
    """Time lobal on the Doppler function, compared with a stock SVGP and with what the machine allows.

    **analytic** and **adam** are lobal's engines, **svgp** is a single sparse Gaussian process in stock GPyTorch.
    Training that **--max-epochs** cuts off is marked. Every number is the wall time of one run.

    Example: **python -m benchmarks --sizes 1024,2048,4096 --m 512 --device cpu --threads 1 --output out/bench**

    Growth of time and memory: **python -m benchmarks --engines analytic --sizes 4096,8192,16384,32768,65536,131072**
    """
    with plain_errors():
        from benchmarks.command import Plan, bench

        plan = Plan(
            sizes=whole_numbers(sizes),
            methods=[name.strip() for name in engines.split(",")],
            m=m,
            device=device,
            threads=threads,
            max_epochs=max_epochs,
            seed=seed,
        )
        bench(plan, output, quiet=quiet)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
