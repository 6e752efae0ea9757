"""Versions of the packages that results depend on."""

import platform
from importlib.metadata import version

__version__ = "0.1.0"

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions by package, Python and lobal first."""
    return {"python": platform.python_version(), "lobal": __version__, **{name: version(name) for name in PACKAGES}}
