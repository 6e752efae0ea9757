"""The command line: one thin function per command, heavy imports inside, so that help comes at once."""

from lobal.cli.app import app as app
