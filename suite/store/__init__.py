"""The data and its verification: downloaded files, and the arrays prepared from them."""
