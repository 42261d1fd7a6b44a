"""Tasks that are text from the start: problems of data sets and files, and how their answers are compared."""
