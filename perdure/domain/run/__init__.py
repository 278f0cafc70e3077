"""What all kinds of runs share: state, status, result, events, gates, control, children."""
