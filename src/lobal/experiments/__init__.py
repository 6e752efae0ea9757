"""The paper's experiments, each runnable from the command line."""
