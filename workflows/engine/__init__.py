"""What every loop is made of: steps, people, models, tools, children, limits."""
