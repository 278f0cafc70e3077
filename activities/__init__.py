"""One verb each: small classes given their ports; workflows call them by typed reference."""
