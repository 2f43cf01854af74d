"""Where the data lies and whether it is what it must be: downloaded files, and the arrays prepared from them."""
