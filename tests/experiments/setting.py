"""Running an experiment as its command line does."""

from typer.testing import CliRunner, Result

from experiments.__main__ import command


def invoke(name: str, *arguments: object) -> Result:
    return CliRunner().invoke(command(name), [str(argument) for argument in arguments])
