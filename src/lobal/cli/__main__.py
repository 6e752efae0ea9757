"""`python -m lobal.cli`: the command line where the script is not on the path."""

from lobal.cli.app import app

if __name__ == "__main__":
    app(prog_name="python -m lobal.cli")
