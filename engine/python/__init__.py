"""The user's functions in Python, called as Spark calls them."""
