"""Where basis functions go."""

from lobal.inducing.choice import METHODS, select

__all__ = ["METHODS", "select"]
