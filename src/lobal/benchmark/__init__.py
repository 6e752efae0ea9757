"""How fast the mixture is fitted: beside stock GPyTorch, and beside what the machine allows."""
