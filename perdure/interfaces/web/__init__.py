"""The page for people: inbox, runs, single runs, and everything people decide there.

Every view reads and writes through the REST API, inside this process and in the visitor's name. So
the page can do nothing that a client cannot, and permissions are decided in one place.
"""
