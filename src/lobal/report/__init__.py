"""What a fitted model amounts to: errors in numbers, figures to look at."""
