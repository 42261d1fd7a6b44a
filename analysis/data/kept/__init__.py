"""Files of runs beside their metrics."""
