"""The checks of `stepwell doctor`: the machine, the broker and the topics, and the state. Each module returns checks, and none raises."""
