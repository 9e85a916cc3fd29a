"""How the numbers are found: windows of steps, objectives over them, and the comparison of neighbours."""
