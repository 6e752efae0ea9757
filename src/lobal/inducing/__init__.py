"""Where inducing points go: `select` with all its methods, for the mixture and for any other sparse model."""

from lobal.inducing.select import METHODS, select, select_inducing

__all__ = ["METHODS", "select", "select_inducing"]
