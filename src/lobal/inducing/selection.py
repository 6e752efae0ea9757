"""The former name of `select_inducing`."""

from lobal.inducing.select import select_inducing as inducing_points

__all__ = ["inducing_points"]
