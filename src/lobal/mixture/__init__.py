"""The model: experts, a gate that weighs them, and their training."""
