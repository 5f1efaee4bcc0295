"""The tests; a package, so that no `tests` of somebody else, left in site-packages, is taken for it."""
