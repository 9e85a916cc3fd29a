"""How the values of knobs are found: windows of steps, objectives, and comparisons of neighbouring windows."""
