"""Short programs that show how the package is used; README.md lists them."""
