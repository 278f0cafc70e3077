"""IFBench through `perdure experiment`: does a loop follow instructions better at equal spend?"""
