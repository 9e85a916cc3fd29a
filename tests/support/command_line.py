"""The commands of autopipe, as they are called from a shell."""

from typer.testing import CliRunner, Result

from autopipe.cli.main import app


def autopipe(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, arguments)
