"""`web.fetch`: one page of the public web, without a way into anything that is not public."""
