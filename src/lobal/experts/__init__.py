"""Gaussian processes that share everything but their bandwidth."""
