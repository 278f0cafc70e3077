"""Tools that workers write at run time: the stages that code passes before anybody may call it."""
