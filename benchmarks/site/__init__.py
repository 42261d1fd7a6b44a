"""The docs site: the pages of docs/ and those made of conf/, the code and stored results, as static files."""
