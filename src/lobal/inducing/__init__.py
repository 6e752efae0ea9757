"""Where basis functions go."""
