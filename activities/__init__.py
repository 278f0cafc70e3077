"""One verb each: small classes given their ports; workflows call them by typed reference.

The folder lies at the top of the checkout, and is imported as `perdure.activities`.
"""
