"""Many runs at once: reports and profiles become a few tables, which answer questions over all of them."""
