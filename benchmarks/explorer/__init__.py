"""docs/explorer.html: every stored study as rows that can be filtered, with the numbers behind each of them."""
