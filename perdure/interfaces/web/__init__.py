"""The page for people: inbox, runs, one run, and all that they decide there.

Every view reads and writes through the REST API, inside this process and in the visitor's name. So
a page can do nothing that a client cannot, and there is one place that says who may do what.
"""
